/* SPDX-License-Identifier: ISC */
/*
 * stuff.h - dot-stuffing (RFC 5321 4.5.2) of bytes that come in pieces.
 *
 * The bytes were frozen with CRLF line ends; anything else is refused here
 * rather than repaired: what was approved is what leaves.
 */
#ifndef DELIVER_STUFF_H
#define DELIVER_STUFF_H

#include <stdbool.h>
#include <stddef.h>

struct evbuffer;

struct stuff {
	bool cr; /* the last byte was CR */
	bool mid_line; /* not at the beginning of a line */
};

/* Append `p` stuffed. False at a bare CR or LF or a NUL: send no dot. */
bool stuff_add(struct stuff *s, struct evbuffer *out, const char *p, size_t n);
/* Did the bytes end with CRLF (or were there none)? */
bool stuff_is_complete(const struct stuff *s);

#endif
