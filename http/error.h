/* SPDX-License-Identifier: ISC */
/*
 * error.h - refusals: one JSON document, one stable code (decisions D14).
 *
 * {name, code, message, fix, field, request_id, retry}; HTTP status, fix and
 * retry come from base/errors.def. A server with its own `problem` function
 * shows that instead. All functions end the request as reply.h says.
 */
#ifndef HTTP_ERROR_H
#define HTTP_ERROR_H

#include <jansson.h>

#include "base/err.h"
#include "base/errors.h"

struct http_request;

/* `fmt` says what was wrong with what was given; it may quote the client. */
void http_fail(struct http_request *req, enum err_code code, const char *fmt,
    ...) PRINTF_LIKE(3, 4);

/* Names the field, e.g. "to[0]" or "Idempotency-Key". */
void http_fail_field(struct http_request *req, enum err_code code,
    const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* With Retry-After and a body member retry_after. */
void http_fail_retry(struct http_request *req, enum err_code code,
    unsigned seconds, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* With more members for the document, e.g. {"status": "sent"}; takes over. */
void http_fail_more(struct http_request *req, enum err_code code, json_t *more,
    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* What a call inside (http/inner.h) was refused with; takes `doc` over. */
void http_fail_as(struct http_request *req, int status, json_t *doc);

#endif
