/* SPDX-License-Identifier: ISC */
/*
 * job_identity.c - Postern-Identity: a signed word to whoever receives the
 * mail on which inbox it is from and whether a person saw it (decision 0044).
 *
 * The field names its recipients by hashes: of those who go together, which
 * job_split.c decides so that nobody can find out from it who else got it.
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "deliver/job_internal.h"
#include "seal/jws.h"

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
