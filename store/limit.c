/* SPDX-License-Identifier: ISC */
/*
 * limit.c - asks store/postern.lua; keeps small rings itself meanwhile.
 *
 * The local rings hold limit / shares for the hour and shorter, in the same
 * shape as those in Redis, and live only while Redis is away: a worker that
 * starts with Redis down begins at zero. Gated mail only waits for people,
 * and the day is counted in PostgreSQL, so this bounds load, not trust.
 */
#include "store/limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "store/redis.h"

enum { WINDOW_HOUR, WINDOW_DAY, WINDOW_BYTES };

static const struct window {
	const char *name;
	const char *shape; /* as postern.lua reads it */
	unsigned seconds;
} windows[LIMIT_WINDOWS] = {
	[WINDOW_HOUR] = { "hour", "m3600/12", 3600 },
	[WINDOW_DAY] = { "day", "m86400/24", 86400 },
	[WINDOW_BYTES] = { "bytes", "b86400/24", 86400 },
};

#define LOCAL_BUCKETS 12
#define LOCAL_BUCKET_MS (3600 * 1000 / LOCAL_BUCKETS)
#define LOCAL_SLOTS 4096 /* inboxes that can send while Redis is away */
#define GROUP_MAX 16 /* charges of one call */
#define NUMBERS (8 + LIMIT_WINDOWS + GROUP_MAX * (4 + LIMIT_WINDOWS))

struct local_ring {
	int64_t tenant, inbox; /* 0 = free */
	uint64_t newest; /* number of bucket[0] */
	int64_t bucket[LOCAL_BUCKETS + 1];
};

TAILQ_HEAD(limit_ops, limit_op);

struct limiter {
	struct loop *loop;
	struct redis *redis;
	unsigned shares;
	bool closed;
	struct local_ring *local; /* NULL while Redis is there */
	struct limit_ops waiting; /* charges of this turn of the loop */
	LIST_HEAD(, limit_group) asked;
};

struct limit_op {
	TAILQ_ENTRY(limit_op) link; /* while it waits */
	struct limit_group *group; /* then */
	struct limiter *l;
	struct limit_inbox inbox;
	struct limit_cost cost;
	struct redis_req *req;
	limit_fn *charged;
	limit_peek_fn *peeked;
	void *arg;
};

/* Charges that go out together. */
struct limit_group {
	LIST_ENTRY(limit_group) link;
	struct limiter *l;
	size_t n;
	struct limit_op *op[GROUP_MAX]; /* NULL: cancelled */
};

/* Arguments of one FCALL: short texts that live as long as the call. */
struct fcall {
	struct str arg[NUMBERS];
	char text[NUMBERS][48];
	size_t n;
};

struct limiter *
limiter_new(
    struct loop *loop, struct redis *redis, unsigned shares, bool closed)
{
	struct limiter *l = xcalloc(1, sizeof(*l));

	l->loop = loop;
	l->redis = redis;
	l->shares = shares > 0 ? shares : 1;
	l->closed = closed;
	TAILQ_INIT(&l->waiting);
	LIST_INIT(&l->asked);
	return l;
}

static void send_charges(void *arg);

void
limiter_free(struct limiter *l)
{
	struct limit_group *g;
	struct limit_op *op;
	size_t i;

	if (l == NULL)
		return;
	loop_undefer(l->loop, send_charges, l);
	while ((op = TAILQ_FIRST(&l->waiting)) != NULL) {
		TAILQ_REMOVE(&l->waiting, op, link);
		free(op);
	}
	while ((g = LIST_FIRST(&l->asked)) != NULL) {
		LIST_REMOVE(g, link);
		for (i = 0; i < g->n; i++)
			free(g->op[i]);
		free(g);
	}
	free(l->local);
	free(l);
}

void
limiter_set_closed(struct limiter *l, bool closed)
{
	l->closed = closed;
}

bool
limiter_up(const struct limiter *l)
{
	return redis_up(l->redis);
}

static void
put_text(struct fcall *f, const char *s)
{
	BUG_ON(f->n == NUMBERS);
	f->arg[f->n++] = str_of(s);
}

static void
put_number(struct fcall *f, int64_t v)
{
	char *text = f->text[f->n];

	BUG_ON(f->n == NUMBERS);
	f->arg[f->n] = (struct str){ text, dec_encode(text, v) };
	f->n++;
}

static int64_t
limit_of(const struct limit_inbox *in, int window)
{
	switch (window) {
	case WINDOW_HOUR:
		return in->hour;
	case WINDOW_DAY:
		return in->day;
	default:
		return in->bytes;
	}
}

static void
begin(struct fcall *f, const char *function, size_t keys)
{
	f->n = 0;
	put_text(f, "FCALL");
	put_text(f, function);
	put_number(f, (int64_t)keys);
}

