/* SPDX-License-Identifier: ISC */
/*
 * session.c - cookies, origin checks, and the one gate of all routes
 *
 * Nothing about a session is cached: every request shows its secret to the
 * database, which answers who that is, or nobody.
 */
#include "admin/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "admin/admin.h"
#include "admin/job.h"
#include "admin/live.h"
#include "admin/page.h"
#include "base/buf.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"

#define COOKIE_TEXT BASE32_LEN(OPERATOR_SECRET)

struct asking {
	struct http_request *req;
	struct admin_who *who;
	int principal;
};

static bool
is_safe(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

bool
session_same_origin(const struct admin *admin, struct http_request *req)
{
	const char *site = http_request_header(req, "Sec-Fetch-Site");
	const char *origin = http_request_header(req, "Origin");

	if (site == NULL && origin == NULL)
		return false;
	if (site != NULL && strcmp(site, "same-origin") != 0 &&
	    strcmp(site, "none") != 0)
		return false;
	return origin == NULL || strcmp(origin, admin->origin) == 0;
}

/* Before the second factor; after it the database says which. */
static void
make_csrf(struct admin_who *who)
{
	static const char label[] = "postern.csrf.1";
	unsigned char mac[SHA256_DIGEST_LENGTH];

	HMAC(EVP_sha256(), who->op.session.b, (int)who->op.session.n,
	    (const unsigned char *)label, sizeof(label) - 1, mac, NULL);
	base32_encode(who->csrf, mac, 16);
}

bool
session_token_ok(struct http_request *req)
{
	return session_token_of(http_request_who(req), req);
}

bool
session_token_of(const struct admin_who *who, struct http_request *req)
{
	const char *token = http_request_field(req, "csrf", 0);
	struct secret have, want;

	if (token == NULL || !secret_set(&have, token, strlen(token)) ||
	    !secret_set(&want, who->csrf, strlen(who->csrf)))
		return false;
	return secret_eq(&have, &want);
}

void
session_set_cookie(struct http_request *req, const struct secret *s)
{
	char text[COOKIE_TEXT + 1], line[200];

	base32_encode(text, s->b, s->n);
	snprintf(line, sizeof(line),
	    SESSION_COOKIE "=%s; Path=/; Secure; HttpOnly; SameSite=Strict",
	    text);
	http_reply_header(req, "Set-Cookie", line);
	OPENSSL_cleanse(text, sizeof(text));
	OPENSSL_cleanse(line, sizeof(line));
}

void
session_drop_cookie(struct http_request *req)
{
	http_reply_header(req, "Set-Cookie",
	    SESSION_COOKIE
	    "=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0");
}

void
session_next(struct http_request *req, const struct admin_who *who,
    struct session_next *next)
{
	secret_random(&next->secret, OPERATOR_SECRET);
	SHA256(next->secret.b, next->secret.n, next->sha256);
	press_begin(req, who, next);
}

void
session_turned(
    struct http_request *req, struct admin_who *who, struct session_next *next)
{
	struct admin *admin = http_request_app(req);

	press_turned(admin, who);
	live_streams_turn(admin->live, &who->op.session, &next->secret);
	job_runners_turn(admin->jobs, &who->op.session, &next->secret);
	session_set_cookie(req, &next->secret);
	who->op.session = next->secret;
	secret_wipe(&next->secret);
}

static void
refuse(struct http_request *req, struct admin_who *who, bool gone,
    void (*refused)(void *arg), void *arg)
{
	who->press = (struct press_wait){
		.req = req,
		.who = who,
		.gone = gone,
		.refused = refused,
		.arg = arg,
	};
	press_refused(&who->press);
}

void
session_refused(struct http_request *req, struct admin_who *who,
    void (*refused)(void *arg), void *arg)
{
	refuse(req, who, false, refused, arg);
}

void
session_gone(struct http_request *req, struct admin_who *who,
    void (*refused)(void *arg), void *arg)
{
	refuse(req, who, true, refused, arg);
}

void
session_put_return(struct buf *out, const char *to)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~/";

	if (strcmp(to, "/q") == 0)
		return;
	buf_puts(out, "?return_to=");
	for (; *to != '\0'; to++)
		if (strchr(plain, *to) != NULL)
			buf_putc(out, *to);
		else
			buf_printf(out, "%%%02X", (unsigned char)*to);
}

