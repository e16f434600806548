/* SPDX-License-Identifier: ISC */
#include "deliver/sweeps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/relay.h"

#define EVERY_MS 5000
#define ROWS 100 /* a call; more are asked for at once */

struct sweeps {
	struct relay *relay;
	struct loop_timer *timer;
	struct relay_op *op;
	bool stopped;
};

static void
on_swept(void *arg, enum relay_status st, const char *why)
{
	struct sweeps *s = arg;

	s->op = NULL;
	loop_timer_set(s->timer,
	    st == RELAY_DONE && strcmp(why, "more") == 0 ? 0 : EVERY_MS);
}

static void
sweep(void *arg)
{
	struct sweeps *s = arg;

	if (!s->stopped)
		s->op = relay_sweep(s->relay, ROWS, on_swept, s);
}

struct sweeps *
sweeps_new(struct loop *loop, struct relay *relay)
{
	struct sweeps *s = xcalloc(1, sizeof(*s));

	s->relay = relay;
	s->timer = loop_timer_new(loop, sweep, s);
	loop_timer_set(s->timer, 0);
	return s;
}

void
sweeps_stop(struct sweeps *s)
{
	s->stopped = true;
}

void
sweeps_free(struct sweeps *s)
{
	if (s == NULL)
		return;
	relay_cancel(s->op);
	loop_timer_free(s->timer);
	free(s);
}
