/* SPDX-License-Identifier: ISC */
/*
 * api.c - the server of the agents' REST interface: who may call what.
 *
 * The route table is made from openapi.json; signin.c checks the key.
 */
#include "api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/credential.h"
#include "store/message.h"

#define API_ROUTE_TABLE
#include "api/internal.h"

/* No page is served here and no script may use what is. */
static const char *const fixed_headers[] = {
	"Strict-Transport-Security: max-age=31536000",
	"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'",
	"Referrer-Policy: no-referrer",
	NULL,
};

struct api *
api_new(struct loop *loop, struct store *store, const struct api_setup *setup)
{
	struct api *api = xcalloc(1, sizeof(*api));
	struct http_conf conf = {
		.name = "api",
		.routes = api_routes,
		.routes_n = sizeof(api_routes) / sizeof(api_routes[0]),
		.authorize = api_authorize,
		.dress = api_v0_dress,
		.app = api,
		.headers = fixed_headers,
		.tls = setup->tls,
		.ledger = setup->ledger,
		.worker = setup->worker,
		.connections_max = setup->connections_max,
	};

	api->loop = loop;
	api->store = store;
	api->setup = *setup;
	TAILQ_INIT(&api->watches);
	TAILQ_INIT(&api->bodies);
	api->server = http_server_new(loop_base(loop), &conf);
	return api;
}

void
api_accept(struct api *api, evutil_socket_t fd, const struct net_peer *peer)
{
	http_server_accept(api->server, fd, peer);
}

void
api_configure(struct api *api, const struct api_setup *setup)
{
	api->setup.json_max = setup->json_max;
	api->setup.spool_dir = setup->spool_dir;
	api->setup.spool_max = setup->spool_max;
	api->setup.size_max = setup->size_max;
	api->setup.rcpt_max = setup->rcpt_max;
}

void
api_drain(struct api *api, void (*done)(void *arg), void *arg)
{
	api_watches_end(api);
	http_server_drain(api->server, done, arg);
}

void
api_free(struct api *api)
{
	if (api == NULL)
		return;
	http_server_free(api->server);
	free(api);
}

struct api *
api_of(const struct http_request *req)
{
	return http_request_app(req);
}

const struct store_cred *
api_cred(const struct http_request *req)
{
	const struct api_who *who = http_request_who(req);

	return who != NULL ? who->cred : NULL;
}

struct store_cred *
api_take_cred(struct http_request *req)
{
	struct api_who *who = http_request_who(req);
	struct store_cred *cred = who->cred;

	who->cred = NULL;
	return cred;
}

const struct store_prov *
api_prov(const struct http_request *req)
{
	const struct api_who *who = http_request_who(req);

	return who != NULL ? who->prov : NULL;
}

struct str
api_token(const struct http_request *req)
{
	struct str s = str_of(http_request_header(req, "authorization"));

	if (s.p == NULL || !str_istarts(s, str_lit("Bearer ")))
		return (struct str){ "", 0 };
	return str_trim((struct str){ s.p + 7, s.n - 7 });
}

void
api_fault_set(struct api_fault *fault, enum err_code code, const char *field,
    const char *fmt, ...)
{
	va_list ap;

	if (fault->code != E_NONE)
		return;
	fault->code = code;
	snprintf(fault->field, sizeof(fault->field), "%s",
	    field != NULL ? field : "");
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
}

void
api_fault_within(
    struct api_fault *fault, const char *name, const struct api_fault *inner)
{
	char path[sizeof(fault->field)];

	if (inner->code == E_NONE)
		return;
	(void)snprintf(path, sizeof(path), "%.30s%s%.32s", name,
	    inner->field[0] != '\0' ? "." : "", inner->field);
	api_fault_set(fault, inner->code, path, "%s", inner->text);
}

void
api_fault_reply(struct http_request *req, const struct api_fault *fault)
{
	if (fault->field[0] != '\0')
		http_fail_field(
		    req, fault->code, fault->field, "%s", fault->text);
	else
		http_fail(req, fault->code, "%s", fault->text);
}

/* An id of somebody else, or of nobody: which, not even we can tell. */
static void
refuse_id(struct http_request *req)
{
	const char *id = http_request_param(req, "message_id");

	if (id == NULL)
		id = http_request_param(req, "draft_id");
	if (id == NULL)
		id = http_request_param(req, "key_id");
	if (id != NULL && api_cred(req) != NULL)
		store_denied(api_cred(req), "foreign_id", id);
	http_fail(req, E_NOT_FOUND, "nothing with this id is in the inbox");
}

void
api_refuse(struct http_request *req, enum err_code code)
{
	if (code == E_NOT_FOUND)
		refuse_id(req);
	else if (code == E_STORE_UNAVAILABLE)
		http_fail_retry(req, code, 2, "the database does not answer");
	else
		http_fail(req, code, "%s", error_get(code)->what);
}

bool
api_message_id(struct http_request *req, struct uuid *id)
{
	const char *given = http_request_param(req, "message_id");

	if (uuid_from_id(id, "msg_", str_of(given)))
		return true;
	http_fail(req, E_NOT_FOUND, "this is not the id of a message%s",
	    strcmp(given, "send") == 0 ? "; to send is a POST" : "");
	return false;
}

static void
on_call_cancel(void *arg)
{
	struct api_call *call = arg;

	store_op_cancel(call->op);
	json_decref(call->doc);
	free(call);
}

struct api_call *
api_call_new(struct http_request *req)
{
	struct api_call *call = xcalloc(1, sizeof(*call));

	call->req = req;
	http_request_on_cancel(req, on_call_cancel, call);
	return call;
}

struct http_request *
api_call_end(struct api_call *call)
{
	struct http_request *req = call->req;

	http_request_on_cancel(req, NULL, NULL);
	json_decref(call->doc);
	free(call);
	return req;
}

void
api_op_openapi(struct http_request *req)
{
	http_reply_header(req, "Cache-Control", "public, max-age=300");
	http_reply_static(
	    req, 200, "application/json", api_document, sizeof(api_document));
}

/* Who receives mail with our Postern-Identity verifies it with these. */
void
api_op_identity_keys(struct http_request *req)
{
	const char *keys = api_of(req)->setup.identity_keys;

	http_reply_header(req, "Cache-Control", "public, max-age=3600");
	if (keys == NULL)
		keys = "{\"keys\":[]}";
	http_reply_static(req, 200, "application/json", keys, strlen(keys));
}

void
api_op_guide(struct http_request *req)
{
	http_reply_header(req, "Cache-Control", "public, max-age=300");
	http_reply_static(req, 200, "text/plain; charset=utf-8", api_guide,
	    strlen(api_guide));
}
