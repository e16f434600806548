/* SPDX-License-Identifier: ISC */
/*
 * limit_call.c - FCALL pst_charge, pst_refund and pst_peek, word by word.
 */
#include "store/limit_call.h"

#include <string.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "store/lease.h"

#define HOUR 3600
#define HOUR_BUCKETS 12
#define DAY 86400
#define DAY_BUCKETS 24
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* What stays within a bucket of LEASE_BUCKET_MS stays within all of them. */
_Static_assert(HOUR * 1000 / HOUR_BUCKETS % LEASE_BUCKET_MS == 0, "hour");
_Static_assert(DAY * 1000 / DAY_BUCKETS % LEASE_BUCKET_MS == 0, "day");

const struct limit_shape limit_shapes[LIMIT_WINDOWS] = {
	[LIMIT_HOUR] = { "hour", "m" TEXT(HOUR) "/" TEXT(HOUR_BUCKETS), HOUR },
	[LIMIT_DAY] = { "day", "m" TEXT(DAY) "/" TEXT(DAY_BUCKETS), DAY },
	[LIMIT_BYTES] = { "bytes", "b" TEXT(DAY) "/" TEXT(DAY_BUCKETS), DAY },
};

int64_t
limit_of(const struct limit_inbox *in, int window)
{
	switch (window) {
	case LIMIT_HOUR:
		return in->hour;
	case LIMIT_DAY:
		return in->day;
	default:
		return in->bytes;
	}
}

static void
put_text(struct limit_call *f, const char *s)
{
	BUG_ON(f->n == LIMIT_WORDS);
	f->arg[f->n++] = str_of(s);
}

void
limit_call_number(struct limit_call *f, int64_t v)
{
	char *text = f->text[f->n];

	BUG_ON(f->n == LIMIT_WORDS);
	f->arg[f->n] = (struct str){ text, dec_encode(text, v) };
	f->n++;
}

void
limit_call_begin(struct limit_call *f, const char *function, size_t keys)
{
	f->n = 0;
	put_text(f, "FCALL");
	put_text(f, function);
	limit_call_number(f, (int64_t)keys);
}

/* "rl:{1.2}" */
void
limit_call_key(struct limit_call *f, const struct limit_inbox *in)
{
	char *p = f->text[f->n];
	size_t n = 4;

	BUG_ON(f->n == LIMIT_WORDS);
	memcpy(p, "rl:{", 4);
	n += dec_encode(p + n, in->tenant);
	p[n++] = '.';
	n += dec_encode(p + n, in->inbox);
	p[n++] = '}';
	f->arg[f->n++] = (struct str){ p, n };
}

void
limit_call_windows(struct limit_call *f)
{
	int i;

	limit_call_number(f, LIMIT_WINDOWS);
	for (i = 0; i < LIMIT_WINDOWS; i++)
		put_text(f, limit_shapes[i].shape);
}

void
limit_call_cost(struct limit_call *f, const struct limit_cost *cost)
{
	limit_call_number(f, cost->messages);
	limit_call_number(f, cost->recipients);
	limit_call_number(f, cost->bytes);
}

void
limit_call_limits(struct limit_call *f, const struct limit_inbox *in)
{
	int i;

	for (i = 0; i < LIMIT_WINDOWS; i++)
		limit_call_number(f, limit_of(in, i));
}
