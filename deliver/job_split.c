/* SPDX-License-Identifier: ISC */
/*
 * job_split.c - which of the recipients that are due go in one transaction.
 *
 * By what each needs of the host: SMTPUTF8 (RFC 6531) is asked for those whose
 * address has bytes above 127, and for all where a header or the sender has; a
 * host without it fails nobody else, and one with it does not look for it
 * further on for those who need none (decision 0134). And by who may know of
 * whom: where mail carries an identity, who stands in To and Cc goes together,
 * each other recipient alone (decision 0044).
 */
#include <stdlib.h>

#include "deliver/job_internal.h"
#include "mail/structure.h"

/* Where no address needs it, the params say whether the headers do. */
void
job_split_begin(struct job *job)
{
	bool by_rcpt = false;
	size_t i;

	for (i = 0; i < job->rcpt_count; i++)
		by_rcpt |= str_has_8bit(job->rcpt[i]);
	if (!by_rcpt)
		job->utf8_content = job->params.smtputf8;
	else
		job->structure = structure_new(NULL, NULL);
	job->utf8_content |= str_has_8bit(job->mail_from);
}

void
job_split_add(struct job *job, const void *p, size_t n)
{
	if (job->structure != NULL)
		(void)structure_feed(job->structure, p, n);
}

static bool
needs_utf8(const struct job *job, size_t i)
{
	return job->utf8_content || str_has_8bit(job->due_rcpt[i]);
}

static bool
goes_alone(const struct job *job, size_t i)
{
	return job->ctx->identity_key.n > 0 &&
	       !identity_is_visible(job->head, job->due_rcpt[i]);
}

/*
 * Whoever was tried least decides who goes now. The rest comes with the next
 * leases.
 */
static void
keep_first_group(struct job *job)
{
	bool alone, first_alone = goes_alone(job, 0);
	bool needs, first_needs = needs_utf8(job, 0);
	bool together[2] = { false, false }; /* without SMTPUTF8, with it */
	size_t i, n = 0, hidden = 0;

	for (i = 0; i < job->due_count; i++) {
		alone = goes_alone(job, i);
		needs = needs_utf8(job, i);
		hidden += alone;
		together[needs] |= !alone;
		if (i > 0 && (alone || first_alone || needs != first_needs))
			continue;
		job->due[n] = job->due[i];
		job->due_rcpt[n] = job->due_rcpt[i];
		job->due_notify[n++] = job->due_notify[i];
	}
	job->groups = (int)hidden + together[false] + together[true];
	job->due_count = n;
}

/* Frozen bytes have a structure; from none it would not follow who needs it. */
static bool
header_needs_utf8(struct job *job)
{
	if (job->structure == NULL)
		return false;
	return structure_finish(job->structure) != E_NONE ||
	       structure_utf8_headers(job->structure);
}

void
job_split(struct job *job)
{
	job->utf8_content |= header_needs_utf8(job);
	if (job->groups == 0) /* else each is alone: job_one_click.c */
		keep_first_group(job);
	job->needs_utf8 = needs_utf8(job, 0);
}
