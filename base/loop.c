/* SPDX-License-Identifier: ISC */
#include "base/loop.h"

#include <event2/event.h>

#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/queue.h"
#include "base/xalloc.h"

#define USUAL_AT_ONCE 16

struct deferred {
	TAILQ_ENTRY(deferred) link;
	loop_fn *fn;
	void *arg;
};

struct loop {
	struct event_base *base;
	struct event *wake;
	struct event *log; /* NULL: lines do not wait */
	TAILQ_HEAD(deferred_list, deferred) todo;
};

struct loop_timer {
	struct event *ev;
	loop_fn *fn;
	void *arg;
};

/* Only what was there on entry, so that work which defers itself yields. */
static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	struct deferred *last = TAILQ_LAST(&loop->todo, deferred_list), *d;
	bool is_last;

	(void)fd;
	(void)what;
	while ((d = TAILQ_FIRST(&loop->todo)) != NULL) {
		is_last = d == last;
		TAILQ_REMOVE(&loop->todo, d, link);
		if (d->fn != NULL)
			d->fn(d->arg);
		free(d);
		if (is_last)
			break;
	}
	if (!TAILQ_EMPTY(&loop->todo))
		event_active(loop->wake, 0, 0);
}

/* A few usual events, then a look at what became urgent meanwhile. */
static struct event_base *
base_new(void)
{
	struct event_config *conf = event_config_new();
	struct event_base *base;

	BUG_ON(conf == NULL || event_config_set_max_dispatch_interval(
				   conf, NULL, USUAL_AT_ONCE, LOOP_USUAL) != 0);
	base = event_base_new_with_config(conf);
	BUG_ON(base == NULL ||
	       event_base_priority_init(base, LOOP_PRIORITIES) != 0);
	event_config_free(conf);
	return base;
}

struct loop *
loop_new(void)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));

	TAILQ_INIT(&loop->todo);
	loop->base = base_new();
	loop->wake = event_new(loop->base, -1, 0, on_wake, loop);
	BUG_ON(loop->wake == NULL);
	return loop;
}

void
loop_free(struct loop *loop)
{
	struct deferred *d;

	if (loop == NULL)
		return;
	while ((d = TAILQ_FIRST(&loop->todo)) != NULL) {
		TAILQ_REMOVE(&loop->todo, d, link);
		free(d);
	}
	event_free(loop->wake);
	if (loop->log != NULL) {
		log_gather(NULL, NULL);
		event_free(loop->log);
	}
	event_base_free(loop->base);
	free(loop);
}

struct event_base *
loop_base(struct loop *loop)
{
	return loop->base;
}

void
loop_run(struct loop *loop)
{
	(void)event_base_dispatch(loop->base);
}

void
loop_stop(struct loop *loop)
{
	(void)event_base_loopbreak(loop->base);
}

void
loop_defer(struct loop *loop, loop_fn *fn, void *arg)
{
	struct deferred *d = xcalloc(1, sizeof(*d));

	d->fn = fn;
	d->arg = arg;
	if (TAILQ_EMPTY(&loop->todo))
		event_active(loop->wake, 0, 0);
	TAILQ_INSERT_TAIL(&loop->todo, d, link);
}

void
loop_undefer(struct loop *loop, loop_fn *fn, void *arg)
{
	struct deferred *d;

	/* Neutralise instead of unlink: on_wake() may hold the last one. */
	TAILQ_FOREACH(d, &loop->todo, link) {
		if (d->fn == fn && d->arg == arg)
			d->fn = NULL;
	}
}

static void
on_log(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	log_flush();
}

static void
log_wanted(void *arg)
{
	struct loop *loop = arg;

	event_active(loop->log, 0, 0);
}

void
loop_gather_log(struct loop *loop)
{
	if (loop->log != NULL)
		return;
	loop->log = event_new(loop->base, -1, 0, on_log, NULL);
	BUG_ON(loop->log == NULL);
	log_gather(log_wanted, loop);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct loop_timer *t = arg;

	(void)fd;
	(void)what;
	t->fn(t->arg);
}

struct loop_timer *
loop_timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct loop_timer *t = xcalloc(1, sizeof(*t));

	t->fn = fn;
	t->arg = arg;
	t->ev = evtimer_new(loop->base, on_timer, t);
	BUG_ON(t->ev == NULL);
	return t;
}

void
loop_timer_yields(struct loop_timer *t)
{
	BUG_ON(event_priority_set(t->ev, LOOP_LATER) != 0);
}

void
loop_timer_free(struct loop_timer *t)
{
	if (t == NULL)
		return;
	event_free(t->ev);
	free(t);
}

void
loop_timer_set(struct loop_timer *t, uint64_t ms)
{
	struct timeval tv = {
		.tv_sec = (time_t)(ms / 1000),
		.tv_usec = (suseconds_t)(ms % 1000 * 1000),
	};

	BUG_ON(event_add(t->ev, &tv) != 0);
}

void
loop_timer_stop(struct loop_timer *t)
{
	(void)event_del(t->ev);
}