/* "rl:{1.2}" */
static void
put_key(struct fcall *f, const struct limit_inbox *in)
{
	char *p = f->text[f->n];
	size_t n = 4;

	BUG_ON(f->n == NUMBERS);
	memcpy(p, "rl:{", 4);
	n += dec_encode(p + n, in->tenant);
	p[n++] = '.';
	n += dec_encode(p + n, in->inbox);
	p[n++] = '}';
	f->arg[f->n++] = (struct str){ p, n };
}

static void
put_cost(struct fcall *f, const struct limit_cost *cost)
{
	put_number(f, cost->messages);
	put_number(f, cost->recipients);
	put_number(f, cost->bytes);
}

static void
put_windows(struct fcall *f)
{
	int i;

	put_number(f, LIMIT_WINDOWS);
	for (i = 0; i < LIMIT_WINDOWS; i++)
		put_text(f, windows[i].shape);
}

static void
put_limits(struct fcall *f, const struct limit_inbox *in)
{
	int i;

	for (i = 0; i < LIMIT_WINDOWS; i++)
		put_number(f, limit_of(in, i));
}

/* The inbox's own ring, or NULL when the table is full. */
static struct local_ring *
find_local(struct limiter *l, const struct limit_inbox *in)
{
	uint64_t h = ((uint64_t)in->tenant * 31 + (uint64_t)in->inbox) *
		     UINT64_C(0x9e3779b97f4a7c15);
	struct local_ring *r;
	size_t i;

	if (l->local == NULL)
		l->local = xcalloc(LOCAL_SLOTS, sizeof(*l->local));
	for (i = 0; i < LOCAL_SLOTS; i++) {
		r = &l->local[((h >> 40) + i) % LOCAL_SLOTS];
		if (r->tenant == 0) {
			r->tenant = in->tenant;
			r->inbox = in->inbox;
		}
		if (r->tenant == in->tenant && r->inbox == in->inbox)
			return r;
	}
	return NULL;
}

/* Turned to the present time. */
static struct local_ring *
local_ring(struct limiter *l, const struct limit_inbox *in, uint64_t now)
{
	struct local_ring *r = find_local(l, in);
	uint64_t bucket = now / LOCAL_BUCKET_MS, steps;

	if (r == NULL)
		return NULL;
	steps = bucket - r->newest;
	if (steps > LOCAL_BUCKETS + 1)
		steps = LOCAL_BUCKETS + 1;
	memmove(r->bucket + steps, r->bucket,
	    (LOCAL_BUCKETS + 1 - steps) * sizeof(r->bucket[0]));
	memset(r->bucket, 0, steps * sizeof(r->bucket[0]));
	r->newest = bucket;
	return r;
}

static void
charge_local(
    struct limiter *l, const struct limit_op *op, struct limit_answer *a)
{
	uint64_t now = clock_mono_ms();
	struct local_ring *r = local_ring(l, &op->inbox, now);
	int64_t used = 0;
	int i;

	for (i = 0; r != NULL && i <= LOCAL_BUCKETS; i++)
		used += r->bucket[i];
	a->window = windows[WINDOW_HOUR].name;
	a->limit = op->inbox.hour / (int64_t)l->shares;
	if (a->limit == 0 && op->inbox.hour > 0)
		a->limit = 1;
	a->at = (int64_t)now;
	a->wait_ms = LOCAL_BUCKET_MS;
	if (r == NULL || used + op->cost.messages > a->limit) {
		a->verdict = LIMIT_LOCAL_OVER;
		a->left = 0;
		return;
	}
	r->bucket[0] += op->cost.messages;
	a->verdict = LIMIT_LOCAL;
	a->left = a->limit - used - op->cost.messages;
}

static void
forget_local(struct limiter *l)
{
	free(l->local);
	l->local = NULL;
}

static int64_t
number(const struct redisReply *reply, size_t i)
{
	return reply->element[i]->integer;
}

/* The answer to this one begins at `at`; without a reply nobody knows. */
static void
answer(struct limit_op *op, const struct redisReply *reply, size_t at)
{
	struct limiter *l = op->l;
	struct limit_answer a = { 0 };
	int64_t window;

	if (reply != NULL) {
		forget_local(l);
		window = number(reply, at + 1);
		a.verdict = number(reply, at) == 1 ? LIMIT_OK : LIMIT_OVER;
		if (window >= 1 && window <= LIMIT_WINDOWS) {
			a.window = windows[window - 1].name;
			a.limit = limit_of(&op->inbox, (int)window - 1);
		}
		a.left = number(reply, at + 2);
		a.wait_ms = number(reply, at + 3);
		a.at = number(reply, at + 4);
	} else if (l->closed) {
		a.verdict = LIMIT_CLOSED;
	} else {
		charge_local(l, op, &a);
	}
	op->charged(op->arg, &a);
	free(op);
}

static void
on_charged(void *arg, const struct redisReply *reply)
{
	struct limit_group *g = arg;
	struct limit_op *op;
	size_t i;

	if (reply != NULL &&
	    (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 * g->n))
		reply = NULL;
	for (i = 0; i < g->n; i++) {
		op = g->op[i];
		g->op[i] = NULL;
		if (op != NULL)
			answer(op, reply, 5 * i);
	}
	LIST_REMOVE(g, link);
	free(g);
}

