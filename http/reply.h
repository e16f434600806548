/* SPDX-License-Identifier: ISC */
/*
 * reply.h - answers. Each of the http_reply_* functions marked [ends] gives
 * the request back: it may be freed when they return.
 *
 * Every reply carries Date, X-Request-Id, X-Content-Type-Options, the
 * server's own lines and, unless the handler set one, Cache-Control:
 * no-store. HEAD gets the same head and no body.
 */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct buf;
struct http_request;
struct http_stream;

/*
 * Add a header. A name or value with control characters is a bug of ours and
 * is left out, with an error in the log: nothing can split a reply.
 */
void http_reply_header(
    struct http_request *req, const char *name, const char *value);

/* [ends] No body. */
void http_reply_empty(struct http_request *req, int status);
/* [ends] Takes over `root`. */
void http_reply_json(struct http_request *req, int status, json_t *root);
/* [ends] text/html; charset=utf-8; empties `page`, which stays the caller's. */
void http_reply_html(struct http_request *req, int status, struct buf *page);
/* [ends] Copies. */
void http_reply_bytes(struct http_request *req, int status, const char *type,
    const void *p, size_t n);
/* [ends] `p` lives for ever (assets): not copied. */
void http_reply_static(struct http_request *req, int status, const char *type,
    const void *p, size_t n);
/* [ends] 303 to a local path. */
void http_reply_redirect(struct http_request *req, const char *location);

/*
 * [ends] Start a reply of `length` bytes, -1 if unknown (chunked). The
 * stream is the caller's until http_stream_end() or its `gone` runs.
 */
struct http_stream_fns {
	void (*drained)(void *arg); /* room again after "full"; may be NULL */
	void (*gone)(void *arg); /* client lost: forget the stream */
};
struct http_stream *http_reply_stream(struct http_request *req, int status,
    const char *type, long long length, const struct http_stream_fns *fns,
    void *arg);

/* False: full, `drained` will tell. The bytes are taken in any case. */
bool http_stream_write(struct http_stream *stream, const void *p, size_t n);
/* `ok` false cuts the connection, so that nobody takes a part for all. */
void http_stream_end(struct http_stream *stream, bool ok);

#endif
