/* SPDX-License-Identifier: ISC */
/*
 * job_identity.c - Postern-Identity: a signed word to whoever receives the
 * mail on which inbox it is from and whether a person saw it (decision 0044).
 *
 * The field names its recipients by hashes. Who stands in To and Cc goes in
 * one transaction; each other recipient in one of its own, so that nobody can
 * find out from the field who else got it.
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "deliver/job_internal.h"
#include "seal/jws.h"

/*
 * Keep what may go together: who is visible, or one other, whichever was tried
 * least. The rest comes with the next leases.
 */
static void
split_hidden(struct job *job)
{
	bool seen, first = false;
	size_t i, n = 0, hidden = 0;

	for (i = 0; i < job->due_count; i++) {
		seen = identity_is_visible(job->head, job->due_rcpt[i]);
		first |= seen && i == 0;
		hidden += !seen;
		if (i > 0 && !(seen && first))
			continue;
		job->due[n] = job->due[i];
		job->due_rcpt[n] = job->due_rcpt[i];
		job->due_notify[n++] = job->due_notify[i];
	}
	job->groups = (int)(hidden + (hidden < job->due_count));
	job->due_count = n;
}

void
job_identify(struct job *job)
{
	struct identity id = { .inbox = job->mail_from,
		.by_person = !job->by_policy,
		.approved_us = job->released_us,
		.front = buf_str(&job->links),
		.head = job->head,
		.rcpt = job->due_rcpt };
	struct buf claims = { 0 }, jws = { 0 };
	char approval[UUID_ID_MAX + 24];

	if (job->groups == 0) /* else each is alone: job_one_click.c */
		split_hidden(job);
	id.rcpt_count = job->due_count;
	(void)snprintf(approval, sizeof(approval), "%s.%u.%u", job->envid,
	    (unsigned)job->id.version, job->round);
	id.approval = approval;
	memcpy(id.body, job->body_hash, sizeof(id.body));
	randombytes_buf(id.salt, sizeof(id.salt));
	identity_claims(&claims, &id);
	seal_jws_sign(&jws, &job->ctx->identity_key, buf_str(&claims));
	identity_field(&job->identity, buf_str(&jws));
	buf_free(&claims);
	buf_free(&jws);
}
