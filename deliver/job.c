/* SPDX-License-Identifier: ISC */
/*
 * job.c - a job's life and the ways it ends. The steps are in job_check.c
 * (is this what was approved?) and job_relay.c (hand it over).
 */
#include "deliver/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "deliver/backoff.h"
#include "deliver/job_internal.h"
#include "deliver/share.h"
#include "mail/structure.h"

#define STORE_AGAIN_MS 1000
#define PREPARED_MS 1000 /* what was read before that is read again */
#define TOO_MANY_RCPTS 452 /* RFC 5321 4.5.3.1.10 */
#define TOO_MANY_RCPTS_821 552 /* if it does not fail them */

static void
tell_end(void *arg)
{
	struct job *job = arg;

	job->end(job->arg, job);
}

void
job_over(struct job *job)
{
	if (job->over)
		return;
	job->over = true;
	loop_defer(job->ctx->loop, tell_end, job);
}

static void
on_released(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;
	char id[UUID_ID_MAX];

	job->op = NULL;
	/* A lease that is over already needs no giving back. */
	if (st != RELAY_DONE && strcmp(why, "state_conflict") != 0) {
		uuid_to_id(id, "msg_", &job->lease.message);
		log_warn("deliver.result", KV("message", id), KV("why", why));
	}
	job_over(job);
}

void
job_release(struct job *job, int retry_s)
{
	job->phase = JOB_ENDING;
	relay_cancel(job->op);
	job->op = relay_release(
	    job->ctx->relay, &job->lease, retry_s, on_released, job);
}

void
job_return(struct job *job)
{
	routes_cancel(job->route);
	job->route = NULL;
	job_policy_cancel(job);
	client_free(job->client);
	job->client = NULL;
	job_release(job, 0);
}

static const char *
result_name(enum relay_result result)
{
	switch (result) {
	case RELAY_DELIVERED:
		return "delivered";
	case RELAY_DEFERRED:
		return "deferred";
	case RELAY_FAILED:
		return "failed";
	case RELAY_UNCERTAIN:
		return "uncertain";
	}
	return "deferred";
}

static void
log_result(const struct job *job, const struct relay_rcpt *r)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	metrics_inc(M_DELIVERIES, result_name(r->result), NULL);
	if (r->result == RELAY_UNCERTAIN) {
		log_warn(
		    "deliver.uncertain", KV("message", id), KV("why", r->text));
		return;
	}
	log_info("deliver.result", KV("message", id), KV("code", r->code),
	    KV("enhanced", r->enhanced), KV("why", result_name(r->result)),
	    KV("ms", clock_mono_ms() - job->began_ms));
}

/*
 * Without an answer the result may be stored or not; storing it again is
 * refused if it is, so that is tried for as long as the lease may live. After
 * that the sweep settles it.
 */
static void
on_finished(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;
	char id[UUID_ID_MAX];
	uint64_t now = clock_mono_ms();
	bool repeated = job->store_until_ms != 0;

	job->op = NULL;
	if (st == RELAY_DONE || (repeated && st == RELAY_REFUSED)) {
		job_over(job);
		return;
	}
	if (!repeated) {
		uuid_to_id(id, "msg_", &job->lease.message);
		log_warn("deliver.result", KV("message", id), KV("why", why));
		job->store_until_ms =
		    now + (uint64_t)job->ctx->conf->deliver_lease;
	}
	if (st == RELAY_LOST && now < job->store_until_ms)
		loop_timer_set(job->again, STORE_AGAIN_MS);
	else
		job_over(job);
}

void
job_store(void *arg)
{
	struct job *job = arg;

	if (!job->told && job_report_wanted(job))
		job_report(job);
	else
		job->op = relay_finish(job->ctx->relay, &job->lease, job->mx,
		    job->tls_text, job->rows, job->row_count, job->retry_s,
		    &job->reports, on_finished, job);
}

