/* SPDX-License-Identifier: ISC */
/*
 * page_second.c - the step between the password and the pages
 *
 * The cookie is set, but its session opens nothing: the database answers
 * every other call with second_factor_due until postern-auth has judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/second.h"
#include "admin/view_second.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/digest.h"
#include "net/peer.h"
#include "seal/passkey.h"

struct second_login {
	struct http_request *req;
	struct admin *admin;
	struct admin_who who;
	struct arena mem;
	struct factor_state state;
	struct second answer;
	struct session_next next;
	void (*then)(struct second_login *s);
};

static void
free_login(void *arg)
{
	struct second_login *s = arg;

	press_end(s->admin, &s->who, NULL);
	secret_wipe(&s->who.op.session);
	secret_wipe(&s->next.secret);
	arena_free(&s->mem);
	free(s);
}

static const char *
return_to(struct http_request *req)
{
	const char *to = http_request_field(req, "return_to", 0);

	return session_return_to(
	    to != NULL ? to : http_request_query(req, "return_to"));
}

static void
send_page(struct second_login *s, int status, const char *error)
{
	const struct view_second view = { .name = s->state.name,
		.csrf = s->who.csrf,
		.error = error,
		.return_to = return_to(s->req),
		.totp = s->state.totp,
		.passkeys = s->state.passkeys > 0,
		.recovery = s->state.recovery };
	struct buf out = { 0 };

	view_second(&out, &view);
	http_reply_html(s->req, status, &out);
	buf_free(&out);
}

static void
on_gone(void *arg)
{
	struct second_login *s = arg;

	http_reply_redirect(s->req, "/login");
}

static void
on_state(void *arg)
{
	struct second_login *s = arg;

	if (s->state.is.status >= 500)
		page_problem(s->req, 503, "The database does not answer",
		    "Nothing was done. Try again in a moment.");
	else if (s->state.is.status >= 300)
		session_gone(s->req, &s->who, on_gone, s);
	else if (!s->state.due)
		http_reply_redirect(s->req, return_to(s->req));
	else
		s->then(s);
}

static void
start(struct http_request *req, void (*then)(struct second_login *s))
{
	struct second_login *s = xcalloc(1, sizeof(*s));

	s->req = req;
	s->admin = http_request_app(req);
	s->then = then;
	http_request_keep(req, s, free_login);
	if (!session_from_cookie(req, &s->who))
		http_reply_redirect(req, "/login");
	else
		factor_state(&s->who.op, &s->state, on_state, s);
}

static void
show(struct second_login *s)
{
	send_page(s, 200, NULL);
}

void
handle_second(struct http_request *req)
{
	start(req, show);
}

static void
on_refused(void *arg)
{
	struct second_login *s = arg;
	char text[120];

	log_warn("admin.signin_failed", KV("why", s->answer.code),
	    KV("peer", http_request_peer(s->req)->text));
	if (s->answer.status == 429) {
		snprintf(text, sizeof(text), "Too many tries. Wait %d seconds.",
		    s->answer.wait_s);
		send_page(s, 429, text);
	} else if (strcmp(second_error(&s->answer), "code") == 0) {
		send_page(s, 401, "That is not right.");
	} else {
		send_page(s, s->answer.status >= 500 ? 503 : 401,
		    change_sentence(second_error(&s->answer)));
	}
}

static void
on_judged(void *arg)
{
	struct second_login *s = arg;

	if (s->answer.status < 300) {
		session_turned(s->req, &s->who, &s->next);
		press_end(s->admin, &s->who, return_to(s->req));
		http_reply_redirect(s->req, return_to(s->req));
		return;
	}
	session_refused(s->req, &s->who, on_refused, s);
}

static void
judge(struct second_login *s)
{
	const char *code = http_request_field(s->req, "code", 0);
	const char *assertion = http_request_field(s->req, "assertion", 0);
	bool key = assertion != NULL && assertion[0] != '\0';
	struct buf question = { 0 };

	if (!session_token_of(&s->who, s->req)) {
		send_page(s, 403, "The form was old. Try again.");
		return;
	}
	session_next(s->req, &s->who, &s->next);
	second_begin_turn(&question, key ? "passkey" : "code",
	    &s->who.op.session, s->next.sha256);
	buf_lp(&question, "i", 1);
	if (!key && code != NULL && strlen(code) <= 64)
		buf_lp(&question, code, strlen(code));
	else if (!key || !second_assertion(&question, assertion, &s->mem)) {
		buf_wipe(&question);
		buf_free(&question);
		s->answer.status = 422;
		session_refused(s->req, &s->who, on_refused, s);
		return;
	}
	second_ask(s->admin, &question, &s->mem, &s->answer, on_judged, s);
}

static bool
is_ours(struct http_request *req)
{
	if (session_same_origin(http_request_app(req), req))
		return true;
	page_problem(req, 403, "Refused",
	    "The request did not come from a page of this site.");
	return false;
}

void
handle_second_post(struct http_request *req)
{
	if (is_ours(req))
		start(req, judge);
}

/* ---- challenges, for app.js */

