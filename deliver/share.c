/* SPDX-License-Identifier: ISC */
/* share.c - what each tenant has of the places. */
#include "deliver/share.h"

#include "deliver/job.h"
#include "store/relay.h"

/* Its place among them; s->n: it has none. */
static size_t
find(const struct shares *s, int64_t tenant)
{
	size_t i;

	for (i = 0; i < s->n && s->row[i].tenant != tenant; i++)
		;
	return i;
}

static void
count_outside(struct shares *s, int64_t tenant, bool slow)
{
	size_t i = find(s, tenant);

	if (i == s->n && s->n < sizeof(s->row) / sizeof(s->row[0]))
		s->row[s->n++] = (struct share){ .tenant = tenant };
	if (i == s->n)
		return;
	s->row[i].outside++;
	s->row[i].slow += slow;
}

static void
count_active(struct shares *s, int64_t tenant, const char *place)
{
	size_t i = find(s, tenant);

	if (i < s->n && dest_is_proven(s->dests, place))
		s->row[i].active++;
}

void
shares_count(struct shares *s, struct job *const *jobs, size_t n,
    const struct dests *dests)
{
	size_t i;

	s->n = 0;
	s->dests = dests;
	s->jobs = jobs;
	s->job_count = n;
	s->crowded = dests_are_crowded(dests);
	s->tight = dests_are_tight(dests);
	for (i = 0; i < n && (s->crowded || s->tight); i++)
		if (job_place(jobs[i]) != NULL &&
		    (job_is_slow(jobs[i]) ||
			dest_is_new(dests, job_place(jobs[i]))))
			count_outside(s, job_lease(jobs[i])->tenant,
			    job_is_slow(jobs[i]));
	for (i = 0; i < n && s->crowded; i++)
		if (job_place(jobs[i]) != NULL && !job_is_slow(jobs[i]))
			count_active(
			    s, job_lease(jobs[i])->tenant, job_place(jobs[i]));
}

bool
shares_are_taken(const struct shares *s, int64_t tenant)
{
	size_t i = find(s, tenant);

	return s->crowded && i < s->n &&
	       dests_are_half(s->dests, s->row[i].slow) &&
	       dests_are_half(s->dests, s->row[i].active);
}

/* Has it all of those places that it may have? */
static bool
is_outside_taken(struct shares *s, int64_t tenant)
{
	size_t i;

	if (!dests_are_tight(s->dests))
		return false;
	if (!s->tight) /* by what has begun since */
		shares_count(s, s->jobs, s->job_count, s->dests);
	i = find(s, tenant);
	return i < s->n && dests_are_most(s->dests, s->row[i].outside);
}

enum dest_begun
share_begin(
    struct shares *s, struct dests *dests, const struct job *job, uint64_t now)
{
	const int64_t tenant = job_lease(job)->tenant;
	const char *way = job_way(job);
	bool is_new = dest_is_new(dests, way);
	enum dest_begun begun;

	if (is_new && is_outside_taken(s, tenant))
		return dest_wait(dests, way, now);
	if (dest_is_proven(dests, way) && shares_are_taken(s, tenant))
		return dest_leave(dests, way);
	begun = dest_begin(dests, way, now);
	if (begun == DEST_BEGUN && is_new && s->tight)
		count_outside(s, tenant, false);
	else if (begun == DEST_BEGUN)
		count_active(s, tenant, way);
	return begun;
}