/* The rest goes right behind, unless some of these are to wait. */
static bool
is_next_part(const struct job *job)
{
	int groups = job->groups, tried = job->attempts;
	size_t i, done = 0, late = 0;

	for (i = 0; i < job->row_count; i++) {
		if (job->rows[i].result == RELAY_DELIVERED)
			done++;
		else if (job->rows[i].result == RELAY_DEFERRED &&
			 ((job->rows[i].code != TOO_MANY_RCPTS &&
			      job->rows[i].code != TOO_MANY_RCPTS_821) ||
			     groups > 1))
			late++;
	}
	if (groups <= 1)
		return done > 0 && late == 0;
	/* Each group has its turn before the first of them has another. */
	if (late == 0)
		groups--;
	else
		tried++;
	return tried == 0 || tried % groups != 0;
}

/* How often each of the groups was tried. */
static int
turns(const struct job *job)
{
	return job->groups > 1 ? job->attempts / job->groups : job->attempts;
}

void
job_finish(struct job *job, struct relay_rcpt *v, size_t n)
{
	size_t i;

	job->phase = JOB_ENDING;
	if (v != job->rows)
		free(job->rows);
	job->rows = v;
	job->row_count = n;
	job->retry_s = is_next_part(job) ? 0 : backoff_seconds(turns(job));
	job_give_up_late(job);
	for (i = 0; i < n; i++)
		log_result(job, &v[i]);
	relay_cancel(job->op);
	job_store(job);
}

/* Rows not yet marked as being sent take no result: mark them first. */
static void
on_marked(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;

	job->op = NULL;
	if (st == RELAY_REFUSED) {
		job_no_go(job, why);
		return;
	}
	if (st == RELAY_LOST) {
		log_warn("deliver.result", KV("why", why));
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
	job->attempted = true;
	job_finish(job, job->rows, job->due_count);
}

void
job_finish_all(struct job *job, enum relay_result result, int code,
    const char *enhanced, const char *why)
{
	struct relay_rcpt *v = xcalloc(job->due_count + 1, sizeof(*v));
	size_t i;

	for (i = 0; i < job->due_count; i++) {
		v[i].ix = job->due[i];
		v[i].result = result;
		v[i].code = code;
		(void)snprintf(
		    v[i].enhanced, sizeof(v[i].enhanced), "%s", enhanced);
		(void)snprintf(v[i].text, sizeof(v[i].text), "%s", why);
		v[i].is_own = true; /* of each, or of their domain */
	}
	if (job->mx[0] == '\0') {
		(void)snprintf(job->mx, sizeof(job->mx), "%s",
		    job->host_count > 0 ? job->hosts[job->host_count - 1].name
					: "none");
		(void)snprintf(job->tls_text, sizeof(job->tls_text), "none");
	}
	if (job->attempted) {
		job_finish(job, v, job->due_count);
		return;
	}
	free(job->rows);
	job->rows = v;
	job->phase = JOB_ENDING;
	relay_cancel(job->op);
	job->op = relay_attempt(job->ctx->relay, &job->lease, job->mx,
	    job->tls_text, job->due, job->due_count, on_marked, job);
}

/* All is made ready; the rest needs a place. */
void
job_prepared(struct job *job)
{
	job->prepared = true;
	if (job->place != NULL)
		job_route(job);
}

struct job *
job_new(const struct job_context *ctx, const struct store_lease *lease,
    job_end_fn *left, job_end_fn *end, void *arg)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->ctx = ctx;
	job->lease = *lease;
	job->attempts = lease->attempts;
	job->left = left;
	job->end = end;
	job->arg = arg;
	job->began_ms = clock_mono_ms();
	job->again = loop_timer_new(ctx->loop, job_store, job);
	return job;
}

void
job_go(struct job *job, const char *place)
{
	job->place = place;
	job->began_ms = clock_mono_ms();
	if (job->prepared)
		job_route(job);
	else
		job_prepare(job);
}

void
job_prepare(struct job *job)
{
	if (job->preparing)
		return;
	job->preparing = true;
	job_fetch(job);
}

bool
job_is_old(const struct job *job)
{
	return job->prepared && clock_mono_ms() - job->fetched_ms > PREPARED_MS;
}

/* An answer to the dot is waited for. */
static bool
end_slow(struct job *job)
{
	if (job->client == NULL || job->phase == JOB_GATED)
		return false;
	client_abort(job->client, "the next hop is slow, and other mail waits");
	return true;
}

