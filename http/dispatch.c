/* SPDX-License-Identifier: ISC */
/*
 * dispatch.c - from a complete head to a handler's turn: Host, route,
 * authorizer, body.
 */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "http/conn.h"
#include "net/stream.h"
#include "http/error.h"

/* The application's turn, with its deadline. */
static void
to_app(struct http_conn *c)
{
	http_conn_set_phase(c, HTTP_PHASE_APP, c->server->conf.handler_ms);
}

/* Is the name in Host (without its port) one of ours? */
static bool
is_our_host(const struct http_conf *conf, const struct http_request *req)
{
	const char *host = http_head_find(&req->head, "host");
	size_t i, n;

	if (conf->hosts == NULL)
		return true;
	if (host == NULL)
		return false;
	n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	for (i = 0; conf->hosts[i] != NULL; i++)
		if (strlen(conf->hosts[i]) == n &&
		    strncasecmp(conf->hosts[i], host, n) == 0)
			return true;
	return false;
}

static void
no_route(struct http_request *req, enum http_route_result result)
{
	switch (result) {
	case HTTP_ROUTE_NO_METHOD:
		http_reply_header(req, "Allow", req->match.allow);
		http_fail(req, E_METHOD_NOT_ALLOWED, "%s is not possible here",
		    req->head.method);
		break;
	case HTTP_ROUTE_BAD:
		http_fail(req, E_PROTOCOL_VIOLATION,
		    "the path is not well-formed percent-encoded UTF-8");
		break;
	case HTTP_ROUTE_NO_PATH:
	case HTTP_ROUTE_FOUND:
		http_fail(req, E_NOT_FOUND, "nothing is at this path");
		break;
	}
}

void
http_dispatch_head(struct http_conn *c)
{
	const struct http_conf *conf = &c->server->conf;
	struct http_request *req = http_request_new(c, true);

	c->req = req;
	c->requests++;
	to_app(c);
	if (!is_our_host(conf, req)) {
		http_fail(req, E_PROTOCOL_VIOLATION,
		    "this host name is not served here");
		return;
	}
	http_dispatch_route(req);
}

static const struct http_conf *
conf_of(const struct http_request *req)
{
	return req->inner != NULL ? &req->inner->server->conf
				  : &req->conn->server->conf;
}

void
http_dispatch_route(struct http_request *req)
{
	const struct http_conf *conf = conf_of(req);
	enum http_route_result found;

	if (req->query_text != NULL &&
	    !http_pairs_parse(
		&req->query, req->query_text, strlen(req->query_text))) {
		http_fail(
		    req, E_PROTOCOL_VIOLATION, "the query is not well-formed");
		return;
	}
	found = http_route_find(&req->match, conf->routes, conf->routes_n,
	    req->head.method, req->path, strlen(req->path));
	if (found != HTTP_ROUTE_FOUND) {
		no_route(req, found);
		return;
	}
	if (req->match.route->principal == 0 && req->inner == NULL) {
		req->todo = HTTP_TODO_DISPATCH;
		return;
	}
	req->with_app = true;
	if (req->match.route->principal == 0) {
		http_inner_allowed(req);
		return;
	}
	conf->authorize(req, req->match.route->principal);
}

/*
 * Somebody has to answer, but the request, if there is one, is the handler's:
 * tell the handler, and answer in its place.
 */
static struct http_request *
stand_in(struct http_conn *c)
{
	struct http_request *old = c->req;
	struct http_request *req = http_request_new(c, false);

	if (old == NULL) {
		c->requests++;
	} else {
		memcpy(req->id, old->id, sizeof(req->id));
		req->match.route = old->match.route;
		req->head.method = old->head.method;
		req->head.http11 = old->head.http11;
		req->start_ms = old->start_ms;
		http_request_abandon(old);
	}
	req->head.close = true;
	c->req = req;
	return req;
}

/* The body exceeds what is taken. */
static void
too_large(struct http_conn *c, size_t max)
{
	struct http_request *req = stand_in(c);

	if (max == 0)
		http_fail(
		    req, E_PAYLOAD_TOO_LARGE, "this request takes no body");
	else
		http_fail(req, E_PAYLOAD_TOO_LARGE,
		    "the body is larger than %zu bytes", max);
}

/* Begin to take the body in, or refuse it unseen. */
static void
start_body(struct http_conn *c)
{
	struct http_request *req = c->req;
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (req->head.length > 0 &&
	    (unsigned long long)req->head.length > req->body_max) {
		too_large(c, req->body_max);
		return;
	}
	http_conn_set_phase(c, HTTP_PHASE_BODY, c->server->conf.body_ms);
	if (req->head.expect)
		net_stream_write(c->io, go_on, sizeof(go_on) - 1);
}

static void
call_handler(struct http_conn *c, http_handler_fn *handler)
{
	struct http_request *req = c->req;

	to_app(c);
	req->with_app = true;
	handler(req); /* may have freed the request */
}

void
http_dispatch_todo(struct http_conn *c)
{
	struct http_request *req = c->req;
	enum http_todo todo = req->todo;
	const struct http_route *route = req->match.route;
	http_handler_fn *instead = req->instead;

	req->todo = HTTP_TODO_NOTHING;
	if (todo == HTTP_TODO_BODY) {
		start_body(c);
	} else if (instead == NULL && route->early) {
		call_handler(c, route->handler);
	} else {
		req->with_app = false;
		req->body_max = route->body_max;
		req->done = instead != NULL ? instead : route->handler;
		start_body(c);
	}
}

void
http_dispatch_body(struct http_conn *c, const char *p, size_t n)
{
	struct http_request *req = c->req;

	if (req == NULL)
		return; /* already answered */
	req->size += n;
	if (req->size > req->body_max) {
		too_large(c, req->body_max);
	} else if (req->data != NULL) {
		req->data(req, p, n, false);
	} else {
		if (req->body.cap == 0 && req->head.length > 0)
			buf_reserve(&req->body, (size_t)req->head.length + 1);
		buf_add(&req->body, p, n);
	}
}

void
http_dispatch_end(struct http_conn *c)
{
	struct http_request *req = c->req;

	if (req == NULL || c->phase != HTTP_PHASE_BODY)
		return;
	if (c->paused) {
		c->end_owed = true;
		return;
	}
	req->body_done = true;
	req->size = 0;
	to_app(c);
	if (req->data != NULL) {
		req->with_app = true;
		req->data(req, NULL, 0, true);
	} else {
		call_handler(c, req->done);
	}
}

/* The bytes are no request, or no body: say why. */
void
http_dispatch_bad(struct http_conn *c)
{
	enum err_code code = c->parser.fault == HTTP_FAULT_TOO_LARGE
				 ? E_HEADERS_TOO_LARGE
				 : E_PROTOCOL_VIOLATION;
	const char *why = c->parser.why != NULL ? c->parser.why : "syntax";

	http_fail(stand_in(c), code, "malformed HTTP request: %s", why);
}

/* A deadline passed before there was a reply. */
void
http_dispatch_late(struct http_conn *c)
{
	bool by_client = c->phase == HTTP_PHASE_HEAD ||
			 (c->phase == HTTP_PHASE_BODY && !c->paused);
	struct http_request *req = stand_in(c);

	if (by_client)
		http_fail(req, E_REQUEST_TIMEOUT,
		    "the request did not arrive in time");
	else
		http_fail(req, E_STORE_UNAVAILABLE,
		    "no answer in time; it is not known whether it was done");
}
