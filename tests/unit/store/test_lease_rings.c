/* SPDX-License-Identifier: ISC */
/*
 * test_lease_rings.c - no rolling window ever holds more than its limit, though
 * several gateways charge ahead: the rings of store/postern.lua counted
 * exactly, calls that take their time, a clock that leaps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/lease.h"

#define START (INT64_C(6000000) * LEASE_BUCKET_MS) /* an hour begins */
#define GATEWAYS 3
#define CALLS 64
#define MESSAGES 40000
#define BUCKETS 4000 /* of the simulated time */

static const struct limit_cost none;

static const struct {
	int64_t width, buckets, limit;
} rings[LIMIT_WINDOWS] = {
	[LIMIT_HOUR] = { 300000, 12, 3000 },
	[LIMIT_DAY] = { 3600000, 24, 15000 },
	[LIMIT_BYTES] = { 3600000, 24, 20000000 },
};
static const struct limit_inbox box = { 7, 7, 3000, 15000, 20000000 };

static int64_t ring[LIMIT_WINDOWS][BUCKETS], sent[LIMIT_WINDOWS][BUCKETS];
static struct {
	int64_t t, n[LIMIT_WINDOWS];
} history[MESSAGES];

struct call {
	bool refund;
	int64_t runs, ends, sent, at; /* simulated times; -1: it has run */
	struct limit_cost cost, more;
	struct limit_answer a;
	int window;
};

static struct gateway {
	struct leases *leases;
	struct call call[CALLS];
	size_t n;
} gateway[GATEWAYS];

static int64_t t;
static size_t count, covered, asked, refused;
static uint64_t dice;

static int64_t
roll(int64_t n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (int64_t)(dice % (uint64_t)n);
}

static int64_t
part(const struct limit_cost *c, int window)
{
	return window == LIMIT_BYTES ? c->bytes : c->messages;
}

static int64_t *
bucket(int64_t (*of)[BUCKETS], int window, int64_t when)
{
	int64_t i = when / rings[window].width - START / rings[window].width;

	assert_in_range(i, 0, BUCKETS - 1);
	return &of[window][i];
}

static int64_t
room(int window)
{
	int64_t i, age, sum = 0;

	i = t / rings[window].width - START / rings[window].width;
	for (age = 0; age <= rings[window].buckets && age <= i; age++)
		sum += ring[window][i - age];
	return rings[window].limit - sum;
}

static void
charge(struct call *c)
{
	struct limit_cost all = { c->cost.messages + c->more.messages,
		c->cost.recipients + c->more.recipients,
		c->cost.bytes + c->more.bytes };
	double least = 2, share;
	int64_t left;
	int w;

	c->a = (struct limit_answer){ .verdict = LIMIT_OK, .at = t };
	for (w = 0; w < LIMIT_WINDOWS; w++) {
		left = room(w) - part(&all, w);
		share = (double)left / (double)rings[w].limit;
		if (left < 0)
			c->a.verdict = LIMIT_OVER;
		if (share < least) {
			least = share;
			c->window = w;
			c->a.left = left;
		}
	}
	for (w = 0; c->a.verdict == LIMIT_OK && w < LIMIT_WINDOWS; w++)
		*bucket(ring, w, t) += part(&all, w);
}

static void
run(struct call *c)
{
	int w;

	if (!c->refund) {
		charge(c);
		return;
	}
	for (w = 0; w < LIMIT_WINDOWS; w++)
		*bucket(ring, w, c->at) -= part(&c->cost, w);
}

static void
put_call(struct gateway *g, const struct limit_cost *cost,
    const struct limit_cost *more, bool refund, int64_t when)
{
	int64_t after = g->n > 0 ? g->call[g->n - 1].ends : t;

	assert_true(g->n < CALLS);
	if (after < t)
		after = t;
	g->call[g->n] = (struct call){ .refund = refund,
		.sent = t,
		.at = when,
		.cost = *cost,
		.more = *more };
	g->call[g->n].runs = after + roll(3);
	g->call[g->n].ends = g->call[g->n].runs + roll(3);
	g->n++;
}

static void
put_back(void *arg, const struct limit_inbox *inbox,
    const struct limit_cost *rest, int64_t when)
{
	(void)inbox;
	put_call(arg, rest, &none, true, when);
}

/* A message goes out; now and then the database would not have it. */
static void
store(struct gateway *g, const struct limit_cost *cost, int64_t when)
{
	int w;

	if (roll(20) == 0) {
		if (!lease_give(g->leases, &box, cost, when, (uint64_t)t))
			put_call(g, cost, &none, true, when);
		return;
	}
	assert_true(count < MESSAGES);
	history[count].t = t;
	for (w = 0; w < LIMIT_WINDOWS; w++) {
		history[count].n[w] = part(cost, w);
		*bucket(sent, w, t) += part(cost, w);
	}
	count++;
}

