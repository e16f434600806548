/* SPDX-License-Identifier: ISC */
/* turn.c - whose turn a new job has. */
#include "deliver/turn.h"

#include <stdbool.h>
#include <string.h>

#include "store/relay.h"

/* What the line says of a way. */
struct way {
	bool begun, waits;
	uint64_t last; /* the turn of who began last */
	uint64_t first; /* of the first that waits */
};

static uint64_t
later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void
see(struct way *w, struct job *job)
{
	uint64_t turn = job_turn(job)->way;

	if (job_place(job) != NULL) {
		w->last = later(w->last, turn);
		w->begun = true;
	} else if (job_is_waiting(job) && (!w->waits || turn < w->first)) {
		w->first = turn;
		w->waits = true;
	}
}

static bool
same_way(const struct job *a, const struct job *b)
{
	return strcmp(job_way(a), job_way(b)) == 0;
}

/* Behind the last of its tenant's, but not before who is next. */
static void
give(struct job *job, struct job *const *jobs, size_t n, uint64_t next)
{
	struct job_turn *turn = job_turn(job);
	struct way w = { 0 };
	uint64_t behind = 0;
	size_t i;

	turn->all = next;
	for (i = 0; i < n; i++) {
		bool ours =
		    job_lease(jobs[i])->tenant == job_lease(job)->tenant;

		if (ours)
			turn->all =
			    later(turn->all, job_turn(jobs[i])->all + 1);
		if (!same_way(jobs[i], job))
			continue;
		see(&w, jobs[i]);
		if (ours)
			behind = later(behind, job_turn(jobs[i])->way + 1);
	}
	turn->way = later(behind, w.begun ? w.last : w.first);
}

size_t
turn_of(struct job *job, struct job *const *jobs, size_t n, uint64_t next)
{
	struct job_turn *turn = job_turn(job);
	size_t i;

	give(job, jobs, n, next);
	for (i = 0; i < n; i++) {
		const struct job_turn *other = job_turn(jobs[i]);

		if (!job_is_waiting(jobs[i]))
			continue;
		if (other->all > turn->all)
			return i;
		if (other->way > turn->way && same_way(jobs[i], job)) {
			/* Who comes behind it comes behind this one. */
			turn->all = other->all;
			return i;
		}
	}
	return n;
}