const char *
session_return_to(const char *path)
{
	size_t i;

	if (path == NULL || path[0] != '/' || path[1] == '/' ||
	    path[1] == '\\' || strlen(path) > 500)
		return "/q";
	for (i = 0; path[i] != '\0'; i++)
		if (path[i] <= ' ' || path[i] == '\\' || path[i] > '~')
			return "/q";
	return path;
}

bool
session_has_role(const struct admin_who *who, const char *role)
{
	const char *line = who->session.roles;
	size_t n = strlen(role);

	while (line != NULL && *line != '\0') {
		size_t len = strcspn(line, "\n");

		if (len >= n && (len == n || line[len - n - 1] == ':') &&
		    strncmp(line + len - n, role, n) == 0)
			return true;
		line += len + (line[len] == '\n');
	}
	return false;
}

static bool
may(const struct admin_who *who, int principal)
{
	switch ((enum admin_principal)(principal & ~ADMIN_BY_ITSELF)) {
	case ADMIN_ANYBODY:
	case ADMIN_READER:
		return true;
	case ADMIN_REVIEWER:
		return session_has_role(who, "reviewer") ||
		       session_has_role(who, "senior");
	case ADMIN_PAUSER:
		return session_has_role(who, "reviewer") ||
		       session_has_role(who, "senior") ||
		       session_has_role(who, "admin");
	case ADMIN_LOOSENER:
		return session_has_role(who, "senior") ||
		       session_has_role(who, "admin");
	case ADMIN_ADMIN:
		return session_has_role(who, "admin");
	case ADMIN_CONFIG:
		return session_has_role(who, "admin") ||
		       session_has_role(who, "auditor");
	case ADMIN_WATCHER:
		return session_has_role(who, "senior") ||
		       session_has_role(who, "admin") ||
		       session_has_role(who, "auditor");
	}
	return false;
}

static void
free_who(void *arg)
{
	struct admin_who *who = arg;

	if (who->admin != NULL) /* it had a cookie */
		press_end(who->admin, who, NULL);
	secret_wipe(&who->op.session);
	OPENSSL_cleanse(who->csrf, sizeof(who->csrf));
	arena_free(&who->mem);
	free(who);
}

/* After a sign-in, back to the message that it was about. */
static void
say_signed_out(struct http_request *req)
{
	struct view_problem problem = { .heading = "Signed out",
		.text = "The session has ended, so nothing was done. Sign in "
			"and do it again.",
		.link_label = "Sign in" };
	struct str path = str_of(http_request_path(req));
	struct buf link = { 0 };

	buf_puts(&link, "/login");
	if (str_eq(str_split(&path, '/'), str_lit("")) &&
	    str_eq(str_split(&path, '/'), str_lit("m"))) {
		buf_puts(&link, "?return_to=/m/");
		buf_add_str(&link, str_split(&path, '/'));
	}
	problem.link = buf_cstr(&link);
	page_problem_send(req, 401, &problem);
	buf_free(&link);
}

/* ---- a form that comes with the secret of before (press.h) */

static void
say_gone(void *arg)
{
	struct admin_who *who = arg;

	say_signed_out(who->press.req);
}

static void
tell_again(struct http_request *req)
{
	struct admin_who *who = xcalloc(1, sizeof(*who));

	http_request_keep(req, who, free_who);
	if (!session_from_cookie(req, who)) {
		say_signed_out(req);
		return;
	}
	session_gone(req, who, say_gone, who);
}