static void
send_group(struct limiter *l)
{
	struct limit_group *g = xcalloc(1, sizeof(*g));
	struct limit_op *op;
	struct fcall f;
	size_t i;

	g->l = l;
	LIST_INSERT_HEAD(&l->asked, g, link);
	while (g->n < GROUP_MAX && (op = TAILQ_FIRST(&l->waiting)) != NULL) {
		TAILQ_REMOVE(&l->waiting, op, link);
		op->group = g;
		g->op[g->n++] = op;
	}
	begin(&f, "pst_charge", g->n);
	for (i = 0; i < g->n; i++)
		put_key(&f, &g->op[i]->inbox);
	put_windows(&f);
	for (i = 0; i < g->n; i++) {
		put_cost(&f, &g->op[i]->cost);
		put_limits(&f, &g->op[i]->inbox);
	}
	redis_call(l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_charged, g);
}

/* What was to be charged in this turn of the loop goes in few calls. */
static void
send_charges(void *arg)
{
	struct limiter *l = arg;

	while (!TAILQ_EMPTY(&l->waiting))
		send_group(l);
}

static struct limit_op *
new_op(struct limiter *l, const struct limit_inbox *inbox, void *arg)
{
	struct limit_op *op = xcalloc(1, sizeof(*op));

	op->l = l;
	op->inbox = *inbox;
	op->arg = arg;
	return op;
}

struct limit_op *
limit_charge(struct limiter *l, const struct limit_inbox *inbox,
    const struct limit_cost *cost, limit_fn *done, void *arg)
{
	struct limit_op *op = new_op(l, inbox, arg);

	op->cost = *cost;
	op->charged = done;
	if (TAILQ_EMPTY(&l->waiting))
		loop_defer(l->loop, send_charges, l);
	TAILQ_INSERT_TAIL(&l->waiting, op, link);
	return op;
}

void
limit_cancel(struct limit_op *op)
{
	size_t i;

	if (op == NULL)
		return;
	if (op->peeked != NULL) {
		redis_cancel(op->req);
	} else if (op->group == NULL) {
		TAILQ_REMOVE(&op->l->waiting, op, link);
	} else {
		for (i = 0; i < op->group->n; i++)
			if (op->group->op[i] == op)
				op->group->op[i] = NULL;
	}
	free(op);
}

/* Nobody waits for the answer: a refund that is lost costs the agent. */
static void
on_refunded(void *arg, const struct redisReply *reply)
{
	(void)arg;
	(void)reply;
}

void
limit_refund(struct limiter *l, const struct limit_inbox *inbox,
    const struct limit_cost *cost, const struct limit_answer *answer)
{
	struct local_ring *r;
	uint64_t age;
	struct fcall f;

	switch (answer->verdict) {
	case LIMIT_OK:
		begin(&f, "pst_refund", 1);
		put_key(&f, inbox);
		put_windows(&f);
		put_number(&f, answer->at);
		put_cost(&f, cost);
		put_limits(&f, inbox);
		redis_call(
		    l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_refunded, NULL);
		break;
	case LIMIT_LOCAL:
		if (l->local == NULL)
			break;
		r = local_ring(l, inbox, clock_mono_ms());
		if (r == NULL)
			break;
		age = r->newest - (uint64_t)answer->at / LOCAL_BUCKET_MS;
		if (age <= LOCAL_BUCKETS && r->bucket[age] >= cost->messages)
			r->bucket[age] -= cost->messages;
		break;
	case LIMIT_OVER:
	case LIMIT_LOCAL_OVER:
	case LIMIT_CLOSED:
		break;
	}
}

static void
on_peeked(void *arg, const struct redisReply *reply)
{
	struct limit_op *op = arg;
	struct limit_left left[LIMIT_WINDOWS];
	size_t i;

	if (reply == NULL || reply->type != REDIS_REPLY_ARRAY ||
	    reply->elements != 2 * LIMIT_WINDOWS) {
		op->peeked(op->arg, NULL);
		free(op);
		return;
	}
	for (i = 0; i < LIMIT_WINDOWS; i++) {
		left[i].name = windows[i].name;
		left[i].seconds = windows[i].seconds;
		left[i].limit = limit_of(&op->inbox, (int)i);
		left[i].left = number(reply, 2 * i);
		left[i].reset_ms = number(reply, 2 * i + 1);
	}
	op->peeked(op->arg, left);
	free(op);
}

struct limit_op *
limit_peek(struct limiter *l, const struct limit_inbox *inbox,
    limit_peek_fn *done, void *arg)
{
	struct limit_op *op = new_op(l, inbox, arg);
	struct fcall f;

	op->peeked = done;
	begin(&f, "pst_peek", 1);
	put_key(&f, inbox);
	put_windows(&f);
	put_limits(&f, inbox);
	op->req =
	    redis_call(l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_peeked, op);
	return op;
}
