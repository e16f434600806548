/* SPDX-License-Identifier: ISC */
/*
 * job.h - the jobs that run in this process
 *
 * A runner holds the secret of the session that confirmed its job, for as long
 * as the job runs and no longer. When that session ends, so does the runner:
 * the job stands until its maker confirms again. Nothing of it survives a
 * restart.
 */
#ifndef ADMIN_JOB_H
#define ADMIN_JOB_H

#include <stdbool.h>

#include "base/uuid.h"

struct admin;
struct job_runners;
struct secret;
struct store_operator;

#define JOB_RUNNERS 32
#define JOB_UNDO 'u' /* as a verdict: take back what it approved */
#define JOB_UNDO_ROWS 200 /* of one statement */

struct job_runners *job_runners_new(struct admin *admin);
/* Wipes the secrets. After review_db_free(). NULL is fine. */
void job_runners_free(struct job_runners *all);

/*
 * Copies `who`. False: too many run. A job that runs goes on with `who` and
 * `verdict`, which is JOB_UNDO to take back what it did.
 */
bool job_run(struct job_runners *all, const struct uuid *job, char verdict,
    const struct store_operator *who);
/* A session goes on under another secret, and so do its jobs. */
void job_runners_turn(struct job_runners *all, const struct secret *from,
    const struct secret *to);
bool job_is_running(const struct job_runners *all, const struct uuid *job);

#endif
