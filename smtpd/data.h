/* SPDX-License-Identifier: ISC */
/*
 * data.h - the bytes between 354 and the end of the message.
 *
 * Only CRLF ends a line and only CRLF "." CRLF ends the message, wherever
 * the network cut the bytes. A bare CR, bare LF or NUL never ends anything:
 * it raises a flag, and the message is refused after its true end. Pure.
 */
#ifndef SMTPD_DATA_H
#define SMTPD_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum smtp_data_flag {
	SMTP_DATA_BARE_CR = 1 << 0,
	SMTP_DATA_BARE_LF = 1 << 1,
	SMTP_DATA_NUL = 1 << 2,
	SMTP_DATA_LONG_LINE = 1 << 3 /* over 998 octets without CRLF */
};

enum { SMTP_DATA_EXTRA = 2 }; /* room that feed() may need beyond its input */

struct smtp_data {
	unsigned state;
	unsigned flags;
	bool ended;
	uint32_t line; /* octets of the line so far */
	uint64_t size; /* content octets: CRLF counted, stuffed dots not */
};

void smtp_data_init(struct smtp_data *data);

/*
 * Eat from `in` up to the end of the message, if it is there; returns how
 * many bytes were eaten (all, unless ended). The content goes to `out`, which
 * has room for n + SMTP_DATA_EXTRA bytes.
 */
size_t smtp_data_feed(struct smtp_data *data, const unsigned char *in, size_t n,
    unsigned char *out, size_t *out_n);

#endif
