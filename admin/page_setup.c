/* SPDX-License-Identifier: ISC */
/*
 * page_setup.c - the first operator, made by whoever can read the token file
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "admin/handlers.h"
#include "admin/page.h"
#include "admin/password.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/header.h"
#include "seal/password.h"

struct setting_up {
	struct http_request *req;
	struct admin *admin;
	struct review_answer is;
	struct password_job job;
	struct secret salt;
};

static void
free_setting_up(void *arg)
{
	struct setting_up *s = arg;

	secret_wipe(&s->job.output);
	free(s);
}

static void
send_form(struct http_request *req, int status, const char *error)
{
	struct admin *admin = http_request_app(req);
	const struct view_setup setup = {
		.token = strcmp(http_request_method(req), "POST") == 0
			     ? http_request_field(req, "token", 0)
			     : http_request_query(req, "token"),
		.name = strcmp(http_request_method(req), "POST") == 0
			    ? http_request_field(req, "name", 0)
			    : NULL,
		.error = error,
		.closed = admin->setup_token.n == 0,
	};
	struct buf out = { 0 };

	view_setup(&out, &setup);
	http_reply_html(req, status, &out);
	buf_free(&out);
}

void
handle_setup(struct http_request *req)
{
	send_form(req, 200, NULL);
}

static void
on_made(void *arg)
{
	struct setting_up *s = arg;

	if (s->is.status == 409 || s->is.status < 300) {
		secret_wipe(&s->admin->setup_token);
		if (s->admin->setup_token_file != NULL)
			unlink(s->admin->setup_token_file);
	}
	if (s->is.status < 300)
		http_reply_redirect(s->req, "/login");
	else if (s->is.status == 409)
		send_form(s->req, 409, NULL);
	else if (s->is.status == 422)
		send_form(s->req, 422, STR_LOGIN_RULE);
	else
		send_form(
		    s->req, 503, "The database does not answer. Try again.");
}

static void
on_output(void *arg)
{
	struct setting_up *s = arg;
	unsigned char verifier[32];

	if (!s->job.ok) {
		send_form(s->req, 503, "Memory is short. Try again.");
		return;
	}
	seal_password_verifier(verifier, &s->job.output);
	operator_setup(s->admin->db, http_request_field(s->req, "name", 0),
	    s->salt.b, SEAL_PASSWORD_PARAMS, verifier, &s->is, on_made, s);
}

static bool
token_ok(const struct admin *admin, const char *token)
{
	struct secret given;

	return token != NULL && admin->setup_token.n > 0 &&
	       secret_set(&given, token, strlen(token)) &&
	       secret_eq(&given, &admin->setup_token);
}

/* Why the fields will not do, or NULL. */
static const char *
check(struct http_request *req)
{
	const char *name = http_request_field(req, "name", 0);
	const char *password = http_request_field(req, "password", 0);
	const char *again = http_request_field(req, "again", 0);

	if (!token_ok(
		http_request_app(req), http_request_field(req, "token", 0)))
		return "That is not the setup token.";
	if (name == NULL || !str_is_login(str_of(name)))
		return STR_LOGIN_RULE;
	if (password == NULL || !utf8_valid(str_of(password)) ||
	    strlen(password) < SEAL_PASSWORD_MIN ||
	    strlen(password) > SEAL_PASSWORD_MAX)
		return "The password needs at least 12 characters.";
	if (again == NULL || strcmp(password, again) != 0)
		return "The two passwords differ.";
	return NULL;
}

void
handle_setup_post(struct http_request *req)
{
	struct admin *admin = http_request_app(req);
	const char *error;
	struct setting_up *s;

	if (!session_same_origin(admin, req)) {
		page_problem(req, 403, "Refused",
		    "The request did not come from a page of this site.");
		return;
	}
	if (admin->setup_token.n == 0) {
		send_form(req, 409, NULL);
		return;
	}
	error = check(req);
	if (error != NULL) {
		send_form(req, 422, error);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->req = req;
	s->admin = admin;
	s->job.done = on_output;
	s->job.arg = s;
	secret_random(&s->salt, SEAL_PASSWORD_SALT);
	http_request_keep(req, s, free_setting_up);
	if (!password_start(admin->door, &s->job,
		http_request_field(req, "password", 0), s->salt.b,
		SEAL_PASSWORD_PARAMS))
		send_form(
		    req, 503, "Many people sign in right now. Try again.");
}
