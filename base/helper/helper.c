/* SPDX-License-Identifier: ISC */
#include "base/helper/helper.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/helper/process.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/queue.h"
#include "base/xalloc.h"

struct job {
	TAILQ_ENTRY(job) link; /* in `waiting` or `early` */
	struct helper_pool *pool;
	struct helper_request request;
	struct helper_answer answer; /* of an early one */
	helper_done_fn *done;
	void *arg;
	struct loop_timer *deadline;
	struct slot *slot; /* at work in it */
};

TAILQ_HEAD(helper_job_list, job);

/*
 * Empty (no process), waiting, at work (`job`), or ending (killed). It is
 * emptied when the process has ended.
 */
struct slot {
	struct process process;
	struct helper_pool *pool;
	struct job *job;
	bool is_used, is_ending;
};

struct helper_pool {
	struct loop *loop;
	char *path;
	struct event *child;
	struct loop_timer *retry;
	uint64_t retry_ms; /* 0: the last start went well */
	bool is_resting; /* until `retry` fires nothing is started */
	struct slot slots[HELPER_PROCESSES];
	struct helper_job_list waiting;
	struct helper_job_list early; /* answered, to be told */
	size_t jobs;
};

static void serve(struct helper_pool *pool);

/* ---- answers */

static void
finish(struct job *job, const struct helper_answer *a)
{
	loop_timer_free(job->deadline);
	job->pool->jobs--;
	job->done(job->arg, a);
	free(job);
}

static void
fail(struct job *job, enum helper_outcome outcome)
{
	const struct helper_answer a = { .outcome = outcome };

	finish(job, &a);
}

static void
tell_early(void *arg)
{
	struct job *job = arg;

	TAILQ_REMOVE(&job->pool->early, job, link);
	finish(job, &job->answer);
}

static void
answer_early(struct job *job, enum helper_outcome outcome)
{
	job->answer.outcome = outcome;
	TAILQ_INSERT_TAIL(&job->pool->early, job, link);
	loop_defer(job->pool->loop, tell_early, job);
}

/* ---- what goes wrong */

static void
say_killed(const char *why)
{
	log_warn("helper.killed", KV("why", why));
	metrics_inc(M_HELPER_KILLS, NULL, NULL);
}

/* Its job, which somebody has to answer; NULL when it had none. */
static struct job *
end_slot(struct slot *slot, const char *why)
{
	struct job *job = slot->job;

	say_killed(why);
	slot->job = NULL;
	slot->is_ending = true;
	process_kill(&slot->process);
	return job;
}

static void
on_broken(struct process *p, const char *why)
{
	fail(end_slot(p->arg, why), HELPER_FAILED);
}

static void
on_deadline(void *arg)
{
	struct job *job = arg;

	if (job->slot != NULL)
		(void)end_slot(job->slot, "deadline");
	else
		TAILQ_REMOVE(&job->pool->waiting, job, link);
	fail(job, HELPER_FAILED);
}

/* How it ended, in words; NULL for exit status 0. */
static const char *
ending(char *text, size_t size, int status)
{
	if (WIFSIGNALED(status))
		snprintf(text, size, "signal %d", WTERMSIG(status));
	else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		snprintf(text, size, "exit status %d", WEXITSTATUS(status));
	else
		return NULL;
	return text;
}

/* Starting makes no sense for a while. */
static void
rest(struct helper_pool *pool)
{
	pool->retry_ms =
	    pool->retry_ms == 0 ? HELPER_RETRY_MS : pool->retry_ms * 2;
	if (pool->retry_ms > HELPER_RETRY_MAX_MS)
		pool->retry_ms = HELPER_RETRY_MAX_MS;
	pool->is_resting = true;
	loop_timer_set(pool->retry, pool->retry_ms);
}

static void
on_retry(void *arg)
{
	struct helper_pool *pool = arg;

	pool->is_resting = false;
	serve(pool);
}

/* ---- processes */

static void
start_missing(struct helper_pool *pool)
{
	struct err err = { 0 };
	struct slot *slot;
	size_t i;

	for (i = 0; i < HELPER_PROCESSES && !pool->is_resting; i++) {
		slot = &pool->slots[i];
		if (slot->is_used)
			continue;
		if (process_start(
			&slot->process, pool->loop, pool->path, &err)) {
			slot->is_used = true;
			continue;
		}
		log_warn("helper.killed", KV("why", err.text));
		rest(pool);
	}
}

static struct slot *
find_waiting(struct helper_pool *pool)
{
	struct slot *slot;
	size_t i;

	for (i = 0; i < HELPER_PROCESSES; i++) {
		slot = &pool->slots[i];
		if (slot->is_used && slot->job == NULL && !slot->is_ending &&
		    slot->process.pid != 0)
			return slot;
	}
	return NULL;
}