static void
finish(struct gateway *g)
{
	struct call c = g->call[0];

	g->n--;
	memmove(g->call, g->call + 1, g->n * sizeof(c));
	if (c.refund)
		return;
	if (c.a.verdict == LIMIT_OK) {
		lease_allowed(g->leases, &box, &c.more, c.window, &c.a,
		    (uint64_t)c.sent, (uint64_t)t);
	} else if (lease_refused(g->leases, &box, &c.more, (uint64_t)t)) {
		put_call(g, &c.cost, &none, false, 0);
	} else {
		refused++;
	}
}

/* What is due now; messages count when Redis has allowed them. */
static void
turn(struct gateway *g)
{
	size_t i;

	for (i = 0; i < g->n && g->call[i].runs <= t; i++)
		if (g->call[i].runs >= 0) {
			run(&g->call[i]);
			g->call[i].runs = -1;
			if (!g->call[i].refund &&
			    g->call[i].a.verdict == LIMIT_OK)
				store(g, &g->call[i].cost, t);
		}
	while (g->n > 0 && g->call[0].runs < 0 && g->call[0].ends <= t)
		finish(g);
	if (roll(10) == 0) /* timers may be late */
		leases_expire(g->leases, (uint64_t)t);
}

static void
send_one(struct gateway *g)
{
	struct limit_cost more,
	    cost = { 1, 1 + roll(2), 500 + roll(roll(9) == 0 ? 9000 : 900) };
	struct limit_answer a;

	if (lease_take(g->leases, &box, &cost, (uint64_t)t, &a) >= 0) {
		covered++;
		store(g, &cost, a.at);
		return;
	}
	lease_ask(g->leases, &box, &cost, (uint64_t)t, &more);
	asked++;
	put_call(g, &cost, &more, false, 0);
}

/* The most that any window [t, t + width) holds. */
static int64_t
worst(int window)
{
	int64_t most = 0, total = 0;
	int64_t width = rings[window].width * rings[window].buckets;
	size_t i, low = 0;

	for (i = 0; i < count; i++) {
		total += history[i].n[window];
		while (history[low].t <= history[i].t - width)
			total -= history[low++].n[window];
		if (total > most)
			most = total;
	}
	return most;
}

/* A while without messages, often until shortly before a bucket ends. */
static void
leap(void)
{
	t += roll(4) == 0 ? roll(1200000) : roll(3000);
	if (roll(2) == 0)
		t += LEASE_BUCKET_MS - t % LEASE_BUCKET_MS - roll(1500);
}

static void
simulate(int64_t end)
{
	size_t i, open, before = 0;
	bool resting = false;
	int n;

	while (t < end && count + 2 * GATEWAYS < MESSAGES) {
		if (refused > before || roll(60) == 0)
			resting = true;
		before = refused;
		open = 0;
		for (i = 0; i < GATEWAYS; i++) {
			turn(&gateway[i]);
			if (!resting && gateway[i].n < CALLS / 2 && roll(3) > 0)
				send_one(&gateway[i]);
			open += gateway[i].n;
		}
		t += roll(2);
		if (resting && open == 0) {
			leap();
			resting = false;
		}
	}
	for (i = 0; i < GATEWAYS; i++)
		leases_stop(gateway[i].leases);
	for (n = 0; n < 1000; n++, t++)
		for (i = 0; i < GATEWAYS; i++)
			turn(&gateway[i]);
}

static void
test_no_rolling_window_is_passed(void **state)
{
	const char *seed = getenv("POSTERN_SEED");
	int round, w;
	size_t i;

	(void)state;
	for (round = 0; round < 20; round++) {
		dice = (uint64_t)(seed != NULL ? atoi(seed) : 1) * 1000003 +
		       (uint64_t)round + 88172645463325252ULL;
		memset(ring, 0, sizeof(ring));
		memset(sent, 0, sizeof(sent));
		count = covered = asked = refused = 0;
		t = START + roll(3600000);
		for (i = 0; i < GATEWAYS; i++) {
			gateway[i].n = 0;
			gateway[i].leases = leases_new(put_back, &gateway[i]);
		}
		simulate(t + INT64_C(30) * 3600000);
		for (i = 0; i < GATEWAYS; i++) {
			assert_int_equal(gateway[i].n, 0);
			leases_free(gateway[i].leases);
		}
		for (w = 0; w < LIMIT_WINDOWS; w++)
			assert_true(worst(w) <= rings[w].limit);
		/* each counts where it was sent, and nothing else does */
		assert_memory_equal(ring, sent, sizeof(ring));
		assert_true(covered > 1000 && refused > 100);
	}
	print_message("%zu sent, %zu covered, %zu asked, %zu refused\n", count,
	    covered, asked, refused);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_rolling_window_is_passed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
