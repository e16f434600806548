/* SPDX-License-Identifier: ISC */
/*
 * job_capture.c - mail of a test inbox: checked, signed and asked for like any
 * other, then stored as what would have left. No name is looked up for it and
 * no host is told; the database refuses to let such mail be sent (0067).
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "deliver/job_internal.h"
#include "seal/key.h"

static void
on_captured(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;
	char id[UUID_ID_MAX];

	job->op = NULL;
	switch (st) {
	case RELAY_DONE:
		uuid_to_id(id, "msg_", &job->lease.message);
		log_info("deliver.captured", KV("message", id),
		    KV("ms", clock_mono_ms() - job->began_ms));
		metrics_inc(M_DELIVERIES, "captured", NULL);
		job_over(job);
		return;
	case RELAY_REFUSED:
		job_no_go(job, why);
		return;
	case RELAY_LOST:
		/* Captured or not, the next lease is told. */
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
}

static void
on_key(void *arg, enum relay_status st, const char *why, struct str pub,
    int epoch, bool delay_told)
{
	struct job *job = arg;
	struct buf box = { 0 };

	(void)delay_told;
	job->op = NULL;
	if (st != RELAY_DONE || pub.n != 32) {
		log_warn("deliver.result",
		    KV("why", st != RELAY_DONE ? why : "no key of the inbox"));
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
	seal_box(buf_reserve(&box, job->prefix.n + SEAL_BOX_EXTRA),
	    (const unsigned char *)pub.p, job->prefix.p, job->prefix.n);
	box.n = job->prefix.n + SEAL_BOX_EXTRA;
	job->op = relay_capture(job->ctx->relay, &job->lease, job->due,
	    job->due_count,
	    job->return_path.n > 0 ? buf_str(&job->return_path)
				   : job->mail_from,
	    epoch, buf_str(&box), on_captured, job);
	buf_free(&box);
}

void
job_capture(struct job *job)
{
	job->phase = JOB_ENDING;
	job->op = relay_report_key(job->ctx->relay, &job->lease, on_key, job);
}
