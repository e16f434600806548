/* SPDX-License-Identifier: ISC */
/* line.c - who is next. */
#include "deliver/line.h"

#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "deliver/dest.h"
#include "deliver/turn.h"

#define AHEAD_MAX 48 /* made ready before they have a place */
#define AHEAD_FEW 20 /* then more are */
#define AHEAD_NEXT 2 /* that are next are, however many are */
#define HELD_MAX 300 /* jobs; beyond, who waits behind others is given back */
#define HELD_NEW 50 /* of these, that wait for the first to a new domain */
#define BEHIND_RETRY_S 2
#define UNPROVEN_KEPT 100 /* that wait for a place; others are given back */
#define UNPROVEN_FEW 50 /* then more are claimed at once */
#define UNPROVEN_RETRY_S 2
#define UNPROVEN_LONG_S                                                        \
	30 /* at most, as their places are given back slowly                   \
	    */

struct job *
line_add(struct line *l, const struct store_lease *lease)
{
	struct job *job;
	size_t i;

	BUG_ON(l->n == LINE_MAX);
	job = job_new(l->ctx, lease, l->left, l->end, l->arg);
	i = turn_of(job, l->job, l->n, l->turn);
	memmove(&l->job[i + 1], &l->job[i], (l->n - i) * sizeof(struct job *));
	l->job[i] = job;
	l->n++;
	l->news = l->news || !dest_is_new(l->dests, job_way(job));
	return job;
}

/* In the order they came: the next to begin are those made ready. */
void
line_remove(struct line *l, struct job *job)
{
	size_t i;

	for (i = 0; i < l->n && l->job[i] != job; i++)
		;
	BUG_ON(i == l->n);
	l->n--;
	memmove(&l->job[i], &l->job[i + 1], (l->n - i) * sizeof(struct job *));
}

bool
line_news(struct line *l)
{
	bool news = l->news;

	l->news = false;
	return news;
}

bool
line_is_long(const struct line *l)
{
	return l->unproven > UNPROVEN_FEW;
}

/* A place of the unproven was had. */
static void
note_unproven(struct line *l)
{
	uint64_t now = clock_mono_ms();

	if (l->unproven_ms > 0)
		l->apart_ms = (l->apart_ms * 7 + now - l->unproven_ms) / 8;
	l->unproven_ms = now;
	l->news = true;
}

/* What goes back comes again when those that are kept will have begun. */
static int
unproven_retry_s(const struct line *l)
{
	/* Not by line_go()'s clock: one may have begun since that was read. */
	uint64_t apart = clock_mono_ms() - l->unproven_ms;

	if (apart < l->apart_ms)
		apart = l->apart_ms;
	if (apart * UNPROVEN_KEPT < UNPROVEN_RETRY_S * 1000)
		return UNPROVEN_RETRY_S;
	if (apart * UNPROVEN_KEPT > UNPROVEN_LONG_S * 1000)
		return UNPROVEN_LONG_S;
	return (int)(apart * UNPROVEN_KEPT / 1000);
}

/* There is a place for the job. */
static void
start(struct line *l, size_t i)
{
	struct job *job = l->job[i];

	if (job_is_old(job)) {
		l->job[i] =
		    job_new(l->ctx, job_lease(job), l->left, l->end, l->arg);
		*job_turn(l->job[i]) = *job_turn(job);
		job_free(job);
		job = l->job[i];
	}
	if (dest_is_new(l->dests, job_way(job)))
		note_unproven(l);
	job_go(job, job_way(job));
	if (job_turn(job)->all > l->turn)
		l->turn = job_turn(job)->all;
}

/* A domain with many sessions leaves the next place to those with few. */
static void
start_few(struct line *l, uint64_t now)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		const char *way = job_way(l->job[i]);

		if (job_is_waiting(l->job[i]) && dest_has_few(l->dests, way) &&
		    dest_closed_ms(l->dests, way, now) == 0 &&
		    share_begin(&l->shares, l->dests, l->job[i], now) ==
			DEST_BEGUN)
			start(l, i);
	}
}

/* The next are made ready; not one by one, as some cost little more to read. */
static void
look_ahead(const struct line *l, struct job *job, size_t *made)
{
	if (!job_is_prepared(job)) {
		if (*made >= AHEAD_MAX ||
		    (l->made >= AHEAD_FEW && *made >= AHEAD_NEXT))
			return;
		job_prepare(job);
	}
	(*made)++;
}

/*
 * The next to its domain. The first message to a new one may take minutes, so
 * those that wait for that are not counted with the others.
 */
static void
look_behind(const struct line *l, struct job *job, size_t *made)
{
	if (!dest_is_new(l->dests, job_way(job)))
		look_ahead(l, job, made);
	else if (!job_is_prepared(job))
		job_prepare(job);
}

/* Behind others of its domain? Claims leave out what goes back (dests_skip()),
 * until the first to a new domain is there. */
static bool
may_stay(
    const struct line *l, const struct job *job, size_t *held, size_t *held_new)
{
	bool stays = *held <= HELD_MAX;

	if (stays && dest_is_new(l->dests, job_way(job)))
		stays = ++*held_new <= HELD_NEW;
	*held -= !stays;
	return stays;
}

void
line_go(struct line *l)
{
	uint64_t now = clock_mono_ms(), closed;
	size_t i, unproven = 0, ahead = 0, held = l->n, held_new = 0;

	shares_count(&l->shares, l->job, l->n, l->dests);
	if (dests_have_room(l->dests))
		start_few(l, now);
	l->ready = 0;
	dests_look(l->dests);
	for (i = 0; i < l->n; i++) {
		struct job *job = l->job[i];

		if (!job_is_waiting(job))
			continue;
		closed = dest_closed_ms(l->dests, job_way(job), now);
		if (closed > 0) {
			job_refuse(job, (int)(closed / 1000) + 1);
			continue;
		}
		switch (share_begin(&l->shares, l->dests, job, now)) {
		case DEST_BEGUN:
			start(l, i);
			break;
		case DEST_BEHIND:
			if (!may_stay(l, job, &held, &held_new))
				job_refuse(job, BEHIND_RETRY_S);
			else if (!dest_is_new(l->dests, job_way(job)))
				look_ahead(l, job, &ahead);
			break;
		case DEST_NEXT:
			look_behind(l, job, &ahead);
			break;
		case DEST_LEFT:
		case DEST_TRIED:
			/* Nothing here would hear of a rule around it. */
			job_refuse(job, BEHIND_RETRY_S);
			break;
		case DEST_FULL:
			if (l->ready++ == 0)
				l->turn = job_turn(job)->all;
			look_ahead(l, job, &ahead);
			break;
		case DEST_UNPROVEN:
			/* A few wait here, the others where none do. */
			if (unproven++ >= UNPROVEN_KEPT)
				job_refuse(job, unproven_retry_s(l));
			break;
		}
	}
	l->made = ahead;
	l->unproven = unproven;
}

void
line_leave(struct line *l, struct job *job)
{
	if (job_place(job) == NULL)
		return;
	dest_end(l->dests, job_place(job), job_is_slow(job), job_outcome(job),
	    clock_mono_ms());
	job_leave(job);
}
