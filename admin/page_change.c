/* SPDX-License-Identifier: ISC */
#include "admin/page_change.h"

#include <stdlib.h>
#include <string.h>

#include "admin/step_up.h"
#include "base/str.h"
#include "http/reply.h"
#include "http/request.h"

static const struct {
	const char *name, *code, *text; /* code: as the database refuses */
} errors[] = {
	{ "password", "", "That is not your password. Nothing was changed." },
	{ "again", "step_up_required",
	    "That needs you to confirm who you are again: with your second "
	    "factor, or your password where you have none. Nothing was "
	    "changed." },
	{ "code", "", "That code is not right. Nothing was changed." },
	{ "used", "",
	    "That code was used already. Wait for the next one. Nothing was "
	    "changed." },
	{ "no_auth", "",
	    "Second factors cannot be checked now: postern-auth does not "
	    "answer. Nothing was changed." },
	{ "trouble", "",
	    "Second factors cannot be checked now: see the log of "
	    "postern-auth. Nothing was changed." },
	{ "out", "", "The session has ended. Sign in again." },
	{ "invalid", "validation_error",
	    "A field is missing or not valid. Nothing was changed." },
	{ "address", "invalid_address",
	    "That is not an address an inbox can have. Nothing was made." },
	{ "name", "",
	    "That name is too long, hides text, or looks like another "
	    "address. Nothing was made." },
	{ "login", "", STR_LOGIN_RULE " Nobody was added." },
	{ "reason", "", "A reason is needed. Nothing was changed." },
	{ "taken", "state_conflict",
	    "It is there already, or not as you saw it any more. Nothing was "
	    "changed." },
	{ "domain", "recipient_domain_refused",
	    "Anybody can have an address there, so no rule for all of it. "
	    "Name addresses." },
	{ "unverified", "domain_not_verified",
	    "The tenant has no such domain. Nothing was made." },
	{ "unsigned", "dkim_needed",
	    "Links to unsubscribe count inside a DKIM signature only: the "
	    "domain needs a key in use first (posternctl dkim). Nothing was "
	    "changed." },
	{ "slow", "rate_limited", "Too many tries. Wait a minute." },
	{ "secret", "missing_authorization",
	    "That is not your password. Nothing was changed." },
	{ "short", "",
	    "A password needs at least 12 characters. Nothing was changed." },
	{ "differ", "", "The two new passwords differ. Nothing was changed." },
};
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

struct page *
change_new(struct http_request *req, size_t size)
{
	return page_new_action(req, size);
}

static void
go_back(struct page *page, const char *what, const char *name)
{
	struct change *c = page->mine;
	struct buf to = { 0 };

	buf_printf(&to, "%s?%s=%s", c->back, what, name);
	press_end(page->admin, page->who, buf_cstr(&to));
	http_reply_redirect(page->req, buf_cstr(&to));
	buf_free(&to);
}

void
change_fail(struct page *page, const char *error)
{
	go_back(page, "error", error);
}

static void
wrong_password(struct page *page)
{
	go_back(page, "error", page->step_up_error);
}

void
change_start(struct page *page, page_fn *act)
{
	struct change *c = page->mine;

	c->act = act;
	if (step_up_given(page))
		step_up_start(page, act, wrong_password);
	else
		act(page);
}

void
change_done(struct page *page)
{
	const struct change *c = page->mine;
	size_t i;

	if (c->is.status < 300) {
		go_back(page, "said", "changed");
		return;
	}
	for (i = 0; i < ERRORS; i++)
		if (errors[i].code[0] != '\0' &&
		    strcmp(errors[i].code, c->is.text) == 0) {
			go_back(page, "error", errors[i].name);
			return;
		}
	page_refuse(page, &c->is);
}

const char *
change_error(struct http_request *req)
{
	return change_sentence(http_request_query(req, "error"));
}

const char *
change_sentence(const char *name)
{
	size_t i;

	for (i = 0; name != NULL && i < ERRORS; i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].text;
	return NULL;
}

const char *
change_text(struct page *page, const char *name)
{
	const char *text = http_request_field(page->req, name, 0);

	return text != NULL && text[0] != '\0' ? text : NULL;
}

bool
change_has_reason(struct http_request *req)
{
	const char *text = http_request_field(req, "reason", 0);

	return text != NULL && text[strspn(text, " \t\r\n")] != '\0';
}

bool
change_number_if(struct page *page, const char *name, int64_t max, int64_t *v)
{
	const char *text = change_text(page, name);
	unsigned long long n;

	*v = -1;
	if (text == NULL)
		return true;
	if (!str_to_u64(str_of(text), (unsigned long long)max, &n)) {
		go_back(page, "error", "invalid");
		return false;
	}
	*v = (int64_t)n;
	return true;
}

bool
change_number(struct page *page, const char *name, int64_t max, int64_t *v)
{
	if (!change_number_if(page, name, max, v))
		return false;
	if (*v >= 0)
		return true;
	go_back(page, "error", "invalid");
	return false;
}
