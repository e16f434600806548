/* SPDX-License-Identifier: ISC */
/*
 * reply.h - SMTP replies of a next hop, as a function of bytes and state.
 *
 * RFC 5321 4.2: one or more lines "250-text", the last "250 text". Everything
 * a peer says is capped and reduced to printable ASCII; what is no reply is
 * malformed, which callers treat as a passing failure and end the session.
 */
#ifndef DELIVER_REPLY_H
#define DELIVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define REPLY_LINES_MAX 100
#define REPLY_BYTES_MAX 4096
#define REPLY_TEXT_MAX 256
#define REPLY_EXT_NAME 32

struct reply {
	int code; /* 100-599; 0 while the first line is not there */
	char enhanced[16]; /* "5.1.1", or "" */
	char text[REPLY_TEXT_MAX]; /* lines joined by " / " */
	/* EHLO keywords that matter, of a 250 reply. */
	bool starttls, eightbitmime, smtputf8, auth_plain, auth_login;
	bool dsn, requiretls, pipelining;
	int rcptmax, mailmax; /* of LIMITS (RFC 9422), 0 = none */
	long long size; /* of SIZE, 0 = none given */
};

struct reply_parser {
	struct reply reply;
	size_t lines, bytes;
	bool sep; /* text before the next line */
};

enum reply_step {
	REPLY_MORE, /* another line belongs to it */
	REPLY_READY, /* parser->reply is whole; reply_reset() before the next */
	REPLY_MALFORMED,
};

void reply_reset(struct reply_parser *p);
/* One line without its line end; a line of another length is the caller's. */
enum reply_step reply_line(struct reply_parser *p, struct str line);

#endif
