/* SPDX-License-Identifier: ISC */
/*
 * job_report.c - what the sender's inbox is told of a result (RFC 3461, 3464).
 *
 * A report is sealed to the inbox's key and stored with the results it tells
 * of, under the same lease: none without the other (decision 0042). What the
 * sender asked for by NOTIFY and RET is kept; without it, failures and one
 * notice of delay are told, with the header of the message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "deliver/job_internal.h"
#include "mail/report.h"
#include "seal/key.h"

#define US 1000000
#define KEY_AGAIN_MS 1000

static int64_t
now_us(const struct job *job)
{
	return job->fetched_us +
	       (int64_t)(clock_mono_ms() - job->fetched_ms) * 1000;
}

static unsigned
notify_of(const struct job *job, int ix)
{
	size_t i;

	for (i = 0; i < job->due_count; i++) {
		if (job->due[i] == ix)
			return job->due_notify[i];
	}
	return ENVELOPE_NEVER;
}

/* With the attempt that is nearest to it; the database keeps it to one. */
static bool
is_delay_due(const struct job *job)
{
	int64_t after = job->ctx->conf->deliver_delay_notice * 1000;

	return after > 0 && now_us(job) + (int64_t)job->retry_s * US / 2 >=
				job->released_us + after;
}

/* Does the sender hear of this row in a report of that kind? */
static bool
is_told(const struct job *job, const struct relay_rcpt *r,
    enum report_kind kind, bool delay_due)
{
	unsigned notify = notify_of(job, r->ix);

	switch (kind) {
	case REPORT_FAILED:
		return r->result == RELAY_FAILED &&
		       (notify == 0 || (notify & ENVELOPE_FAILURE) != 0);
	case REPORT_DELAYED:
		return r->result == RELAY_DEFERRED && delay_due &&
		       (notify == 0 || (notify & ENVELOPE_DELAY) != 0);
	case REPORT_RELAYED:
		return r->result == RELAY_DELIVERED && !job->passes_dsn &&
		       (notify & ENVELOPE_SUCCESS) != 0;
	}
	return false;
}

bool
job_report_wanted(const struct job *job)
{
	bool delay_due = is_delay_due(job);
	size_t i;

	for (i = 0; i < job->row_count; i++) {
		const struct relay_rcpt *r = &job->rows[i];

		if (is_told(job, r, REPORT_FAILED, delay_due) ||
		    is_told(job, r, REPORT_DELAYED, delay_due) ||
		    is_told(job, r, REPORT_RELAYED, delay_due))
			return true;
	}
	return false;
}

void
job_give_up_late(struct job *job)
{
	int64_t over =
	    job->released_us + job->ctx->conf->deliver_give_up * 1000;
	size_t i;

	if (job->released_us == 0 ||
	    now_us(job) + (int64_t)job->retry_s * US < over)
		return;
	for (i = 0; i < job->row_count; i++) {
		if (job->rows[i].result == RELAY_DEFERRED)
			job->rows[i].result = RELAY_FAILED;
	}
	/* The other groups end by themselves, each with its report. */
	if (job->groups > 1)
		job->retry_s = 1;
}

/* Split where the header ends; the body only of what is in memory. */
static void
find_message(const struct job *job, struct report *r)
{
	struct str head = job->head;

	r->head = head;
	if (job->is_kept && job->params.ret == ENVELOPE_RET_FULL &&
	    head.n + 2 <= job->kept.n)
		r->body = (struct str){ (char *)job->kept.p + head.n + 2,
			job->kept.n - head.n - 2 };
}

static void
add(struct job *job, enum report_kind kind, struct str pub, bool delay_due)
{
	static const char *const letters[] = { "f", "d", "s" };
	struct report_rcpt *to = xcalloc(job->row_count, sizeof(*to));
	struct report r = { .kind = kind,
		.hostname = str_of(job->ctx->conf->hostname),
		.inbox = job->mail_from,
		.id = job->envid,
		.remote = job->remote,
		.doubt = job->same_mx[0] != '\0',
		.now_us = now_us(job),
		.arrival_us = uuid_time_ms(&job->lease.message) * 1000,
		.until_us =
		    job->released_us + job->ctx->conf->deliver_give_up * 1000,
		.rcpt = to };
	struct buf *ix = &job->report_ix[kind], *box = &job->report_box[kind];
	struct buf plain = { 0 };
	size_t i;

	for (i = 0; i < job->row_count; i++) {
		const struct relay_rcpt *row = &job->rows[i];

		if (!is_told(job, row, kind, delay_due))
			continue;
		buf_printf(ix, "%s%d", ix->n > 0 ? "," : "", row->ix);
		to[r.rcpt_count].address = job->rcpt[row->ix - 1];
		to[r.rcpt_count].code = row->code;
		to[r.rcpt_count].enhanced = str_of(row->enhanced);
		to[r.rcpt_count++].text = str_of(row->text);
	}
	if (r.rcpt_count > 0) {
		find_message(job, &r);
		report_build(&plain, &r);
		seal_box(buf_reserve(box, plain.n + SEAL_BOX_EXTRA),
		    (const unsigned char *)pub.p, plain.p, plain.n);
		box->n = plain.n + SEAL_BOX_EXTRA;
		job->reports.v[job->reports.n++] =
		    (struct relay_report){ letters[kind], buf_str(ix),
			    buf_str(box) };
	}
	buf_wipe(&plain);
	buf_free(&plain);
	free(to);
}

static void
on_key(void *arg, enum relay_status st, const char *why, struct str pub,
    int epoch, bool delay_told)
{
	struct job *job = arg;
	bool delay_due = !delay_told && is_delay_due(job);

	job->op = NULL;
	if (st == RELAY_LOST && job->key_tries++ < 3) {
		loop_timer_set(job->again, KEY_AGAIN_MS);
		return;
	}
	if (st != RELAY_DONE)
		log_warn("deliver.result", KV("why", why));
	/* An inbox nobody claimed has no key: then only the events tell. */
	if (st == RELAY_DONE && pub.n == 32) {
		add(job, REPORT_FAILED, pub, false);
		add(job, REPORT_DELAYED, pub, delay_due);
		add(job, REPORT_RELAYED, pub, false);
		job->reports.epoch = epoch;
	}
	job->told = true;
	job_store(job);
}

void
job_report(struct job *job)
{
	job->op = relay_report_key(job->ctx->relay, &job->lease, on_key, job);
}

void
job_report_free(struct job *job)
{
	size_t i;

	for (i = 0; i < RELAY_REPORTS_MAX; i++) {
		buf_free(&job->report_ix[i]);
		buf_free(&job->report_box[i]);
	}
}
