/* SPDX-License-Identifier: ISC */
/*
 * request.h - one request, as its handler sees it.
 *
 * Strings are NUL-terminated, hold no NUL of the client's, belong to the
 * request and live as long as it does. Everything in them is the client's.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "http/server.h"

struct http_request;
struct net_peer;

const char *http_request_id(const struct http_request *req); /* req_... */
const char *http_request_method(const struct http_request *req);
/* The target as sent, without the query; always starts with '/'. */
const char *http_request_path(const struct http_request *req);
/* What is behind the '?' as sent; NULL without one. */
const char *http_request_query_text(const struct http_request *req);
const struct http_route *http_request_route(const struct http_request *req);
const struct net_peer *http_request_peer(const struct http_request *req);
bool http_request_is_tls(const struct http_request *req);
void *http_request_app(const struct http_request *req);

/* The percent-decoded segment of {name}; NULL only for an unknown name. */
const char *http_request_param(
    const struct http_request *req, const char *name);

/*
 * A header, any case; NULL without one. A repeated header gives the first;
 * those that steer (Host, Authorization, Cookie, Content-Type, Origin,
 * Idempotency-Key and so on) are refused with 400 when repeated.
 */
const char *http_request_header(
    const struct http_request *req, const char *name);
const char *http_request_cookie(
    const struct http_request *req, const char *name);

/* "application/json" of Content-Type, lower case, without parameters; "". */
const char *http_request_type(const struct http_request *req);

/* The name of a query parameter that is given more than once, or NULL. */
const char *http_request_query_twice(const struct http_request *req);
/* Decoded query parameter, NULL without one; the first of several. */
const char *http_request_query(
    const struct http_request *req, const char *name);

/*
 * Field of an application/x-www-form-urlencoded body, decoded; NULL without
 * one. `index` counts fields of the same name from 0.
 */
const char *http_request_field(
    struct http_request *req, const char *name, size_t index);

/* The body taken in before the handler, with a NUL behind it. */
const char *http_request_body(const struct http_request *req, size_t *n);

/* Content-Length, 0 without a body, -1 for chunked. */
long long http_request_length(const struct http_request *req);

/* The authorizer's answer. `who` is freed by `free_who` with the request. */
void http_request_allow(
    struct http_request *req, void *who, void (*free_who)(void *who));
/*
 * The same when it is no: `handler` is called, with the body, in place of the
 * route's, so that it can say no and show what was sent. Nobody is `who`.
 */
void http_request_instead(struct http_request *req, http_handler_fn *handler);
void *http_request_who(const struct http_request *req);

/* What the handler hangs on its request; freed with it. */
void http_request_keep(
    struct http_request *req, void *mine, void (*free_mine)(void *mine));
void *http_request_mine(const struct http_request *req);

/*
 * Called when there is nobody left to answer: client gone, deadline passed,
 * server ending. When it returns the request is freed: forget it. Without a
 * cancel function (NULL takes it away) the request stays valid until the
 * handler replies, and that reply goes nowhere.
 */
typedef void http_cancel_fn(void *arg);
void http_request_on_cancel(
    struct http_request *req, http_cancel_fn *cancel, void *arg);
bool http_request_is_gone(const struct http_request *req);
/* The operation of the handler that called (inner.h); NULL: a client did. */
const char *http_request_caller(const struct http_request *req);

/* Bodies of `early` routes. One of the two, once; both send 100 Continue. */

/*
 * Take the body in, at most `max` bytes (else 413), then call `done`; the
 * body is http_request_body().
 */
void http_request_read(
    struct http_request *req, size_t max, http_handler_fn *done);

/*
 * Hand the body on as it comes: at most `max` bytes in all (else 413), at
 * most 16 KiB a call; `last` with the final call, which may be empty. An
 * error reply from inside `data` is fine and ends the stream.
 */
typedef void http_body_fn(
    struct http_request *req, const void *p, size_t n, bool last);
void http_request_stream(
    struct http_request *req, size_t max, http_body_fn *data);

/*
 * Back-pressure: no further `data` calls until resume, but for what is left
 * of at most 16 KiB already read. The body's deadline stands still meanwhile.
 */
void http_request_pause(struct http_request *req);
void http_request_resume(struct http_request *req);

/* Give the handler more time than handler_ms, from now. */
void http_request_extend(struct http_request *req, unsigned ms);

#endif