/* Another may have its place. */
static void
make_place(struct job *job, struct dests *dests, const struct shares *shares)
{
	bool full = !dests_have_room(dests) ||
		    shares_are_taken(shares, job->lease.tenant);

	switch (dest_slow(dests, job->place, full)) {
	case DEST_STAYS:
		return;
	case DEST_MOVED:
		job->slow = true;
		return;
	case DEST_ENDS:
		(void)end_slow(job);
		return;
	}
}

void
jobs_make_place(struct job *const *jobs, size_t n, struct dests *dests)
{
	bool full = !dests_have_room(dests);
	uint64_t now = clock_mono_ms();
	struct shares shares;
	size_t i, ended = 0;

	shares_count(&shares, jobs, n, dests);
	for (i = 0; i < n; i++) {
		struct job *job = jobs[i];
		uint64_t ms = now - (uint64_t)job->began_ms;

		if (job->place == NULL)
			continue;
		if (job->slow)
			ended += ms > DEST_SLOW_MS &&
				 dests_end_slow(dests, ended) && end_slow(job);
		else if (ms > DEST_SLOW_MS)
			make_place(job, dests, &shares);
		else if (full && ms > DEST_LONG_MS)
			job->slow = dest_long(dests, job->place);
	}
}

bool
job_is_slow(const struct job *job)
{
	return job->slow;
}

void
job_leave(struct job *job)
{
	job->place = NULL;
}

const char *
job_place(const struct job *job)
{
	return job->place;
}

bool
job_is_waiting(const struct job *job)
{
	return job->place == NULL && job->phase == JOB_PREPARING && !job->over;
}

bool
job_is_prepared(const struct job *job)
{
	return job->preparing;
}

void
job_refuse(struct job *job, int retry_s)
{
	job_release(job, retry_s);
}

enum dest_outcome
job_outcome(const struct job *job)
{
	/* Our own database says nothing of it, nor does a host of before. */
	if (job->is_ours || job->stale)
		return DEST_NOTHING;
	return job->outcome;
}

void
job_stop(struct job *job)
{
	job->stopping = true;
	if (job->phase == JOB_PREPARING && !job->over)
		job_return(job);
}

void
job_reload(struct job *job)
{
	job->stale = true;
	if (job->phase == JOB_PREPARING && !job->over)
		job_return(job);
}

void
job_yield(struct job *job)
{
	if (job->phase == JOB_TALKING)
		job_return(job);
}

void
job_give_up(struct job *job)
{
	if (job->phase == JOB_TALKING)
		job_return(job);
	else if (job->phase == JOB_GATED && job->client != NULL)
		client_abort(job->client, "the worker was stopped");
}

void
job_free(struct job *job)
{
	if (job == NULL)
		return;
	loop_undefer(job->ctx->loop, tell_end, job);
	relay_cancel(job->op);
	loop_timer_free(job->again);
	routes_cancel(job->route);
	job_policy_cancel(job);
	client_free(job->client);
	seal_open_free(job->open);
	body_tag_end(job->tag, NULL);
	sign_free(job->sign);
	secret_wipe(&job->key);
	buf_wipe(&job->hop.secret);
	buf_free(&job->hop.secret);
	buf_wipe(&job->kept);
	buf_free(&job->kept);
	buf_free(&job->text);
	buf_free(&job->prefix);
	identity_scan_free(job->scan);
	structure_free(job->structure);
	buf_free(&job->links);
	buf_free(&job->identity);
	buf_free(&job->return_path);
	job_report_free(job);
	free(job->rows);
	free(job->rcpt);
	free(job->due);
	free(job->due_rcpt);
	free(job->due_notify);
	free(job);
}

const struct store_lease *
job_lease(const struct job *job)
{
	return &job->lease;
}

struct job_turn *
job_turn(struct job *job)
{
	return &job->turn;
}

const char *
job_way(const struct job *job)
{
	const struct store_lease *l = &job->lease;

	if (l->test || l->way[0] == '-')
		return "";
	if (l->way[0] != '\0')
		return l->way;
	return job->ctx->smarthost[0] != '\0' ? DEST_SMARTHOST : l->domain;
}
