/* SPDX-License-Identifier: ISC */
/*
 * worker.c - polls every 200 ms (a message on Redis' `wake` makes it sooner),
 * claims a batch ahead of what it may run, and beats for its leases. On SIGTERM
 * it claims nothing more, gives back what is not in a transaction, lets
 * transactions end for a moment and dots get their reply. Any number of copies
 * may run: leases keep them apart.
 */
#include "deliver/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "deliver/context.h"
#include "deliver/dest.h"
#include "deliver/gauges.h"
#include "deliver/idle.h"
#include "deliver/job.h"
#include "deliver/line.h"
#include "deliver/route.h"
#include "deliver/sweeps.h"
#include "deliver/wakes.h"
#include "net/metrics_http.h"
#include "seal/body.h"
#include "store/health.h"
#include "store/redis.h"
#include "store/relay.h"
#include "store/store.h"

#define POLL_MS 200
#define GRACE_MS 5000 /* for a transaction before its gate */
#define DRAIN_MS 60000 /* for the reply to a dot */
#define LAST_MS 5000 /* for the database to take the results */
#define FAREWELL_MS 50 /* for QUIT to leave */
#define CLAIM_ROWS 50
#define READY_MAX 80 /* leased, until there is a place */
#define READY_FEW 40 /* then more are claimed */
#define LOOK_MS 50 /* between looks behind a long line */
#define DUE_ROWS 2 /* of one more tenant */
#define WAKE_GAP_MS 5 /* no flood of messages makes a flood of claims */

struct worker {
	struct daemon *daemon;
	struct loop *loop;
	struct job_context ctx;
	struct redis *redis;
	struct health *health;
	struct metrics_http *http;
	struct daemon_signals *signals;
	struct loop_timer *poll, *beat, *drain;
	struct relay_op *claim_op, *beat_op;
	struct line line;
	struct dests *dests;
	char name[96];
	struct wakes *wakes;
	struct gauges *gauges;
	struct sweeps *sweeps;
	uint64_t claimed_ms;
	const char *reason; /* of the next claim: "poll" or "wake" */
	bool again; /* woken while a claim ran */
	bool woken; /* since it last looked for others' mail */
	bool looking; /* the claim under way does */
	bool missed; /* a domain it left out could be had meanwhile */
	bool more; /* the last claim left some for the next */
	bool dry; /* it left nothing for us */
	bool stale; /* it brought only more of what waits here already */
	bool stopping;
	enum { DRAIN_GRACE, DRAIN_DOTS, DRAIN_LAST } draining;
};

static void claim(struct worker *w, bool turning);
static void look(struct worker *w);

/* A third of the lease: two beats may be lost. */
static unsigned
beat_ms(const struct worker *w)
{
	return (unsigned)(w->ctx.conf->deliver_lease / 3);
}

/* Nothing is leased, and no claim may still bring something. */
static bool
is_idle(const struct worker *w)
{
	return w->line.n == 0 && w->claim_op == NULL;
}

/* Nothing is under way: the sessions that are kept are told, then it ends. */
static void
leave(struct worker *w)
{
	w->draining = DRAIN_LAST;
	loop_timer_set(w->drain, idle_close(w->ctx.idle) > 0 ? FAREWELL_MS : 0);
}

/* A job that went this way has ended, or needs its place no more. */
static void
go_on(struct worker *w, const char *way)
{
	if (w->stopping)
		return;
	line_go(&w->line);
	if (dest_is_wanted(w->dests, way, clock_mono_ms())) {
		w->dry = false;
		w->missed = true;
	}
	/* The next batch while some of the last are left. */
	if (w->claim_op == NULL && !w->dry && w->line.ready <= READY_FEW)
		claim(w, true);
	if (dest_is_due(w->dests, way, clock_mono_ms()))
		look(w);
}

/* What it was told is not stored yet; the next can begin. */
static void
on_job_left(void *arg, struct job *job)
{
	struct worker *w = arg;

	line_leave(&w->line, job);
	go_on(w, job_way(job));
}

static void
on_job_end(void *arg, struct job *job)
{
	struct worker *w = arg;

	line_leave(&w->line, job);
	line_remove(&w->line, job);
	if (w->stopping && is_idle(w))
		leave(w);
	else
		go_on(w, job_way(job));
	job_free(job);
}

