/* SPDX-License-Identifier: ISC */
/*
 * page_login.c - sign in, sign out
 *
 * The database gives the salt (a fixed one for unknown names), a thread
 * computes argon2id, the database compares. One sentence answers every
 * failure, so that names cannot be tried out. It counts them for each name;
 * for each client address they are counted here, and before any of that is
 * done: else who tries many names costs argon2 each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "admin/handlers.h"
#include "admin/page.h"
#include "admin/password.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "net/ledger.h"
#include "net/peer.h"

/* So many of one address, of which ten minutes forget half, and it waits. */
#define FAILURES_MAX NET_LEDGER_TOO_MANY

struct signing {
	struct http_request *req;
	struct admin *admin;
	struct operator_salt salt;
	struct operator_signin signin;
	struct password_job job;
	struct secret session;
};

static void
free_signing(void *arg)
{
	struct signing *s = arg;

	secret_wipe(&s->job.output);
	secret_wipe(&s->session);
	free(s);
}

static void
send_form(struct http_request *req, int status, const char *name,
    const char *error, const char *return_to)
{
	const struct view_login login = { .name = name,
		.error = error,
		.return_to = session_return_to(return_to) };
	struct buf out = { 0 };

	view_login(&out, &login);
	http_reply_html(req, status, &out);
	buf_free(&out);
}

void
handle_login(struct http_request *req)
{
	struct admin *admin = http_request_app(req);

	if (admin->setup_token.n > 0 &&
	    http_request_query(req, "return_to") == NULL) {
		http_reply_redirect(req, "/setup");
		return;
	}
	send_form(req, 200, NULL, NULL, http_request_query(req, "return_to"));
}

/* Counted when it begins, so that a hundred at once are a hundred. */
static void
count_try(struct admin *admin, const struct net_peer *peer)
{
	if (!net_peer_is_local(peer))
		net_ledger_blame(
		    admin->signins, peer, (int64_t)clock_mono_ms());
}

/* It was right, or not judged at all. */
static void
uncount_try(struct signing *s)
{
	const struct net_peer *peer = http_request_peer(s->req);

	if (!net_peer_is_local(peer))
		net_ledger_forgive(
		    s->admin->signins, peer, (int64_t)clock_mono_ms());
}

static void
say_wait(struct http_request *req, unsigned seconds)
{
	char text[DEC_MAX];

	text[dec_encode(text, (int64_t)seconds)] = '\0';
	http_reply_header(req, "Retry-After", text);
}

/* From an address of which too many failed: nothing is looked at. */
static bool
has_to_wait(struct admin *admin, struct http_request *req)
{
	const struct net_peer *peer = http_request_peer(req);
	unsigned seconds = net_ledger_wait_s(
	    admin->signins, peer, FAILURES_MAX, (int64_t)clock_mono_ms());
	char text[160];

	if (seconds == 0)
		return false;
	log_warn("admin.signin_failed", KV("why", "address"),
	    KV("peer", peer->text));
	snprintf(text, sizeof(text),
	    "Too many sign-ins from your address failed, so this one was not "
	    "looked at. Wait %u minutes, or sign in from another address.",
	    (seconds + 59) / 60);
	say_wait(req, seconds);
	send_form(req, 429, http_request_field(req, "name", 0), text,
	    http_request_field(req, "return_to", 0));
	return true;
}

static void
fail(struct signing *s, int status, const char *error)
{
	log_warn("admin.signin_failed", KV("why", error),
	    KV("peer", http_request_peer(s->req)->text));
	if (status == 503)
		uncount_try(s);
	send_form(s->req, status, http_request_field(s->req, "name", 0), error,
	    http_request_field(s->req, "return_to", 0));
}

static void
on_created(void *arg)
{
	struct signing *s = arg;
	char text[120];

	if (s->signin.is.status >= 500) {
		fail(s, 503, "The database does not answer. Try again.");
		return;
	}
	if (s->signin.is.status >= 300 && s->signin.wait_s > 0) {
		snprintf(text, sizeof(text), "Too many tries. Wait %d seconds.",
		    s->signin.wait_s);
		say_wait(s->req, (unsigned)s->signin.wait_s);
		fail(s, 429, text);
		return;
	}
	if (s->signin.is.status >= 300) {
		fail(s, 401, "Name or password is wrong.");
		return;
	}
	uncount_try(s);
	log_info("admin.signin", KV("operator", s->signin.operator_id),
	    KV("second", s->signin.factor_due ? "due" : "none"));
	session_set_cookie(s->req, &s->session);
	session_set_only(s->req, 0); /* it was the choice of who was here */
	page_login_next(s->req, s->signin.factor_due);
}

void
page_login_next(struct http_request *req, bool factor_due)
{
	const char *to =
	    session_return_to(http_request_field(req, "return_to", 0));
	struct buf path = { 0 };

	if (!factor_due) {
		http_reply_redirect(req, to);
		return;
	}
	buf_puts(&path, "/login/second");
	session_put_return(&path, to);
	http_reply_redirect(req, buf_cstr(&path));
	buf_free(&path);
}

static void
on_output(void *arg)
{
	struct signing *s = arg;
	unsigned char hash[SHA256_DIGEST_LENGTH];

	if (!s->job.ok) {
		fail(s, 401, "Name or password is wrong.");
		return;
	}
	secret_random(&s->session, OPERATOR_SECRET);
	SHA256(s->session.b, s->session.n, hash);
	operator_session_create(s->admin->db,
	    http_request_field(s->req, "name", 0), s->job.output.b, hash,
	    http_request_peer(s->req)->text, &s->signin, on_created, s);
}

static void
on_salt(void *arg)
{
	struct signing *s = arg;

	if (s->salt.is.status >= 300) {
		fail(s, 503, "The database does not answer. Try again.");
		return;
	}
	s->job.done = on_output;
	s->job.arg = s;
	if (!password_start(s->admin->door, &s->job,
		http_request_field(s->req, "password", 0), s->salt.salt,
		s->salt.params))
		fail(s, 503, "Many people sign in right now. Try again.");
}

void
handle_login_post(struct http_request *req)
{
	struct admin *admin = http_request_app(req);
	const char *name = http_request_field(req, "name", 0);
	const char *password = http_request_field(req, "password", 0);
	struct signing *s;

	if (!session_same_origin(admin, req)) {
		page_problem(req, 403, "Refused",
		    "The request did not come from a page of this site.");
		return;
	}
	if (name == NULL || password == NULL || name[0] == '\0' ||
	    strlen(name) > 64 || strlen(password) > 1024) {
		send_form(req, 422, name, "Name or password is missing.",
		    http_request_field(req, "return_to", 0));
		return;
	}
	if (has_to_wait(admin, req))
		return;
	count_try(admin, http_request_peer(req));
	s = xcalloc(1, sizeof(*s));
	s->req = req;
	s->admin = admin;
	http_request_keep(req, s, free_signing);
	operator_salt(admin->db, name, &s->salt, on_salt, s);
}

struct leaving {
	struct review_answer is;
};

static void
on_ended(struct page *page)
{
	session_drop_cookie(page->req);
	http_reply_redirect(page->req, "/login");
}

void
handle_logout_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct leaving));
	struct leaving *l;

	if (page == NULL)
		return;
	l = page->mine;
	operator_session_end(&page->who->op,
	    http_request_field(req, "everywhere", 0) != NULL, &l->is,
	    page_arrived, page_wait(page));
	page_then(page, on_ended);
}
