/* SPDX-License-Identifier: ISC */
#include "deliver/wakes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/str.h"
#include "base/xalloc.h"
#include "store/redis.h"

#define WAKES_MAX 64
#define LATEST_MS 600000

struct wakes {
	wakes_fn *due;
	void *arg;
	struct loop_timer *timer; /* fires for the earliest */
	uint64_t at[WAKES_MAX]; /* in no order */
	size_t n;
};

static void
on_due(void *arg)
{
	struct wakes *w = arg;
	uint64_t now = clock_mono_ms(), next = UINT64_MAX;
	size_t i = 0;
	bool due = false;

	while (i < w->n) {
		if (w->at[i] <= now) {
			due = true;
			w->at[i] = w->at[--w->n];
			continue;
		}
		if (w->at[i] < next)
			next = w->at[i];
		i++;
	}
	if (next != UINT64_MAX)
		loop_timer_set(w->timer, next - now);
	if (due)
		w->due(w->arg);
}

static void
on_wake(void *arg, struct str channel, struct str message)
{
	struct wakes *w = arg;
	unsigned long long in_ms;

	(void)channel;
	if (!str_to_u64(message, LATEST_MS, &in_ms) || w->n == WAKES_MAX)
		return;
	/* One more: what is due in n ms must be due when we look. */
	w->at[w->n++] = clock_mono_ms() + in_ms + (in_ms > 0 ? 1 : 0);
	on_due(w);
}

struct wakes *
wakes_new(struct loop *loop, struct redis *redis, wakes_fn *due, void *arg)
{
	struct wakes *w = xcalloc(1, sizeof(*w));

	w->due = due;
	w->arg = arg;
	w->timer = loop_timer_new(loop, on_due, w);
	redis_subscribe(redis, "wake", on_wake, w);
	return w;
}

void
wakes_free(struct wakes *w)
{
	if (w == NULL)
		return;
	loop_timer_free(w->timer);
	free(w);
}