/* What that found says nothing of other mail: a claim is as due as it was. */
static void
after_look(struct worker *w)
{
	w->looking = false;
	if (w->again) {
		w->again = false;
		w->reason = "wake";
		loop_timer_set(w->poll, WAKE_GAP_MS);
	}
	if (!w->dry && w->line.ready <= READY_FEW)
		claim(w, true);
}

static void
on_claimed(void *arg, enum relay_status st, const struct store_lease *v,
    size_t n, bool more)
{
	struct worker *w = arg;
	char id[UUID_ID_MAX];
	size_t i;

	w->claim_op = NULL;
	for (i = 0; i < n; i++) {
		struct job *job = line_add(&w->line, &v[i]);

		uuid_to_id(id, "msg_", &v[i].message);
		log_info("deliver.claim", KV("message", id),
		    KV("tenant", v[i].tenant), KV("why", w->reason));
		if (!dest_is_beyond(w->dests, job_way(job)))
			dests_may_find(w->dests);
		if (w->stopping)
			job_stop(job);
	}
	if (w->stopping) {
		if (is_idle(w))
			leave(w);
		return;
	}
	line_go(&w->line);
	w->stale = !line_news(&w->line);
	if (w->looking) {
		after_look(w);
		return;
	}
	more = more || n == CLAIM_ROWS;
	w->more = more;
	w->dry = st == RELAY_DONE && !more && !w->missed;
	if (st == RELAY_DONE && n == 0 && !more)
		dests_found_nothing(w->dests);
	w->reason = w->again ? "wake" : "poll";
	if (more && n > 0)
		loop_timer_set(w->poll, 0);
	else
		loop_timer_set(
		    w->poll, more || w->again ? WAKE_GAP_MS : POLL_MS);
	w->again = false;
	look(w);
}

/*
 * Of ways of which enough waits here a few more are claimed: what waits may be
 * all one tenant's. Where places are given back slowly it would be long until
 * another's is known.
 */
static void
look(struct worker *w)
{
	struct dests_due due;
	size_t rows;
	bool any;

	if (w->stopping || w->claim_op != NULL ||
	    w->line.ready >= READY_MAX + CLAIM_ROWS ||
	    w->line.n + CLAIM_ROWS > LINE_MAX)
		return;
	any = dests_due(w->dests, &due, clock_mono_ms(), w->woken);
	w->woken = false;
	if (!any)
		return;
	rows = due.given > DUE_ROWS ? due.given : DUE_ROWS;
	if (rows > CLAIM_ROWS)
		rows = CLAIM_ROWS;
	w->looking = true;
	w->claim_op = relay_claim(w->ctx.relay, w->name, (int)rows,
	    (int)(w->ctx.conf->deliver_lease / 1000), due.skip, due.n,
	    on_claimed, w);
}

/*
 * May more be claimed? Not while all places are taken, unless they are given
 * back all the time (`turning`): then a batch is at hand when they are. A claim
 * costs the same for one as for fifty.
 */
static bool
has_room(const struct worker *w, bool turning)
{
	return (turning || dests_have_room(w->dests)) &&
	       w->line.ready < READY_MAX && w->line.n + CLAIM_ROWS <= LINE_MAX;
}

/*
 * Enough waits for a place of the unproven, and the last claim brought nothing
 * else. Of more of it most would be given back, and come again.
 */
static uint64_t
looks_in_ms(const struct worker *w)
{
	uint64_t since = clock_mono_ms() - w->claimed_ms;

	return w->stale && line_is_long(&w->line) && since < LOOK_MS
		   ? LOOK_MS - since
		   : 0;
}

