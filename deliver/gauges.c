/* SPDX-License-Identifier: ISC */
#include "deliver/gauges.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "store/redis.h"
#include "store/relay.h"

#define EVERY_MS 5000

struct gauges {
	struct relay *relay;
	struct redis *redis;
	struct loop_timer *timer;
	struct relay_op *op;
};

static void
on_stats(void *arg, enum relay_status st, const struct relay_stats *s)
{
	struct gauges *g = arg;

	g->op = NULL;
	if (st == RELAY_DONE) {
		metrics_set(M_QUEUE_DUE, s->due, NULL, NULL);
		metrics_set(M_UNCERTAIN, s->uncertain, NULL, NULL);
		metrics_set(M_HELD, s->held, NULL, NULL);
		metrics_set(M_HELD_OLDEST_SECONDS,
		    s->oldest_held_us == 0
			? 0
			: (clock_real_us() - s->oldest_held_us) / 1000000,
		    NULL, NULL);
	}
	metrics_set(M_REDIS_UP, redis_up(g->redis), NULL, NULL);
	loop_timer_set(g->timer, EVERY_MS);
}

static void
ask(void *arg)
{
	struct gauges *g = arg;

	g->op = relay_stats(g->relay, on_stats, g);
}

struct gauges *
gauges_new(struct loop *loop, struct relay *relay, struct redis *redis)
{
	struct gauges *g = xcalloc(1, sizeof(*g));

	g->relay = relay;
	g->redis = redis;
	g->timer = loop_timer_new(loop, ask, g);
	loop_timer_set(g->timer, 0);
	return g;
}

void
gauges_free(struct gauges *g)
{
	if (g == NULL)
		return;
	relay_cancel(g->op);
	loop_timer_free(g->timer);
	free(g);
}
