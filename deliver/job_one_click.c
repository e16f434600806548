/* SPDX-License-Identifier: ISC */
/*
 * job_one_click.c - the link by which a recipient says no more to an inbox
 * (RFC 8058, decision 0085): two fields in front of the frozen bytes, inside
 * the signature. Each recipient has a link of its own, so it goes by itself.
 */
#include "base/conf.h"
#include "base/log.h"
#include "deliver/job_internal.h"
#include "mail/one_click.h"

static void
wait_for_url(struct job *job)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	log_error("deliver.one_click", KV("message", id),
	    KV("why", "deliver.unsubscribe_url is empty"));
	job_finish_all(job, RELAY_DEFERRED, 0, "4.3.5",
	    "the address of unsubscribe links is not known here");
}

static void
on_token(void *arg, enum relay_status st, const char *why, struct str token)
{
	struct job *job = arg;

	job->op = NULL;
	if (st != RELAY_DONE) {
		log_warn("deliver.result", KV("why", why));
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
	/* None: the copy for oversight, or the inbox has changed its mind. */
	if (token.n == ONE_CLICK_TOKEN)
		one_click_fields(&job->links,
		    job->ctx->conf->deliver_unsubscribe_url,
		    (const unsigned char *)token.p);
	job_linked(job);
}

void
job_one_click(struct job *job)
{
	bool has_own = one_click_has_own(job->head);

	job->is_list = has_own || job->one_click;
	if (has_own || !job->one_click) {
		job_linked(job);
		return;
	}
	if (job->ctx->conf->deliver_unsubscribe_url[0] == '\0') {
		wait_for_url(job);
		return;
	}
	/* Whoever was tried least; the others come with the next leases. */
	job->groups = (int)job->due_count;
	job->due_count = 1;
	job->op = relay_one_click(
	    job->ctx->relay, &job->lease, job->due[0], on_token, job);
}