static void
claim(struct worker *w, bool turning)
{
	const char *skip[DEST_SKIP_MAX];
	uint64_t wait;
	size_t n;

	if (w->stopping || w->claim_op != NULL)
		return;
	wait = looks_in_ms(w);
	if (wait > 0) {
		w->dry = false;
		loop_timer_set(w->poll, (unsigned)wait);
		return;
	}
	dests_set_places(w->dests, (size_t)w->ctx.conf->deliver_concurrency);
	jobs_make_place(w->line.job, w->line.n, w->dests);
	line_go(&w->line);
	n = dests_skip(w->dests, skip, clock_mono_ms());
	if (!has_room(w, turning)) {
		/* The end of a job asks again. */
		w->dry = false;
		loop_timer_set(w->poll, POLL_MS);
		return;
	}
	if (!dests_seek(w->dests)) {
		w->dry = true;
		if (!turning)
			loop_timer_set(w->poll, POLL_MS);
		return;
	}
	w->claimed_ms = clock_mono_ms();
	w->missed = false;
	dests_claimed(w->dests, w->claimed_ms);
	w->claim_op = relay_claim(w->ctx.relay, w->name, CLAIM_ROWS,
	    (int)(w->ctx.conf->deliver_lease / 1000), skip, n, on_claimed, w);
}

static void
poll_now(void *arg)
{
	struct worker *w = arg;

	if (w->looking) {
		loop_timer_set(w->poll, WAKE_GAP_MS);
		return;
	}
	/* Time has passed: there may be something where there was nothing. */
	if (!w->more)
		dests_may_find(w->dests);
	w->more = false;
	claim(w, false);
	look(w);
}

/* Mail is due now, somebody says. */
static void
wake_now(void *arg)
{
	struct worker *w = arg;

	w->dry = false;
	w->woken = true;
	dests_may_find(w->dests);
	if (w->claim_op != NULL) {
		w->again = true;
		return;
	}
	if (strcmp(w->reason, "wake") == 0)
		return; /* soon */
	w->reason = "wake";
	if (clock_mono_ms() - w->claimed_ms >= WAKE_GAP_MS)
		poll_now(w);
	else
		loop_timer_set(w->poll, WAKE_GAP_MS);
}

static void
on_beaten(void *arg, enum relay_status st, const char *why)
{
	struct worker *w = arg;

	w->beat_op = NULL;
	if (st != RELAY_DONE)
		log_warn("deliver.result", KV("why", why));
	loop_timer_set(w->beat, beat_ms(w));
}

/* A job whose lease died is told so by its own next call. */
static void
beat_now(void *arg)
{
	struct worker *w = arg;
	const struct store_lease *v[LINE_MAX];
	size_t i;

	if (w->line.n == 0) {
		loop_timer_set(w->beat, beat_ms(w));
		return;
	}
	for (i = 0; i < w->line.n; i++)
		v[i] = job_lease(w->line.job[i]);
	w->beat_op = relay_beat(w->ctx.relay, v, w->line.n,
	    (int)(w->ctx.conf->deliver_lease / 1000), on_beaten, w);
}

/* Transactions had their grace, then dots their reply; then it is over. */
static void
on_drained(void *arg)
{
	struct worker *w = arg;
	size_t i;

	switch (w->draining) {
	case DRAIN_GRACE:
		for (i = 0; i < w->line.n; i++)
			job_yield(w->line.job[i]);
		w->draining = DRAIN_DOTS;
		loop_timer_set(w->drain, DRAIN_MS);
		return;
	case DRAIN_DOTS:
		for (i = 0; i < w->line.n; i++)
			job_give_up(w->line.job[i]);
		w->draining = DRAIN_LAST;
		loop_timer_set(w->drain, LAST_MS);
		return;
	case DRAIN_LAST:
		loop_stop(w->loop);
		return;
	}
}

static void
on_stop(void *arg)
{
	struct worker *w = arg;
	size_t i;

	if (w->stopping)
		return;
	w->stopping = true;
	sweeps_stop(w->sweeps);
	daemon_stopping("signal");
	for (i = 0; i < w->line.n; i++)
		job_stop(w->line.job[i]);
	if (is_idle(w))
		leave(w);
	else
		loop_timer_set(w->drain, GRACE_MS);
}

static void
on_ways_changed(void *arg, enum relay_status st, const char *why)
{
	(void)arg;
	if (st != RELAY_DONE)
		log_warn("deliver.result", KV("why", why));
}

