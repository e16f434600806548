/* SPDX-License-Identifier: ISC */
/*
 * job_check.c - is what lies in the database what was approved?
 *
 * Nothing the database says is believed: the release tag needs a key it does
 * not have, the box opens only for exactly this version, round and digest,
 * and the digest is made anew from the envelope and every byte of the body.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "deliver/job_internal.h"
#include "seal/passkey.h"
#include "seal/verp.h"

/* The longest a next hop goes on trying, and some days (RFC 5321 4.5.4.1). */
#define RETURN_PATH_US (INT64_C(14) * 86400 * 1000000)

static void
on_integrity(void *arg, enum relay_status st, const char *why)
{
	struct job *job = arg;

	(void)st;
	(void)why;
	job->op = NULL;
	job_over(job);
}

void
job_integrity(struct job *job, const char *why)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	log_error("deliver.integrity", KV("message", id), KV("why", why));
	metrics_inc(M_ATTEMPTS, "integrity", NULL);
	job->phase = JOB_ENDING;
	relay_cancel(job->op);
	job->op = relay_integrity(
	    job->ctx->relay, &job->lease, why, on_integrity, job);
}

/* How many lines there are, at most. */
static size_t
lines(struct str text)
{
	size_t i, n = 1;

	for (i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

/* Copy text into the job; views of it stay good until the job ends. */
static bool
keep_envelope(struct job *job, const struct relay_message *m)
{
	size_t from_at, rcpt_at;
	struct str rest;

	from_at = job->text.n;
	buf_add_str(&job->text, m->mail_from);
	rcpt_at = job->text.n;
	buf_add_str(&job->text, m->rcpts);
	(void)buf_cstr(&job->text);
	job->mail_from =
	    (struct str){ (char *)job->text.p + from_at, m->mail_from.n };
	rest = (struct str){ (char *)job->text.p + rcpt_at, m->rcpts.n };
	job->rcpt = xcalloc(lines(rest), sizeof(*job->rcpt));
	while (rest.n > 0 && job->rcpt_count < JOB_RCPT_MAX)
		job->rcpt[job->rcpt_count++] = str_split(&rest, '\n');
	return rest.n == 0 && job->rcpt_count > 0;
}

static bool
keep_due(struct job *job, struct str due)
{
	unsigned long long ix;

	job->due = xcalloc(job->rcpt_count, sizeof(*job->due));
	job->due_rcpt = xcalloc(job->rcpt_count, sizeof(*job->due_rcpt));
	job->due_notify = xcalloc(job->rcpt_count, sizeof(*job->due_notify));
	while (due.n > 0 && job->due_count < job->rcpt_count) {
		if (!str_to_u64(str_split(&due, ','), job->rcpt_count, &ix) ||
		    ix == 0)
			return false;
		job->due[job->due_count] = (int)ix;
		job->due_rcpt[job->due_count++] = job->rcpt[ix - 1];
	}
	return due.n == 0 && job->due_count > 0;
}

/* The host that may have it for recipient `ix`; empty: none. */
static struct str
host_of(struct str list, int ix)
{
	unsigned long long n;

	while (list.n > 0) {
		struct str host = str_split(&list, '\n');

		if (str_to_u64(str_split(&host, ' '), JOB_RCPT_MAX, &n) &&
		    n == (unsigned long long)ix)
			return host;
	}
	return (struct str){ "", 0 };
}

/*
 * Who may have it already goes to that host and no other, and without those
 * who need not wait for it. Whoever was tried least decides who goes now.
 */
static void
split_unsure(struct job *job, struct str list)
{
	struct str host;
	size_t i, n = 0;

	if (list.n == 0)
		return;
	host = host_of(list, job->due[0]);
	(void)snprintf(
	    job->same_mx, sizeof(job->same_mx), "%.*s", (int)host.n, host.p);
	for (i = 0; i < job->due_count; i++) {
		if (!str_eq(host_of(list, job->due[i]), host))
			continue;
		job->due[n] = job->due[i];
		job->due_rcpt[n++] = job->due_rcpt[i];
	}
	job->due_count = n;
}

static void
keep_notify(struct job *job, struct str params)
{
	size_t i;

	for (i = 0; i < job->due_count; i++)
		job->due_notify[i] =
		    (unsigned char)envelope_notify_of(params, job->due_rcpt[i]);
	uuid_to_id(job->envid, "msg_", &job->lease.message);
}

/*
 * A lease is for one domain; it decides where the message goes, so it must be
 * that of every recipient it is for.
 */
static bool
is_leased_domain(const struct job *job, struct str address)
{
	const char *at = memrchr(address.p, '@', address.n);
	size_t head = at != NULL ? (size_t)(at - address.p) + 1 : address.n;

	return str_ieq((struct str){ address.p + head, address.n - head },
	    str_of(job->lease.domain));
}

/* Bytes that could end the command they are put into (smtp.md R3). */
static bool
is_safe_address(struct str a)
{
	size_t i;

	for (i = 0; i < a.n; i++) {
		unsigned char c = (unsigned char)a.p[i];

		if (c < 0x20 || c == 0x7f)
			return false;
	}
	return a.n > 0 && a.n < 1000;
}

static bool
is_right_digest(const struct job *job, const struct relay_message *m)
{
	struct digest_input in = {
		.tenant = (uint64_t)m->tenant,
		.inbox = (uint64_t)m->inbox,
		.message = job->lease.message,
		.version = m->version,
		.test = m->test,
		.mail_from = job->mail_from,
		.rcpt = job->rcpt,
		.rcpt_count = (uint32_t)job->rcpt_count,
		.params = m->params,
		.size = (uint64_t)m->size,
		.send_at = (uint64_t)m->send_at,
		.not_after = (uint64_t)m->not_after,
	};
	unsigned char made[DIGEST_LEN];

	memcpy(in.body_tag, m->body_tag.p, sizeof(in.body_tag));
	digest_compute(made, &in);
	return memcmp(made, m->digest.p, DIGEST_LEN) == 0;
}

static bool
is_right_tag(const struct job *job, const struct relay_message *m,
    const struct seal_release *r)
{
	unsigned char want[SEAL_TAG_LEN];

	if (m->by_policy)
		seal_tag_policy(want, &job->ctx->policy_key, r,
		    (uint16_t)m->mode, (uint32_t)m->mode_epoch);
	else
		seal_tag_approve(want, &job->ctx->approve_key, r);
	return seal_tag_eq(want, m->tag);
}

/*
 * Who approved with a passkey signed this digest with a key that postern-auth
 * vouches for. How many had to, the database says and cannot be asked here.
 */
static bool
are_signed(const struct job *job, const struct relay_message *m)
{
	struct str rest = m->proofs, one;

	while (rest.n > 0) {
		struct seal_assertion a = { .ask = { .purpose = 'a',
						.message = job->lease.message,
						.version = m->version,
						.round = m->round } };

		memcpy(a.ask.digest, m->digest.p, DIGEST_LEN);
		if (!str_lp(&rest, &one) || !seal_assertion_read(&a, one) ||
		    !job->ctx->has_auth_pub ||
		    !seal_assertion_ok(&a, job->ctx->auth_pub))
			return false;
	}
	return true;
}

/* NULL when all is as approved; else what is not. */
static const char *
check(struct job *job, const struct relay_message *m)
{
	struct seal_release r = {
		.epoch = m->epoch,
		.tenant = (uint64_t)m->tenant,
		.inbox = (uint64_t)m->inbox,
		.message = job->lease.message,
		.version = m->version,
		.round = m->round,
		.expiry = (uint64_t)m->expiry,
	};
	size_t i;

	if (m->deployment.n != 16 || m->digest.n != DIGEST_LEN ||
	    m->body_tag.n != sizeof(job->want_tag) ||
	    memcmp(m->deployment.p, job->ctx->deployment, 16) != 0)
		return "another deployment";
	memcpy(r.deployment, m->deployment.p, 16);
	memcpy(r.digest, m->digest.p, DIGEST_LEN);
	if (m->tenant != job->lease.tenant)
		return "another tenant";
	if (!is_right_tag(job, m, &r))
		return "release tag";
	if (!keep_envelope(job, m) || !keep_due(job, m->due_ix))
		return "recipients";
	split_unsure(job, m->same_mx);
	if (!envelope_params_read(&job->params, m->params))
		return "parameters";
	for (i = 0; i < job->rcpt_count; i++) {
		if (!is_safe_address(job->rcpt[i]))
			return "recipient address";
	}
	if (!is_safe_address(job->mail_from))
		return "sender address";
	if (!is_right_digest(job, m))
		return "digest";
	keep_notify(job, m->params);
	for (i = 0; i < job->due_count; i++) {
		if (!is_leased_domain(job, job->due_rcpt[i]))
			return "domain";
	}
	if (!are_signed(job, m))
		return "passkey";
	if (!seal_relay_open(&job->key, m->relay_box, job->ctx->relay_pub,
		&job->ctx->relay_key, &r))
		return "relay box";
	return NULL;
}

static void on_chunk(
    void *arg, enum relay_status st, int seq, struct str chunk);

static void
on_fetch(void *arg, enum relay_status st, const char *why,
    const struct relay_message *m)
{
	struct job *job = arg;
	const char *wrong;

	job->op = NULL;
	if (st != RELAY_DONE) {
		log_warn("deliver.result", KV("why", why));
		job_release(job, JOB_LOST_RETRY_S);
		return;
	}
	if (m->due_ix.n == 0) {
		job_release(job, 1);
		return;
	}
	if (m->expiry != 0 && m->now_us > m->expiry) {
		/* A tag is good until its expiry; the sweep ends the release.
		 */
		job_release(job, 60);
		return;
	}
	wrong = check(job, m);
	if (wrong != NULL) {
		job_integrity(job, wrong);
		return;
	}
	memcpy(job->want_tag, m->body_tag.p, sizeof(job->want_tag));
	memcpy(job->id.deployment, m->deployment.p, 16);
	job->id.tenant = (uint64_t)m->tenant;
	job->id.inbox = (uint64_t)m->inbox;
	job->id.message = job->lease.message;
	job->id.version = m->version;
	job->size = m->size;
	job->chunks = m->chunks;
	job->routed = m->routed;
	job->test = m->test;
	job->attempts = m->attempts;
	job->released_us = m->released_us;
	job->fetched_us = m->now_us;
	job->fetched_ms = m->came_ms;
	job->is_kept = m->size <= JOB_KEEP_BYTES;
	job->by_policy = m->by_policy;
	job->one_click = m->one_click;
	job->attempted = m->passed;
	job->passed = m->passed ? job->due_count : 0;
	job->round = m->round;
	job->scan = identity_scan_new(job->ctx->identity_key.n > 0);
	job_split_begin(job);
	if (job->ctx->bounce_key.n > 0)
		(void)seal_verp_make(&job->return_path, &job->ctx->bounce_key,
		    job->mail_from, &job->lease.message,
		    m->now_us + RETURN_PATH_US);
	job_rewind(job, JOB_PASS_CHECK);
	if (m->body.p == NULL) {
		job_read(job);
		return;
	}
	job->read_from = 0;
	on_chunk(job, RELAY_DONE, 0, m->body);
	on_chunk(job, RELAY_DONE, -1, (struct str){ NULL, 0 });
}

void
job_fetch(struct job *job)
{
	job->op = relay_fetch(job->ctx->relay, &job->lease, on_fetch, job);
}

static void
on_plain(void *arg, const void *p, size_t n)
{
	struct job *job = arg;

	body_tag_add(job->tag, p, n);
	switch (job->pass) {
	case JOB_PASS_CHECK:
		break;
	case JOB_PASS_SIGN:
		sign_add(job->sign, p, n);
		return;
	case JOB_PASS_RELAY:
		job_relay_bytes(job, p, n);
		return;
	}
	job->is_8bit |= str_has_8bit((struct str){ p, n });
	identity_scan_add(job->scan, p, n);
	job_split_add(job, p, n);
	if (job->is_kept)
		buf_add(&job->kept, p, n);
}

void
job_rewind(struct job *job, enum job_pass pass)
{
	seal_open_free(job->open);
	if (job->tag != NULL)
		body_tag_end(job->tag, NULL);
	job->pass = pass;
	job->next_chunk = 0;
	job->tag = body_tag_new(&job->key);
	job->open =
	    seal_open_new(job->ctx->zstd, &job->key, &job->id, on_plain, job);
}

/* The pass is over: were these all the bytes, and the right ones? */
static bool
is_whole(struct job *job)
{
	unsigned char made[32];

	body_tag_end(job->tag, made);
	job->tag = NULL;
	return seal_open_finish(job->open) &&
	       seal_open_size(job->open) == (uint64_t)job->size &&
	       memcmp(made, job->want_tag, sizeof(made)) == 0;
}

static void
checked(struct job *job)
{
	identity_scan_end(job->scan, job->body_hash, &job->head);
	job_one_click(job);
}

void
job_linked(struct job *job)
{
	job_split(job);
	if (job->ctx->identity_key.n > 0)
		job_identify(job);
	if (job->test)
		job_sign(job);
	else
		job_hop_choose(job);
}

static void
pass_on(struct job *job, bool all)
{
	if (job->pass == JOB_PASS_RELAY)
		job_relay_read(job, all);
	else if (!all)
		job_read(job);
	else if (job->pass == JOB_PASS_CHECK)
		checked(job);
	else
		job_signed(job);
}

static void
on_chunk(void *arg, enum relay_status st, int seq, struct str chunk)
{
	struct job *job = arg;

	if (chunk.p != NULL) {
		if (job->read_failed)
			return;
		if (seq != job->next_chunk ||
		    !seal_open_chunk(job->open, chunk.p, chunk.n))
			job->read_failed = true;
		job->next_chunk++;
		return;
	}
	job->op = NULL;
	if (st != RELAY_DONE) {
		job->is_ours = true;
		if (job->client != NULL)
			client_abort(
			    job->client, "the database did not answer");
		else
			job_release(job, JOB_LOST_RETRY_S);
	} else if (job->read_failed || job->next_chunk == job->read_from ||
		   (job->next_chunk >= job->chunks && !is_whole(job))) {
		/* With a client open, no dot has left: it is closed. */
		client_free(job->client);
		job->client = NULL;
		job_integrity(job, "body");
	} else {
		pass_on(job, job->next_chunk >= job->chunks);
	}
}

void
job_read(struct job *job)
{
	job->read_from = job->next_chunk;
	relay_cancel(job->op);
	job->op = relay_body(job->ctx->relay, &job->lease, job->next_chunk,
	    JOB_CHUNKS, on_chunk, job);
}
