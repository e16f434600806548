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

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/queue.h"
#include "base/xalloc.h"
#include "store/lease.h"
#include "store/limit_call.h"
#include "store/redis.h"

#define LOCAL_BUCKETS 12
#define LOCAL_BUCKET_MS (3600 * 1000 / LOCAL_BUCKETS)
#define LOCAL_SLOTS 4096 /* inboxes that can send while Redis is away */

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
	struct limit_ops covered; /* those that a lease has paid for */
	LIST_HEAD(, limit_group) asked;
	struct leases *leases;
	struct loop_timer *timer;
	uint64_t due; /* of the timer; 0 = not set */
	unsigned refunds;
};

struct limit_op {
	TAILQ_ENTRY(limit_op) link; /* while it is in a list */
	struct limit_ops *list;
	struct limit_group *group; /* then */
	struct limiter *l;
	struct limit_answer answer; /* when it is covered */
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
	uint64_t sent;
	size_t n;
	struct limit_asked {
		struct limit_op *op; /* NULL: cancelled */
		struct limit_inbox inbox;
		struct limit_cost more; /* beside the message */
	} asked[LIMIT_GROUP_MAX];
};

static void send_charges(void *arg);
static void on_lease_end(void *arg);
static void give_back(void *arg, const struct limit_inbox *inbox,
    const struct limit_cost *rest, int64_t at);

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
	TAILQ_INIT(&l->covered);
	LIST_INIT(&l->asked);
	l->leases = leases_new(give_back, l);
	l->timer = loop_timer_new(loop, on_lease_end, l);
	return l;
}

static void
free_ops(struct limit_ops *list)
{
	struct limit_op *op;

	while ((op = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, op, link);
		free(op);
	}
}