static void
on_reload(void *arg)
{
	struct worker *w = arg;
	struct conf *old = daemon_reload(w->daemon);
	struct err err = { 0 };
	size_t i;

	if (old == NULL)
		return;
	/* Before the old password goes. */
	for (i = 0; i < w->line.n; i++)
		job_reload(w->line.job[i]);
	if (!context_reload(&w->ctx, w->daemon->conf, &err))
		log_error("daemon.reload", KV("why", err.text));
	dests_open(w->dests);
	if (w->ctx.other_smarthost)
		(void)relay_ways_changed(w->ctx.relay, on_ways_changed, w);
	(void)idle_close(w->ctx.idle);
	/* Jobs under way borrow the old one; it is small, reloads are rare. */
	context_keep(old);
}

static enum metrics_ready
on_ready(void *arg, char *why, size_t size)
{
	struct worker *w = arg;
	enum health_state state = health_state(w->health);

	if (!relay_ready(w->ctx.relay))
		state = HEALTH_NO_DATABASE;
	if (state != HEALTH_GOOD) {
		(void)snprintf(why, size, "%s", health_text(state));
		return METRICS_NOT_READY;
	}
	if (!redis_up(w->redis)) {
		(void)snprintf(why, size, "no Redis");
		return METRICS_DEGRADED;
	}
	(void)snprintf(why, size, "%s", "");
	return METRICS_READY;
}

static bool
open_outside(struct worker *w, struct err *err)
{
	const struct conf *conf = w->daemon->conf;
	char listen[128];

	if (!store_check(conf, "l_worker", err) ||
	    !context_open(&w->ctx, w->loop, conf, err))
		return false;
	w->redis = redis_open(w->loop, conf, "postern-deliver", err);
	if (w->redis == NULL)
		return false;
	w->wakes = wakes_new(w->loop, w->redis, wake_now, w);
	w->health = health_new(w->loop, conf, "l_worker", "postern-deliver");
	conf_metrics_listen(conf, "postern-deliver", listen, sizeof(listen));
	w->http = metrics_http_start(w->loop, listen, on_ready, w, err);
	return w->http != NULL;
}

static void
start_timers(struct worker *w)
{
	w->poll = loop_timer_new(w->loop, poll_now, w);
	w->beat = loop_timer_new(w->loop, beat_now, w);
	w->drain = loop_timer_new(w->loop, on_drained, w);
	loop_timer_set(w->poll, 0);
	loop_timer_set(w->beat, beat_ms(w));
	w->sweeps = sweeps_new(w->loop, w->ctx.relay);
	w->gauges = gauges_new(w->loop, w->ctx.relay, w->redis);
}

static void
close_all(struct worker *w)
{
	while (w->line.n > 0)
		job_free(w->line.job[--w->line.n]);
	relay_cancel(w->claim_op);
	relay_cancel(w->beat_op);
	sweeps_free(w->sweeps);
	gauges_free(w->gauges);
	loop_timer_free(w->poll);
	loop_timer_free(w->beat);
	loop_timer_free(w->drain);
	metrics_http_free(w->http);
	daemon_signals_free(w->signals);
	redis_free(w->redis);
	wakes_free(w->wakes);
	health_free(w->health);
	dests_free(w->dests);
	context_close(&w->ctx);
	loop_free(w->loop);
}

int
worker_run(struct daemon *daemon)
{
	static const struct daemon_handlers handlers = { on_stop, on_reload,
		NULL };
	struct worker *w = xcalloc(1, sizeof(*w));
	struct err err = { 0 };
	int code = 0;

	w->daemon = daemon;
	w->loop = loop_new();
	loop_gather_log(w->loop);
	if (gethostname(w->name, 64) != 0)
		(void)snprintf(w->name, sizeof(w->name), "worker");
	(void)snprintf(w->name + strlen(w->name), 24, ".%ld", (long)getpid());
	metrics_init(1, "postern-deliver");
	metrics_use_slot(0);
	w->reason = "poll";
	w->dests = dests_new(1);
	w->line = (struct line){ .ctx = &w->ctx,
		.dests = w->dests,
		.left = on_job_left,
		.end = on_job_end,
		.arg = w };
	if (!open_outside(w, &err)) {
		log_error("daemon.failed", KV("why", err.text));
		code = 1;
	} else {
		w->signals = daemon_signals_new(w->loop, &handlers, w);
		start_timers(w);
		daemon_ready();
		loop_run(w->loop);
	}
	close_all(w);
	free(w);
	return code;
}
