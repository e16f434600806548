/* SPDX-License-Identifier: ISC */
/*
 * signin.c - who calls, and may they call this?
 *
 * A key is checked by the database before a body is read; {inbox_id} must be
 * the key's own inbox, and is compared here, once for all routes. Failures
 * count per client address, together with those of SMTP; from the fourth on
 * the answer to a failure waits, and from the twentieth it is 429. A key
 * that works is never asked to wait.
 */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/request.h"
#include "mail/address.h"
#include "net/ledger.h"
#include "net/peer.h"
#include "store/provision.h"

#define TOO_MANY_WAIT_S 60

/* A sign-in under way. */
struct signin {
	struct http_request *req;
	struct store_auth *op;
	struct store_prov_op *prov;
	int principal;
};

/* An answer that waits. */
struct late {
	struct http_request *req;
	struct loop_timer *timer;
	enum err_code code;
	bool too_many;
};

static void
free_late(void *arg)
{
	struct late *l = arg;

	loop_timer_free(l->timer);
	free(l);
}

static void
tell_failure(struct http_request *req, enum err_code code, bool too_many)
{
	if (too_many)
		http_fail_retry(req, E_RATE_LIMITED, TOO_MANY_WAIT_S,
		    "too many keys or codes from your address did not work, "
		    "and this one does not either");
	else if (code == E_CLAIM_INVALID)
		http_fail(req, code, "the claim code does not work");
	else if (code == E_LINK_INVALID)
		api_link_invalid(req);
	else
		api_refuse(req, code);
}

static void
on_late(void *arg)
{
	struct late *l = arg;
	struct http_request *req = l->req;
	enum err_code code = l->code;
	bool too_many = l->too_many;

	http_request_on_cancel(req, NULL, NULL);
	free_late(l);
	tell_failure(req, code, too_many);
}

void
api_refuse_secret(struct http_request *req, enum err_code code)
{
	struct api *api = api_of(req);
	const struct net_peer *peer = http_request_peer(req);
	unsigned blame = 0, ms;
	struct late *l;

	if (api->setup.ledger != NULL)
		blame = net_ledger_blame(
		    api->setup.ledger, peer, (int64_t)clock_mono_ms());
	ms = net_ledger_pause_ms(blame);
	if (ms == 0) {
		tell_failure(req, code, false);
		return;
	}
	l = xcalloc(1, sizeof(*l));
	l->req = req;
	l->code = code;
	l->too_many = blame >= NET_LEDGER_TOO_MANY;
	l->timer = loop_timer_new(api->loop, on_late, l);
	loop_timer_set(l->timer, ms);
	http_request_on_cancel(req, free_late, l);
}

static void
on_signin_cancel(void *arg)
{
	struct signin *s = arg;

	store_auth_cancel(s->op);
	store_prov_cancel(s->prov);
	free(s);
}

static void
free_who(void *arg)
{
	struct api_who *who = arg;

	store_cred_free(who->cred);
	store_prov_free(who->prov);
	free(who);
}

/* Of two filters of one name only one would hold. */
static void
allow(
    struct http_request *req, struct store_cred *cred, struct store_prov *prov)
{
	const char *twice = http_request_query_twice(req);
	struct api_who *who = xcalloc(1, sizeof(*who));

	who->cred = cred;
	who->prov = prov;
	if (twice == NULL) {
		http_request_allow(req, who, free_who);
		return;
	}
	http_fail_field(
	    req, E_VALIDATION_ERROR, twice, "is given more than once");
	free_who(who);
}

static bool
may_call(const struct store_cred *cred, int principal)
{
	switch ((enum api_principal)principal) {
	case API_KEY:
	case API_ANY:
		return true;
	case API_SEND:
		return cred->scope == 's' || cred->scope == 'f';
	case API_READ:
		return cred->scope == 'r' || cred->scope == 'f';
	case API_FULL:
		return cred->scope == 'f';
	case API_PROV:
		return false;
	}
	return false;
}

static bool
is_own_inbox(const struct http_request *req, const struct store_cred *cred)
{
	const char *given = http_request_param(req, "inbox_id");
	struct address a, own;

	if (given == NULL || strcmp(given, "me") == 0)
		return true;
	return address_parse(&a, str_of(given)) == ADDRESS_OK &&
	       address_parse(&own, str_of(cred->address)) == ADDRESS_OK &&
	       address_eq(&a, &own);
}

/* The secret was looked at: frees `s`. False: the request is over. */
static bool
is_signed_in(struct signin *s, enum err_code code)
{
	struct http_request *req = s->req;

	free(s);
	http_request_on_cancel(req, NULL, NULL);
	metrics_inc(M_AUTH,
	    code == E_NONE                ? "ok"
	    : code == E_STORE_UNAVAILABLE ? "error"
					  : "failed",
	    NULL);
	if (code == E_UNKNOWN_API_KEY)
		api_refuse_secret(req, code);
	else if (code != E_NONE)
		api_refuse(req, code);
	return code == E_NONE;
}

/* {inbox_id} is what the token asks about, and the database's to judge. */
static void
on_token(void *arg, enum err_code code, struct store_prov *prov)
{
	struct signin *s = arg;
	struct http_request *req = s->req;
	int principal = s->principal;

	if (!is_signed_in(s, code))
		return;
	if (principal == API_PROV || principal == API_ANY) {
		allow(req, NULL, prov);
		return;
	}
	http_fail(req, E_MISSING_PERMISSION,
	    "a provisioning token makes inboxes; %s needs a key of the inbox",
	    http_request_route(req)->operation);
	store_prov_free(prov);
}

static void
on_signin(void *arg, enum err_code code, struct store_cred *cred)
{
	struct signin *s = arg;
	struct http_request *req = s->req;
	int principal = s->principal;

	if (!is_signed_in(s, code))
		return;
	if (!is_own_inbox(req, cred)) {
		store_denied(
		    cred, "foreign_id", http_request_param(req, "inbox_id"));
		store_cred_free(cred);
		http_fail(req, E_NOT_FOUND, "no such inbox");
	} else if (!may_call(cred, principal)) {
		http_fail(req, E_MISSING_PERMISSION,
		    "this key's scope does not include %s",
		    http_request_route(req)->operation);
		store_cred_free(cred);
	} else {
		allow(req, cred, NULL);
	}
}

void
api_authorize(struct http_request *req, int principal)
{
	struct str token = api_token(req);
	struct signin *s;

	if (token.n == 0) {
		http_fail(req, E_MISSING_AUTHORIZATION, "%s",
		    http_request_header(req, "Authorization") != NULL
			? "Authorization is not the word Bearer and a key"
			: "no key was given in the Authorization header");
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->req = req;
	s->principal = principal;
	http_request_on_cancel(req, on_signin_cancel, s);
	if (store_prov_valid(token)) {
		s->prov =
		    store_prov_auth(api_of(req)->store, token, on_token, s);
		return;
	}
	s->op = store_auth(api_of(req)->store, token,
	    principal == API_SEND ? STORE_AUTH_SUBMIT : STORE_AUTH_REQUEST,
	    on_signin, s);
}