void
limiter_free(struct limiter *l)
{
	struct limit_group *g;
	size_t i;

	if (l == NULL)
		return;
	loop_undefer(l->loop, send_charges, l);
	free_ops(&l->waiting);
	free_ops(&l->covered);
	while ((g = LIST_FIRST(&l->asked)) != NULL) {
		LIST_REMOVE(g, link);
		for (i = 0; i < g->n; i++)
			free(g->asked[i].op);
		free(g);
	}
	loop_timer_free(l->timer);
	leases_free(l->leases);
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
	a->window = limit_shapes[LIMIT_HOUR].name;
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

/* Nobody waits for the answer: a refund that is lost costs the agent. */
static void
on_refunded(void *arg, const struct redisReply *reply)
{
	struct limiter *l = arg;

	(void)reply;
	l->refunds--;
}

static void
put_refund(struct limiter *l, const struct limit_inbox *inbox,
    const struct limit_cost *cost, int64_t at)
{
	struct limit_call f;

	limit_call_begin(&f, "pst_refund", 1);
	limit_call_key(&f, inbox);
	limit_call_windows(&f);
	limit_call_number(&f, at);
	limit_call_cost(&f, cost);
	limit_call_limits(&f, inbox);
	l->refunds++;
	redis_call(l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_refunded, l);
}

static void
give_back(void *arg, const struct limit_inbox *inbox,
    const struct limit_cost *rest, int64_t at)
{
	put_refund(arg, inbox, rest, at);
}

static void
set_timer(struct limiter *l)
{
	uint64_t now, next = leases_next(l->leases);

	if (next == 0 || (l->due != 0 && l->due <= next))
		return;
	now = clock_mono_ms();
	l->due = next;
	loop_timer_set(l->timer, next > now ? next - now : 0);
}

static void
on_lease_end(void *arg)
{
	struct limiter *l = arg;

	l->due = 0;
	leases_expire(l->leases, clock_mono_ms());
	set_timer(l);
}

void
limiter_drain(struct limiter *l)
{
	leases_stop(l->leases);
}

unsigned
limiter_pending(const struct limiter *l)
{
	return l->refunds;
}

static void
wait_turn(struct limit_op *op)
{
	struct limiter *l = op->l;

	if (TAILQ_EMPTY(&l->waiting))
		loop_defer(l->loop, send_charges, l);
	op->group = NULL;
	op->list = &l->waiting;
	TAILQ_INSERT_TAIL(op->list, op, link);
}

static void
finish(struct limit_op *op, const struct limit_answer *a)
{
	op->charged(op->arg, a);
	free(op);
}

/* Nobody knows. */
static void
unanswered(struct limiter *l, const struct limit_asked *q, struct limit_op *op)
{
	struct limit_answer a = { 0 };

	lease_unknown(l->leases, &q->inbox, &q->more);
	if (op == NULL)
		return;
	if (l->closed)
		a.verdict = LIMIT_CLOSED;
	else
		charge_local(l, op, &a);
	finish(op, &a);
}

/* The answer to this one begins at `at`. */
static void
answered(struct limit_group *g, const struct limit_asked *q,
    struct limit_op *op, const struct redisReply *reply, size_t at)
{
	struct limiter *l = g->l;
	int window = (int)number(reply, at + 1) - 1;
	struct limit_answer a = { .left = number(reply, at + 2),
		.wait_ms = number(reply, at + 3),
		.at = number(reply, at + 4) };

	forget_local(l);
	if (window < 0 || window >= LIMIT_WINDOWS)
		window = -1;
	if (window >= 0) {
		a.window = limit_shapes[window].name;
		a.limit = limit_of(&q->inbox, window);
	}
	if (number(reply, at) == 1) {
		a.verdict = LIMIT_OK;
		lease_allowed(l->leases, &q->inbox, &q->more, window, &a,
		    g->sent, clock_mono_ms());
		if (window >= 0)
			a.left += lease_rest(l->leases, &q->inbox, window);
	} else {
		a.verdict = LIMIT_OVER;
		if (lease_refused(
			l->leases, &q->inbox, &q->more, clock_mono_ms()) &&
		    op != NULL) {
			wait_turn(op);
			return;
		}
	}
	if (op != NULL)
		finish(op, &a);
}

static void
on_charged(void *arg, const struct redisReply *reply)
{
	struct limit_group *g = arg;
	struct limit_asked *q;
	struct limit_op *op;
	size_t i;

	if (reply != NULL &&
	    (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 * g->n))
		reply = NULL;
	for (i = 0; i < g->n; i++) {
		q = &g->asked[i];
		op = q->op;
		q->op = NULL;
		if (reply != NULL)
			answered(g, q, op, reply, 5 * i);
		else
			unanswered(g->l, q, op);
	}
	set_timer(g->l);
	LIST_REMOVE(g, link);
	free(g);
}

/* What waits first, and a little more for the inboxes that are busy. */
static void
send_group(struct limiter *l, uint64_t now)
{
	struct limit_group *g = xcalloc(1, sizeof(*g));
	struct limit_cost cost[LIMIT_GROUP_MAX];
	struct limit_asked *q;
	struct limit_op *op;
	struct limit_call f;
	size_t i;

	g->l = l;
	g->sent = now;
	LIST_INSERT_HEAD(&l->asked, g, link);
	while (
	    g->n < LIMIT_GROUP_MAX && (op = TAILQ_FIRST(&l->waiting)) != NULL) {
		TAILQ_REMOVE(&l->waiting, op, link);
		q = &g->asked[g->n];
		q->op = op;
		q->inbox = op->inbox;
		op->group = g;
		lease_ask(l->leases, &op->inbox, &op->cost, now, &q->more);
		cost[g->n].messages = op->cost.messages + q->more.messages;
		cost[g->n].recipients =
		    op->cost.recipients + q->more.recipients;
		cost[g->n].bytes = op->cost.bytes + q->more.bytes;
		g->n++;
	}
	limit_call_begin(&f, "pst_charge", g->n);
	for (i = 0; i < g->n; i++)
		limit_call_key(&f, &g->asked[i].inbox);
	limit_call_windows(&f);
	for (i = 0; i < g->n; i++) {
		limit_call_cost(&f, &cost[i]);
		limit_call_limits(&f, &g->asked[i].inbox);
	}
	redis_call(l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_charged, g);
}

/* Those that a lease pays for need not be asked. */
static void
take_covered(struct limiter *l, uint64_t now)
{
	struct limit_op *op, *next;
	int window;

	if (!redis_up(l->redis)) {
		leases_drop(l->leases);
		return;
	}
	TAILQ_FOREACH_SAFE(op, &l->waiting, link, next) {
		window = lease_take(
		    l->leases, &op->inbox, &op->cost, now, &op->answer);
		if (window < 0)
			continue;
		op->answer.window = limit_shapes[window].name;
		TAILQ_REMOVE(&l->waiting, op, link);
		op->list = &l->covered;
		TAILQ_INSERT_TAIL(op->list, op, link);
	}
}

/* What was to be charged in this turn of the loop goes in few calls. */
static void
send_charges(void *arg)
{
	struct limiter *l = arg;
	uint64_t now = clock_mono_ms();
	struct limit_op *op;

	take_covered(l, now);
	while (!TAILQ_EMPTY(&l->waiting))
		send_group(l, now);
	while ((op = TAILQ_FIRST(&l->covered)) != NULL) {
		TAILQ_REMOVE(&l->covered, op, link);
		finish(op, &op->answer);
	}
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
	wait_turn(op);
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
		TAILQ_REMOVE(op->list, op, link);
	} else {
		for (i = 0; i < op->group->n; i++)
			if (op->group->asked[i].op == op)
				op->group->asked[i].op = NULL;
	}
	free(op);
}

void
limit_refund(struct limiter *l, const struct limit_inbox *inbox,
    const struct limit_cost *cost, const struct limit_answer *answer)
{
	struct local_ring *r;
	uint64_t age;

	switch (answer->verdict) {
	case LIMIT_OK:
		if (!lease_give(
			l->leases, inbox, cost, answer->at, clock_mono_ms()))
			put_refund(l, inbox, cost, answer->at);
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
		left[i].name = limit_shapes[i].name;
		left[i].seconds = limit_shapes[i].seconds;
		left[i].limit = limit_of(&op->inbox, (int)i);
		left[i].left = number(reply, 2 * i) +
			       lease_rest(op->l->leases, &op->inbox, (int)i);
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
	struct limit_call f;

	op->peeked = done;
	limit_call_begin(&f, "pst_peek", 1);
	limit_call_key(&f, inbox);
	limit_call_windows(&f);
	limit_call_limits(&f, inbox);
	op->req =
	    redis_call(l->redis, f.n, f.arg, REDIS_TIMEOUT_MS, on_peeked, op);
	return op;
}
