/* SPDX-License-Identifier: ISC */
/*
 * share.h - one tenant's part of the places, when much of its mail takes long
 *
 * Of the places for destinations that never took anything a tenant has three
 * quarters at most, or whoever sends to many dead ones would have them all
 * until these are given up, and others' first mail to a new domain would wait
 * for that.
 *
 * Sessions that take long leave their places to others (dest_long()) while
 * there are others to go to. A tenant with four hosts that hang would fill
 * those, and then all places. So one whose long sessions are as many as half
 * of all places has no more than half of these, as long as such a crowd is
 * there. The smarthost has no share: all mail goes by it.
 */
#ifndef DELIVER_SHARE_H
#define DELIVER_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deliver/dest.h"

struct job;

struct share {
	int64_t tenant;
	size_t active, slow; /* sessions: in places of the proven, moved */
	size_t outside; /* in places of the unproven; with those moved */
};

struct shares {
	struct share row[DEST_UNPROVEN_MAX]; /* who has some outside */
	size_t n;
	const struct dests *dests;
	struct job *const *jobs; /* that were counted */
	size_t job_count;
	bool crowded, tight;
};

/* What those of `n` jobs have that have a place; nothing while there are
 * places enough. `jobs` stays while share_begin() is asked. */
void shares_count(struct shares *s, struct job *const *jobs, size_t n,
    const struct dests *dests);
/* Has the tenant all that it may have? */
bool shares_are_taken(const struct shares *s, int64_t tenant);
/* dest_begin(), unless it has. */
enum dest_begun share_begin(
    struct shares *s, struct dests *dests, const struct job *job, uint64_t now);

#endif
