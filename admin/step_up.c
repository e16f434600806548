/* SPDX-License-Identifier: ISC */
#include "admin/step_up.h"

#include <string.h>

#include "admin/password.h"
#include "admin/second.h"
#include "http/request.h"

struct step_up {
	struct page *page;
	struct operator_salt salt;
	struct operator_step_up answer;
	struct second second;
	struct password_job job;
	struct session_next next;
	bool signs; /* one decision, and marks no session */
	const char *error;
	page_fn *ok, *wrong;
};

static const char *
field(struct page *page, const char *name)
{
	const char *text = http_request_field(page->req, name, 0);

	return text != NULL && text[0] != '\0' ? text : NULL;
}

bool
step_up_given(struct page *page)
{
	return field(page, "assertion") != NULL ||
	       field(page, "code") != NULL || field(page, "password") != NULL;
}

static void
on_refused(void *arg)
{
	struct step_up *s = arg;

	s->page->step_up_error = s->error;
	s->wrong(s->page);
}

/* A second press is told of the first, whatever it was refused for. */
static void
fail(struct step_up *s, const char *error)
{
	secret_wipe(&s->next.secret);
	s->error = error;
	session_refused(s->page->req, s->page->who, on_refused, s);
}

/* Right: the session goes on under another secret. */
static void
pass(struct step_up *s)
{
	session_turned(s->page->req, s->page->who, &s->next);
	s->ok(s->page);
}

static void
on_marked(void *arg)
{
	struct step_up *s = arg;

	if (s->answer.is.status < 300)
		pass(s);
	else if (s->answer.is.status == 429)
		fail(s, "slow");
	else if (s->answer.is.status == 403)
		fail(s, "again"); /* meanwhile there is a second factor */
	else if (s->answer.is.status == 409)
		fail(s, "out"); /* confirmed twice at once, the other first */
	else if (s->answer.is.status < 500)
		fail(s, "password");
	else
		page_refuse(s->page, &s->answer.is);
}

static void
on_output(void *arg)
{
	struct step_up *s = arg;

	if (!s->job.ok) {
		fail(s, "password");
		return;
	}
	session_next(s->page->req, s->page->who, &s->next);
	operator_step_up_password(&s->page->who->op, s->job.output.b,
	    s->next.sha256, &s->answer, on_marked, s);
	secret_wipe(&s->job.output);
}

static void
on_salt(void *arg)
{
	struct step_up *s = arg;

	s->job.done = on_output;
	s->job.arg = s;
	if (s->salt.is.status >= 300)
		page_refuse(s->page, &s->salt.is);
	else if (!password_start(s->page->admin->pool, &s->job,
		     field(s->page, "password"), s->salt.salt, s->salt.params))
		page_problem(s->page->req, 503, "Busy",
		    "Nothing was done. Try again in a moment.");
}

static void
on_judged(void *arg)
{
	struct step_up *s = arg;

	if (s->second.status < 300 && s->signs)
		s->ok(s->page);
	else if (s->second.status < 300)
		pass(s);
	else
		fail(s, second_error(&s->second));
}

static void
ask_auth(struct step_up *s, const char *code, const char *assertion)
{
	struct page *page = s->page;
	struct buf question = { 0 };

	session_next(page->req, page->who, &s->next);
	second_begin_turn(&question, assertion != NULL ? "passkey" : "code",
	    &page->who->op.session, s->next.sha256);
	s->signs = page->signs && assertion != NULL;
	/* An approval's assertion is over what it approves (page_decide.c). */
	buf_lp(&question, page->signs ? "a" : "s", 1);
	if (assertion == NULL) {
		buf_lp(&question, code, strlen(code));
	} else if (!second_assertion(&question, assertion, &page->mem)) {
		buf_wipe(&question);
		buf_free(&question);
		fail(s, "code");
		return;
	}
	second_ask(
	    page->admin, &question, &page->mem, &s->second, on_judged, s);
}

void
step_up_start(struct page *page, page_fn *ok, page_fn *wrong)
{
	const char *password = field(page, "password");
	const char *code = field(page, "code");
	const char *assertion = field(page, "assertion");
	struct step_up *s = arena_get(&page->mem, sizeof(*s));

	s->page = page;
	s->ok = ok;
	s->wrong = wrong;
	if (assertion != NULL || (code != NULL && strlen(code) <= 64))
		ask_auth(s, code, assertion);
	else if (code != NULL)
		fail(s, "code");
	else if (password == NULL || strlen(password) > 1024)
		fail(s, "password");
	else
		operator_salt(page->admin->db, page->who->session.name,
		    &s->salt, on_salt, s);
}