static json_t *
bytes_json(struct str s, struct arena *mem)
{
	char *text = arena_get(mem, BASE64_LEN(s.n) + 1);

	base64url_encode(text, s.p, s.n);
	return json_string(text);
}

/* challenge, name, user, credentials... */
static void
send_challenge(struct http_request *req, const struct admin *admin,
    const struct second *s, struct arena *mem)
{
	json_t *root = json_object(), *ids = json_array();
	char rp_id[256] = "";
	size_t i;

	if (s->status >= 300 || s->n < 3 ||
	    !seal_passkey_rp_id(rp_id, sizeof(rp_id), admin->origin)) {
		const char *text = change_sentence(second_error(s));

		json_object_set_new(root, "error",
		    json_string(text != NULL ? text : "That did not work."));
		json_decref(ids);
		http_reply_json(req, s->status >= 300 ? s->status : 503, root);
		return;
	}
	for (i = 3; i < s->n; i++)
		json_array_append_new(ids, bytes_json(s->field[i], mem));
	json_object_set_new(root, "challenge", bytes_json(s->field[0], mem));
	json_object_set_new(
	    root, "name", json_stringn(s->field[1].p, s->field[1].n));
	json_object_set_new(root, "user", bytes_json(s->field[2], mem));
	json_object_set_new(root, "rp", json_string(rp_id));
	json_object_set_new(root, "ids", ids);
	http_reply_json(req, 200, root);
}

static void
on_due_challenge(void *arg)
{
	struct second_login *s = arg;

	send_challenge(s->req, s->admin, &s->answer, &s->mem);
}

static void
ask_due(struct second_login *s)
{
	struct buf question = { 0 };

	if (!session_token_of(&s->who, s->req)) {
		http_reply_empty(s->req, 403);
		return;
	}
	second_begin(&question, "challenge", &s->who.op.session);
	buf_lp(&question, "i", 1);
	second_ask(
	    s->admin, &question, &s->mem, &s->answer, on_due_challenge, s);
}

void
handle_second_challenge_post(struct http_request *req)
{
	if (is_ours(req))
		start(req, ask_due);
}

static void
on_challenge(void *arg)
{
	struct page *page = arg;

	send_challenge(page->req, page->admin, page->mine, &page->mem);
}

/* Which version and round of which message, with which fingerprint. */
static bool
put_message(struct http_request *req, struct buf *question)
{
	const char *id = http_request_field(req, "id", 0);
	const char *version = http_request_field(req, "version", 0);
	const char *round = http_request_field(req, "round", 0);
	const char *text = http_request_field(req, "digest", 0);
	unsigned char digest[32];
	struct uuid message;

	if (id == NULL || version == NULL || round == NULL || text == NULL ||
	    !uuid_from_id(&message, "msg_", str_of(id)) ||
	    !digest_parse(digest, str_of(text)))
		return false;
	buf_lp(question, message.b, sizeof(message.b));
	buf_lp(question, version, strlen(version));
	buf_lp(question, round, strlen(round));
	buf_lp(question, digest, sizeof(digest));
	return true;
}

void
handle_challenge_post(struct http_request *req)
{
	const char *purpose = http_request_field(req, "purpose", 0);
	struct page *page = page_new_action(req, sizeof(struct second));
	struct buf question = { 0 };

	if (page == NULL)
		return;
	if (purpose == NULL ||
	    (strcmp(purpose, "s") != 0 && strcmp(purpose, "r") != 0 &&
		strcmp(purpose, "a") != 0)) {
		page_bad(req, "What it is for");
		return;
	}
	second_begin(&question, "challenge", &page->who->op.session);
	buf_lp(&question, purpose, 1);
	if (purpose[0] == 'a' && !put_message(req, &question)) {
		buf_wipe(&question);
		buf_free(&question);
		page_bad(req, "What is to be approved");
		return;
	}
	second_ask(
	    page->admin, &question, &page->mem, page->mine, on_challenge, page);
}
