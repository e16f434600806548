/* SPDX-License-Identifier: ISC */
/*
 * parse.h - bytes to requests, without sockets.
 *
 * llhttp reads the syntax; this module decides where a head and a body end by
 * its own count, hands llhttp exactly those bytes, and refuses the request
 * when the two do not agree. So no byte of one request can be taken for the
 * next one's.
 */
#ifndef HTTP_PARSE_H
#define HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp/llhttp.h>

#include "base/buf.h"
#include "http/chunk.h"
#include "http/server.h"

enum http_parse_step {
	HTTP_PARSE_MORE, /* everything was used; give more */
	HTTP_PARSE_HEAD, /* head complete; look at it, then go on */
	HTTP_PARSE_END, /* request complete; http_parser_reset() for the next */
	HTTP_PARSE_BAD, /* see fault and why; the connection must end */
};

enum http_fault {
	HTTP_FAULT_NONE,
	HTTP_FAULT_SYNTAX,
	HTTP_FAULT_TOO_LARGE, /* head, header count or target */
	HTTP_FAULT_FRAMING, /* how long is the body? */
};

/* Offsets into `text`; each string there ends in NUL. */
struct http_header {
	unsigned name, value;
};

struct http_head {
	struct buf text;
	struct http_header headers[HTTP_HEADERS_MAX];
	unsigned headers_n;
	unsigned target; /* offset */
	size_t target_n;
	const char *method;
	bool http11;
	bool close; /* the client wants no further request */
	bool expect; /* 100-continue */
	bool chunked;
	long long length; /* of the body; -1 when chunked */
};

struct http_parser {
	llhttp_t ll;
	struct http_head head;
	struct http_chunk chunk;
	int phase;
	int scan; /* state of the head's own scan */
	unsigned spaces; /* in the request line */
	size_t head_n; /* bytes of head so far, blank lines before it too */
	size_t mark; /* where the header name or value being read begins */
	unsigned long long left; /* of a body with Content-Length */
	bool head_done, message_done; /* llhttp's opinion */
	bool started; /* a byte of the head has come */
	enum http_fault fault;
	const char *why;
	void (*on_body)(void *arg, const char *p, size_t n);
	void *arg;
};

/* `on_body` gets decoded body bytes from inside http_parse(). */
void http_parser_init(struct http_parser *p,
    void (*on_body)(void *arg, const char *p, size_t n), void *arg);
/* Ready for the next request; memory of the head is released. */
void http_parser_reset(struct http_parser *p);
void http_parser_free(struct http_parser *p);

/* Feed bytes; `used` of them were taken. */
enum http_parse_step http_parse(
    struct http_parser *p, const char *data, size_t n, size_t *used);

const char *http_head_target(const struct http_head *head);
/* First header of that name in any case, or NULL. */
const char *http_head_find(const struct http_head *head, const char *name);

#endif