static bool
any_used(const struct helper_pool *pool)
{
	size_t i;

	for (i = 0; i < HELPER_PROCESSES; i++)
		if (pool->slots[i].is_used)
			return true;
	return false;
}

/* Start what is missing and hand out what waits. */
static void
serve(struct helper_pool *pool)
{
	struct slot *slot;
	struct job *job;

	start_missing(pool);
	while ((job = TAILQ_FIRST(&pool->waiting)) != NULL) {
		slot = find_waiting(pool);
		if (slot == NULL && any_used(pool))
			return; /* one will end, or the deadline come */
		TAILQ_REMOVE(&pool->waiting, job, link);
		if (slot == NULL) {
			answer_early(job, HELPER_ABSENT);
			continue;
		}
		slot->job = job;
		job->slot = slot;
		process_send(&slot->process, &job->request);
	}
}

/* The process has ended: what did it say? */
static void
settle(struct slot *slot, int status)
{
	struct helper_pool *pool = slot->pool;
	struct helper_answer a = { .outcome = HELPER_FAILED };
	struct job *job = slot->job;
	char text[40];
	const char *why = ending(text, sizeof(text), status);

	slot->job = NULL;
	if (job != NULL) {
		if (why == NULL &&
		    process_reply(&slot->process, &a) == HELPER_FAILED)
			why = "no reply";
		if (why != NULL)
			say_killed(why);
		else
			pool->retry_ms = 0;
		finish(job, &a);
	} else if (!slot->is_ending) {
		say_killed(why != NULL ? why : "ended without work");
		rest(pool);
	}
	process_clear(&slot->process);
	slot->is_used = slot->is_ending = false;
}

static void
on_child(evutil_socket_t signo, short what, void *arg)
{
	struct helper_pool *pool = arg;
	int status;
	size_t i;

	(void)signo;
	(void)what;
	for (i = 0; i < HELPER_PROCESSES; i++)
		if (pool->slots[i].is_used &&
		    process_ended(&pool->slots[i].process, &status))
			settle(&pool->slots[i], status);
	serve(pool);
}

/* ---- the pool */

struct helper_pool *
helper_pool_new(struct loop *loop, const char *path)
{
	struct helper_pool *pool = xcalloc(1, sizeof(*pool));
	size_t i;

	pool->loop = loop;
	pool->path = xstrdup(path);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->early);
	pool->retry = loop_timer_new(loop, on_retry, pool);
	pool->child = evsignal_new(loop_base(loop), SIGCHLD, on_child, pool);
	BUG_ON(pool->child == NULL || event_add(pool->child, NULL) != 0);
	for (i = 0; i < HELPER_PROCESSES; i++) {
		pool->slots[i].pool = pool;
		pool->slots[i].process.arg = &pool->slots[i];
		pool->slots[i].process.broken = on_broken;
	}
	start_missing(pool);
	return pool;
}

static void
drop(struct job *job)
{
	if (job == NULL)
		return;
	loop_undefer(job->pool->loop, tell_early, job);
	loop_timer_free(job->deadline);
	free(job);
}

static void
drop_list(struct helper_job_list *list)
{
	struct job *job;

	while ((job = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, job, link);
		drop(job);
	}
}

void
helper_pool_free(struct helper_pool *pool)
{
	size_t i;

	if (pool == NULL)
		return;
	event_free(pool->child);
	loop_timer_free(pool->retry);
	for (i = 0; i < HELPER_PROCESSES; i++) {
		drop(pool->slots[i].job);
		process_clear(&pool->slots[i].process);
	}
	drop_list(&pool->waiting);
	drop_list(&pool->early);
	free(pool->path);
	free(pool);
}

void
helper_decode(struct helper_pool *pool, const struct helper_request *r,
    helper_done_fn *done, void *arg)
{
	struct job *job = xcalloc(1, sizeof(*job));

	BUG_ON(r->bytes.n > HELPER_INPUT_MAX || r->type.n > HELPER_NAME_MAX);
	job->pool = pool;
	job->request = *r;
	job->done = done;
	job->arg = arg;
	job->deadline = loop_timer_new(pool->loop, on_deadline, job);
	if (++pool->jobs > HELPER_QUEUE_MAX) {
		answer_early(job, HELPER_BUSY);
	} else if (r->charset.n > HELPER_NAME_MAX) {
		answer_early(job, HELPER_UNKNOWN);
	} else {
		loop_timer_set(job->deadline,
		    r->deadline_ms != 0 ? r->deadline_ms : HELPER_DEADLINE_MS);
		TAILQ_INSERT_TAIL(&pool->waiting, job, link);
		serve(pool);
	}
}
