/* SPDX-License-Identifier: ISC */
/* internal.h - one conversation, as the files of milter/client see it. */
#ifndef MILTER_INTERNAL_H
#define MILTER_INTERNAL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/queue.h"
#include "milter/client.h"
#include "milter/wire.h"

struct net_stream;

enum milter_place { MILTER_OUTSIDE, MILTER_WAITING, MILTER_INSIDE };

struct milter {
	struct loop *loop;
	struct milter_conf conf;
	void (*done)(void *arg), (*room)(void *arg);
	void *arg;
	struct milter_gate *gate; /* NULL: none, or it was left */
	enum milter_place place;
	TAILQ_ENTRY(milter) turn; /* of those that wait, or are inside */
	struct net_stream *stream; /* NULL: not yet, or no more */
	struct loop_timer *timer;
	struct milter_result result;

	struct buf hostname, id, from, rcpts; /* with their NULs */
	uint32_t steps; /* what the filter can do without */
	bool ready; /* negotiated */
	bool finished; /* milter_finish() was called */
	bool over; /* there is a verdict */
	bool asked; /* the end of the message was sent */
	bool full; /* room() is owed */
	bool skip; /* it wants no more of the body */
	bool in_body;
	unsigned expected; /* replies that have not come */
	unsigned patience; /* how often "still working" still counts */
	struct buf early; /* bytes that came before it was ready */
	struct buf head; /* header section so far */
	struct buf chunk; /* of the body, not sent */
	struct buf out; /* packets being made */
};

/* client.c: its turn has come. */
void milter_connect(struct milter *m);

/* say.c: packets to the filter, into m->out. */
void milter_say_offer(struct milter *m);
void milter_say_envelope(struct milter *m);
void milter_say_bytes(struct milter *m, const char *p, size_t n);
void milter_say_end(struct milter *m);

/* hear.c: one packet of the filter; false when it is nonsense. */
bool milter_hear(struct milter *m, const struct milter_packet *p);

#endif