/* Nobody: a page asks to sign in, an action says that nothing was done. */
static void
turn_away(struct http_request *req, bool factor_due)
{
	const char *query = http_request_query_text(req);
	struct buf to = { 0 }, at = { 0 };

	if (!is_safe(http_request_method(req))) {
		http_request_instead(req, tell_again);
		return;
	}
	if (strcmp(http_request_path(req), "/counts") == 0 ||
	    strcmp(http_request_path(req), "/events") == 0) {
		http_reply_empty(req, 401);
		return;
	}
	buf_puts(&to, factor_due ? "/login/second" : "/login");
	buf_puts(&at, http_request_path(req));
	if (query != NULL)
		buf_printf(&at, "?%s", query);
	session_put_return(&to, buf_cstr(&at));
	http_reply_redirect(req, buf_cstr(&to));
	buf_free(&at);
	buf_free(&to);
}

static void
on_touched(void *arg)
{
	struct asking *asking = arg;
	struct http_request *req = asking->req;
	struct admin_who *who = asking->who;
	int principal = asking->principal;

	free(asking);
	if (who->session.is.status >= 500) {
		page_problem(req, 503, "The database does not answer",
		    "Nothing was done. Try again in a moment.");
		free_who(who);
		return;
	}
	if (who->session.is.status >= 300 || who->session.name == NULL) {
		turn_away(req,
		    strcmp(who->session.is.text, "second_factor_due") == 0);
		free_who(who);
		return;
	}
	if (!may(who, principal)) {
		page_problem(req, 403, "Not allowed",
		    "Your role does not allow this, so nothing was done.");
		free_who(who);
		return;
	}
	base32_encode(who->csrf, who->session.csrf.b, sizeof(struct uuid));
	http_request_allow(req, who, free_who);
}

/* The value of a cookie; the first one, as browsers send them. */
static struct str
cookie_of(struct http_request *req, const char *name)
{
	struct str rest = str_of(http_request_header(req, "Cookie"));

	while (rest.n > 0) {
		struct str pair = str_trim(str_split(&rest, ';'));

		if (str_eq(str_split(&pair, '='), str_of(name)))
			return pair;
	}
	return (struct str){ "", 0 };
}

int64_t
session_only(struct http_request *req)
{
	const struct admin_who *who = http_request_who(req);
	unsigned long long v;

	if (who != NULL && who->only_gone)
		return 0;
	return str_to_u64(cookie_of(req, SESSION_ONLY), INT64_MAX, &v)
		   ? (int64_t)v
		   : 0;
}

void
session_set_only(struct http_request *req, int64_t tenant)
{
	char line[120];

	snprintf(line, sizeof(line),
	    SESSION_ONLY "=%lld; Path=/; Secure; HttpOnly; SameSite=Strict%s",
	    (long long)tenant, tenant == 0 ? "; Max-Age=0" : "");
	http_reply_header(req, "Set-Cookie", line);
}

void
session_drop_only(struct http_request *req)
{
	struct admin_who *who = http_request_who(req);

	who->only_gone = true;
	session_set_only(req, 0);
}

bool
session_from_cookie(struct http_request *req, struct admin_who *who)
{
	const struct str text = cookie_of(req, SESSION_COOKIE);
	struct admin *admin = http_request_app(req);

	who->admin = admin;
	who->op.db = admin->db;
	who->op.session.n = OPERATOR_SECRET;
	if (!base32_decode(
		who->op.session.b, OPERATOR_SECRET, text.p, text.n)) {
		secret_wipe(&who->op.session);
		return false;
	}
	make_csrf(who);
	return true;
}

void
admin_authorize(struct http_request *req, int principal)
{
	struct admin *admin = http_request_app(req);
	struct admin_who *who;
	struct asking *asking;

	if (!is_safe(http_request_method(req)) &&
	    !session_same_origin(admin, req)) {
		page_problem(req, 403, "Refused",
		    "The request did not come from a page of this site, so "
		    "nothing was done.");
		return;
	}
	who = xcalloc(1, sizeof(*who));
	if (!session_from_cookie(req, who)) {
		free_who(who);
		turn_away(req, false);
		return;
	}
	asking = xcalloc(1, sizeof(*asking));
	asking->req = req;
	asking->who = who;
	asking->principal = principal;
	operator_session_touch(&who->op, (principal & ADMIN_BY_ITSELF) == 0,
	    &who->mem, &who->session, on_touched, asking);
}
