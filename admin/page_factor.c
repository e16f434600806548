/* SPDX-License-Identifier: ISC */
/*
 * page_factor.c - one's own second factors
 *
 * What is shown once (a secret, recovery codes) is the answer to the form
 * that made it: it has no address to come back to.
 */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/second.h"
#include "admin/step_up.h"
#include "admin/view_second.h"
#include "http/request.h"

struct factor_change {
	struct change change;
	struct second second;
	struct session_next next;
	int64_t id;
};

static struct factor_change *
start_factor(struct http_request *req, struct page **page, const char *back)
{
	struct factor_change *f;

	*page = change_new(req, sizeof(*f));
	if (*page == NULL)
		return NULL;
	f = (*page)->mine;
	snprintf(f->change.back, sizeof(f->change.back), "%s", back);
	return f;
}

static void
ask(struct page *page, struct buf *question, void (*done)(void *))
{
	struct factor_change *f = page->mine;

	second_ask(page->admin, question, &page->mem, &f->second, done, page);
}

/* A question whose right answer is a new mark. */
static void
begin_turn(struct page *page, struct buf *question, const char *name)
{
	struct factor_change *f = page->mine;

	session_next(page->req, page->who, &f->next);
	second_begin_turn(
	    question, name, &page->who->op.session, f->next.sha256);
}

/* ---- an authenticator app */

static void
on_secret(void *arg)
{
	struct page *page = arg;
	struct factor_change *f = page->mine;
	struct view_enrol view = { 0 };

	if (f->second.status >= 300 || f->second.n < 2) {
		change_fail(page, second_error(&f->second));
		return;
	}
	view.secret = f->second.field[0].p;
	view.link = f->second.field[1].p;
	view_enrol(&page->out,
	    page_shell(page, "Authenticator app", VIEW_NAV_ACCOUNT), &view);
	page_send(page, 200);
}

static void
act_totp(struct page *page)
{
	struct buf question = { 0 };

	second_begin(&question, "totp-new", &page->who->op.session);
	ask(page, &question, on_secret);
}

void
handle_totp_post(struct http_request *req)
{
	struct page *page;

	if (start_factor(req, &page, "/account") != NULL)
		change_start(page, act_totp);
}

static void
draw_codes(struct page *page)
{
	struct factor_change *f = page->mine;

	view_codes(&page->out,
	    page_shell(page, "Recovery codes", VIEW_NAV_ACCOUNT),
	    f->second.n > 0 ? f->second.field[0].p : "");
	page_send(page, 200);
}

/* A wrong first code: the app has the secret already, so only ask again. */
static void
on_unconfirmed(void *arg)
{
	struct page *page = arg;
	struct factor_change *f = page->mine;
	struct view_enrol view = { 0 };

	if (f->second.status == 404 || f->second.status == 401) {
		change_fail(page, "invalid");
		return;
	}
	view.error = change_sentence(second_error(&f->second));
	view_enrol(&page->out,
	    page_shell(page, "Authenticator app", VIEW_NAV_ACCOUNT), &view);
	page_send(page, f->second.status);
}

static void
on_confirmed(void *arg)
{
	struct page *page = arg;
	struct factor_change *f = page->mine;

	if (f->second.status < 300) {
		session_turned(page->req, page->who, &f->next);
		draw_codes(page);
		return;
	}
	session_refused(page->req, page->who, on_unconfirmed, page);
}

void
handle_totp_ok_post(struct http_request *req)
{
	struct page *page;
	struct factor_change *f = start_factor(req, &page, "/account");
	const char *code;
	struct buf question = { 0 };

	if (f == NULL)
		return;
	code = change_text(page, "confirm");
	if (code == NULL || strlen(code) > 64) {
		change_fail(page, "code");
		return;
	}
	begin_turn(page, &question, "totp-ok");
	buf_lp(&question, code, strlen(code));
	ask(page, &question, on_confirmed);
}

/* ---- recovery codes */

static void
on_codes(void *arg)
{
	struct page *page = arg;
	struct factor_change *f = page->mine;

	if (f->second.status < 300)
		draw_codes(page);
	else
		change_fail(page, second_error(&f->second));
}

static void
act_recovery(struct page *page)
{
	struct buf question = { 0 };

	second_begin(&question, "recovery", &page->who->op.session);
	ask(page, &question, on_codes);
}

void
handle_recovery_post(struct http_request *req)
{
	struct page *page;

	if (start_factor(req, &page, "/account") != NULL)
		change_start(page, act_recovery);
}

/* ---- a passkey */

/* "client-data.attestation", as app.js writes it. */
static bool
put_attestation(struct page *page, struct buf *question)
{
	struct str rest = str_of(change_text(page, "attestation"));
	struct str client = str_split(&rest, '.');
	const struct str parts[] = { rest, client };
	size_t i, n;

	for (i = 0; i < 2; i++) {
		char *to;

		if (parts[i].n == 0 || parts[i].n > 11000)
			return false;
		to = arena_get(&page->mem, parts[i].n + 4);
		if (!base64url_decode(to, &n, parts[i].p, parts[i].n))
			return false;
		buf_lp(question, to, n);
	}
	return true;
}

static void
on_registered(void *arg)
{
	struct page *page = arg;
	struct factor_change *f = page->mine;

	if (f->second.status < 300) {
		session_turned(page->req, page->who, &f->next);
		draw_codes(page);
		return;
	}
	session_refused(page->req, page->who, on_codes, page);
}

static void
act_passkey(struct page *page)
{
	const char *label = change_text(page, "label");
	struct factor_change *f = page->mine;
	struct buf question = { 0 };

	begin_turn(page, &question, "register");
	label = label != NULL && strlen(label) <= 64 ? label : "Passkey";
	buf_lp(&question, label, strlen(label));
	if (put_attestation(page, &question)) {
		ask(page, &question, on_registered);
		return;
	}
	buf_free(&question);
	f->second.status = 422;
	session_refused(page->req, page->who, on_codes, page);
}

void
handle_passkey_post(struct http_request *req)
{
	struct page *page;

	if (start_factor(req, &page, "/account") != NULL)
		change_start(page, act_passkey);
}

/* ---- the end of one */

static void
act_end(struct page *page)
{
	struct factor_change *f = page->mine;

	factor_end(&page->who->op, f->id, &f->change.is, page_arrived,
	    page_wait(page));
	page_then(page, change_done);
}

void
handle_factor_end_post(struct http_request *req)
{
	struct page *page;
	struct factor_change *f = start_factor(req, &page, "/account");

	if (f != NULL && change_number(page, "id", INT64_MAX, &f->id))
		change_start(page, act_end);
}

static void
act_reset(struct page *page)
{
	struct factor_change *f = page->mine;

	factor_reset(&page->who->op, change_text(page, "name"), &f->change.is,
	    page_arrived, page_wait(page));
	page_then(page, change_done);
}

void
handle_factor_reset_post(struct http_request *req)
{
	struct page *page;

	if (start_factor(req, &page, "/operators") != NULL)
		change_start(page, act_reset);
}
