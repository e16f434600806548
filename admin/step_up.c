/* SPDX-License-Identifier: ISC */
#include "admin/step_up.h"

#include <string.h>

#include "admin/password.h"
#include "http/request.h"

struct step_up {
	struct page *page;
	struct operator_salt salt;
	struct operator_step_up answer;
	struct password_job job;
	page_fn *ok, *wrong;
};

static void
on_marked(void *arg)
{
	struct step_up *s = arg;

	if (s->answer.is.status < 300)
		s->ok(s->page);
	else if (s->answer.is.status < 500)
		s->wrong(s->page);
	else
		page_refuse(s->page, &s->answer.is);
}

static void
on_output(void *arg)
{
	struct step_up *s = arg;

	if (!s->job.ok) {
		s->wrong(s->page);
		return;
	}
	operator_step_up_password(
	    &s->page->who->op, s->job.output.b, &s->answer, on_marked, s);
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
	else if (!password_start(s->page->admin, &s->job,
		     http_request_field(s->page->req, "password", 0),
		     s->salt.salt, s->salt.params))
		page_problem(s->page->req, 503, "Busy",
		    "Nothing was done. Try again in a moment.");
}

void
step_up_start(struct page *page, page_fn *ok, page_fn *wrong)
{
	const char *password = http_request_field(page->req, "password", 0);
	struct step_up *s;

	if (password == NULL || strlen(password) > 1024) {
		wrong(page);
		return;
	}
	s = arena_get(&page->mem, sizeof(*s));
	s->page = page;
	s->ok = ok;
	s->wrong = wrong;
	operator_salt(
	    page->admin->db, page->who->session.name, &s->salt, on_salt, s);
}
