/* SPDX-License-Identifier: ISC */
/*
 * view_jobs.h - decisions over many messages
 */
#ifndef ADMIN_VIEW_JOBS_H
#define ADMIN_VIEW_JOBS_H

#include "admin/view.h"
#include "store/job.h"

struct view_job {
	const struct job *job;
	bool runs; /* here; a job that should run and does not stands */
	const struct job_items *items; /* a page of them */
	const char *next; /* number of the last one, if there may be more */
	bool first;
	bool problems; /* only what was not done */
	const char *error;
};

/* "running", "paused", ... as the page says it. */
const char *view_job_state(const struct job *job, bool runs);
void view_jobs(struct buf *out, const struct view_shell *shell,
    const struct jobs *jobs, const bool *runs);
void view_job(struct buf *out, const struct view_shell *shell,
    const struct view_job *view);

#endif
