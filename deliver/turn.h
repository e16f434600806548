/* SPDX-License-Identifier: ISC */
/*
 * turn.h - tenants take turns among what a worker has leased.
 *
 * The store leases by turns between tenants, but not all at once: what one has
 * leased already may wait for many places. So a job of a tenant that has
 * nothing in the line is next, and of those that have, each job is one turn
 * behind the last of its tenant's. Turns are counted among all, for a place,
 * and among those that go the same way: a slow domain has turns of its own.
 */
#ifndef DELIVER_TURN_H
#define DELIVER_TURN_H

#include <stddef.h>
#include <stdint.h>

#include "deliver/job.h"

/*
 * Gives a new job its turn. `jobs`: the line of `n`, in order, with those that
 * have a place; `next`: whose turn for a place is now. Where in it the job
 * belongs, `n` being the end.
 */
size_t turn_of(
    struct job *job, struct job *const *jobs, size_t n, uint64_t next);

#endif
