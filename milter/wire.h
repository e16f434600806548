/* SPDX-License-Identifier: ISC */
/*
 * wire.h - packets of the milter protocol, version 6, as a function of bytes.
 *
 * A packet is a length of four octets, a letter, and what belongs to it; texts
 * in it end with NUL. The names are those of libmilter's mfdef.h.
 */
#ifndef MILTER_WIRE_H
#define MILTER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define MILTER_VERSION 6
#define MILTER_VERSION_MIN 2
#define MILTER_VERSION_DATA 4 /* the first that hears of DATA */
#define MILTER_CHUNK 65535 /* of a body */
#define MILTER_REPLY_MAX (1024 * 1024)

/* What a filter may ask for at the end; all of it is noted, none done. */
#define MILTER_ACTIONS 0x1ffU

/* Steps and replies that a filter can do without. */
enum {
	MILTER_NO_CONNECT = 0x1,
	MILTER_NO_HELO = 0x2,
	MILTER_NO_MAIL = 0x4,
	MILTER_NO_RCPT = 0x8,
	MILTER_NO_BODY = 0x10,
	MILTER_NO_HEADERS = 0x20,
	MILTER_NO_EOH = 0x40,
	MILTER_QUIET_HEADER = 0x80,
	MILTER_NO_DATA = 0x200,
	MILTER_SKIP = 0x400,
	MILTER_QUIET_CONNECT = 0x1000,
	MILTER_QUIET_HELO = 0x2000,
	MILTER_QUIET_MAIL = 0x4000,
	MILTER_QUIET_RCPT = 0x8000,
	MILTER_QUIET_DATA = 0x10000,
	MILTER_QUIET_EOH = 0x40000,
	MILTER_QUIET_BODY = 0x80000,
	MILTER_LEADING_SPACE = 0x100000,
	MILTER_STEPS = 0x1fffff
};

struct milter_packet {
	char letter;
	struct str data; /* in the bytes given */
};

/* Octets of the first packet in `in`; 0: not all is there; -1: nonsense. */
long milter_packet_take(struct milter_packet *out, struct str in);
/* A text up to its NUL, taken off `data`; false when there is none. */
bool milter_text_take(struct str *data, struct str *out);
bool milter_u32_take(struct str *data, uint32_t *out);

/* Begin a packet; what is appended until milter_packet_end() belongs to it. */
size_t milter_packet_begin(struct buf *out, char letter);
void milter_packet_end(struct buf *out, size_t at);
/* Append a text with its NUL; one inside is left out. */
void milter_text_put(struct buf *out, struct str text);

#endif
