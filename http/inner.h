/* SPDX-License-Identifier: ISC */
/*
 * inner.h - a request of a handler to another route of its own server.
 *
 * It takes the way of one from the network: route, authorizer, body limit,
 * handler; only its bytes never leave the process. So what is allowed there
 * is allowed here, and nothing else. It dies with the outer request's
 * connection: cancel it from the outer request's own cancel function.
 */
#ifndef HTTP_INNER_H
#define HTTP_INNER_H

#include <stdbool.h>
#include <stddef.h>

struct http_inner;
struct http_request;

/* Most bytes kept of a reply that comes as a stream. */
#define HTTP_INNER_REPLY_MAX (8u << 20)

struct http_inner_reply {
	int status;
	const char *type; /* NULL without a body */
	const char *body; /* not NUL-terminated */
	size_t n;
	bool whole; /* false: cut, or longer than is kept */
};

/* Once, later, from the loop. `reply` is borrowed; the call is over. */
typedef void http_inner_fn(void *arg, const struct http_inner_reply *reply);

struct http_inner_call {
	const char *method;
	const char *target; /* with its query, percent-encoded */
	const char *type; /* of the body; NULL without one */
	const void *body;
	size_t n;
	const char *idem_key; /* Idempotency-Key, or NULL */
};

/* Everything is copied. Authorization and peer are the outer request's. */
struct http_inner *http_inner_start(struct http_request *outer,
    const struct http_inner_call *call, http_inner_fn *done, void *arg);

/* Never call `done`. NULL is fine. */
void http_inner_cancel(struct http_inner *inner);

#endif
