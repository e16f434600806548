/* SPDX-License-Identifier: ISC */
/* inner.c - see inner.h. */
#include "http/inner.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "http/conn.h"
#include "http/error.h"

/* The head as the parser would have left it: strings and their offsets. */
static void
add_header(struct http_head *head, const char *name, const char *value)
{
	struct http_header *h = &head->headers[head->headers_n++];

	h->name = (unsigned)head->text.n;
	buf_add(&head->text, name, strlen(name) + 1);
	h->value = (unsigned)head->text.n;
	buf_add(&head->text, value, strlen(value) + 1);
}

static void
make_head(struct http_head *head, const struct http_request *outer,
    const struct http_inner_call *call)
{
	const char *key = http_request_header(outer, "authorization");

	buf_add(&head->text, call->target, strlen(call->target) + 1);
	head->target_n = strlen(call->target);
	if (key != NULL)
		add_header(head, "authorization", key);
	if (call->type != NULL)
		add_header(head, "content-type", call->type);
	if (call->idem_key != NULL)
		add_header(head, "idempotency-key", call->idem_key);
	head->method = strcmp(call->method, "GET") == 0     ? "GET"
		       : strcmp(call->method, "POST") == 0  ? "POST"
		       : strcmp(call->method, "PATCH") == 0 ? "PATCH"
		       : strcmp(call->method, "PUT") == 0   ? "PUT"
							    : "DELETE";
	head->http11 = true;
	head->length = (long long)call->n;
}

static void
on_start(evutil_socket_t fd, short what, void *arg)
{
	struct http_inner *inner = arg;

	(void)fd;
	(void)what;
	http_dispatch_route(inner->req);
}

struct http_inner *
http_inner_start(struct http_request *outer, const struct http_inner_call *call,
    http_inner_fn *done, void *arg)
{
	struct http_inner *inner = xcalloc(1, sizeof(*inner));
	struct http_server *server =
	    outer->inner != NULL ? outer->inner->server : outer->conn->server;
	struct http_head head = { 0 };

	make_head(&head, outer, call);
	inner->server = server;
	inner->outer = outer;
	inner->done = done;
	inner->arg = arg;
	inner->req = http_request_new_inner(outer, inner, &head);
	buf_add(&inner->req->body, call->body, call->n);
	inner->start = event_new(server->base, -1, 0, on_start, inner);
	BUG_ON(inner->start == NULL);
	event_active(inner->start, EV_READ, 0);
	return inner;
}

static void
free_inner(struct http_inner *inner)
{
	event_free(inner->start);
	buf_wipe(&inner->kept);
	buf_free(&inner->kept);
	free(inner->type);
	free(inner->stream);
	free(inner);
}

void
http_inner_cancel(struct http_inner *inner)
{
	struct http_stream *stream;

	if (inner == NULL)
		return;
	stream = inner->stream;
	if (stream != NULL)
		stream->fns->gone(stream->arg);
	else if (inner->req != NULL)
		http_request_abandon(inner->req);
	free_inner(inner);
}

void
http_inner_allowed(struct http_request *req)
{
	const struct http_route *route = req->match.route;

	req->with_app = true;
	if (req->instead != NULL)
		http_inner_body(req, route->body_max, req->instead);
	else if (route->early)
		route->handler(req);
	else
		http_inner_body(req, route->body_max, route->handler);
}

void
http_inner_body(struct http_request *req, size_t max, http_handler_fn *done)
{
	req->body_done = true;
	if (req->body.n > max)
		http_fail(req, E_PAYLOAD_TOO_LARGE,
		    "the body is larger than %zu bytes", max);
	else
		done(req);
}

static void
finish(struct http_inner *inner, const struct http_inner_reply *reply)
{
	http_inner_fn *done = inner->done;
	void *arg = inner->arg;

	/* What `reply` points to lives until `done` was called. */
	inner->done = NULL;
	done(arg, reply);
	free_inner(inner);
}

void
http_inner_replied(
    struct http_request *req, const char *type, const void *p, size_t n)
{
	struct http_inner *inner = req->inner;
	struct http_inner_reply reply = { req->status, type, p, n, true };

	req->size = n;
	inner->req = NULL;
	http_request_free(req);
	finish(inner, &reply);
}

struct http_stream *
http_inner_stream(struct http_request *req, const char *type,
    const struct http_stream_fns *fns, void *arg)
{
	struct http_inner *inner = req->inner;
	struct http_stream *stream = xcalloc(1, sizeof(*stream));

	inner->status = req->status;
	inner->type = xstrdup(type);
	inner->stream = stream;
	inner->req = NULL;
	stream->inner = inner;
	stream->fns = fns;
	stream->arg = arg;
	stream->left = -1;
	http_request_free(req);
	return stream;
}

bool
http_inner_write(struct http_inner *inner, const void *p, size_t n)
{
	if (inner->kept.n + n > HTTP_INNER_REPLY_MAX)
		inner->cut = true;
	else if (!inner->cut)
		buf_add(&inner->kept, p, n);
	return true;
}

void
http_inner_end(struct http_inner *inner, bool ok)
{
	struct http_inner_reply reply = { inner->status, inner->type,
		(const char *)inner->kept.p, inner->kept.n, ok && !inner->cut };

	free(inner->stream);
	inner->stream = NULL;
	finish(inner, &reply);
}
