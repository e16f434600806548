/* SPDX-License-Identifier: ISC */
/*
 * job_sign.c - what stands before the frozen bytes when they leave: DKIM
 * signatures, and fields of ours inside them. A domain without keys sends
 * unsigned; one that has signed before never does again by accident: its mail
 * waits, and the log says why.
 */
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "deliver/job_internal.h"
#include "deliver/sign_keys.h"

static void
wait_for_key(struct job *job, const char *why)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &job->lease.message);
	log_error("deliver.unsigned", KV("message", id), KV("why", why));
	metrics_inc(M_ATTEMPTS, "unsigned", NULL);
	job_finish_all(job, RELAY_DEFERRED, 0, "4.7.5",
	    "the domain's mail cannot be signed now");
}

/* Fields of ours that any signature covers: all is made. */
static void
front(struct job *job)
{
	buf_add_str(&job->prefix, buf_str(&job->identity));
	buf_add_str(&job->prefix, buf_str(&job->links));
	job_prepared(job);
}

static void
ready(struct job *job)
{
	struct err why = { 0 };
	struct sign *sign = job->sign;

	job->sign = NULL;
	if (!sign_end(sign, &job->prefix, &why)) {
		wait_for_key(job, why.text);
		return;
	}
	front(job);
}

static void
begin(struct job *job, const struct sign_key *keys, size_t n)
{
	char id[UUID_ID_MAX];

	if (n == 0 && job->links.n > 0) {
		/* RFC 8058 4: inside a signature, or worth nothing. */
		wait_for_key(job, "links to unsubscribe have to be signed");
		return;
	}
	if (n == 0) {
		front(job);
		return;
	}
	uuid_to_id(id, "msg_", &job->lease.message);
	job->sign = sign_begin(job->ctx->signer, keys, n, id, job->is_list);
	sign_add(job->sign, (const char *)job->identity.p, job->identity.n);
	sign_add(job->sign, (const char *)job->links.p, job->links.n);
	if (job->is_kept) {
		sign_add(job->sign, (const char *)job->kept.p, job->kept.n);
		ready(job);
		return;
	}
	job_rewind(job, JOB_PASS_SIGN);
	job_read(job);
}

void
job_signed(struct job *job)
{
	ready(job);
}

static struct str
sender_domain(const struct job *job)
{
	const char *at = memrchr(job->mail_from.p, '@', job->mail_from.n);
	size_t head;

	if (at == NULL)
		return (struct str){ "", 0 };
	head = (size_t)(at - job->mail_from.p) + 1;
	return (struct str){ job->mail_from.p + head, job->mail_from.n - head };
}

static void
on_keys(void *arg, enum relay_status st, const char *why,
    const struct relay_dkim *v, size_t n)
{
	struct job *job = arg;
	const struct sign_key *keys;
	struct str domain = sender_domain(job);

	job->op = NULL;
	if (st == RELAY_REFUSED && strcmp(why, "store_unavailable") == 0) {
		wait_for_key(job, "no key of the domain is in use");
	} else if (st != RELAY_DONE) {
		log_warn("deliver.result", KV("why", why));
		job_release(job, JOB_LOST_RETRY_S);
	} else if (!sign_keys_put(job->ctx->keys, job->lease.tenant, domain, v,
		       n, job->ctx->relay_pub, &job->ctx->relay_key)) {
		wait_for_key(job, "a key does not open");
	} else {
		keys = sign_keys_find(
		    job->ctx->keys, job->lease.tenant, domain, &n);
		begin(job, keys, n);
	}
}

void
job_sign(struct job *job)
{
	const struct sign_key *keys;
	size_t n;

	keys = sign_keys_find(
	    job->ctx->keys, job->lease.tenant, sender_domain(job), &n);
	if (keys != NULL)
		begin(job, keys, n);
	else
		job->op =
		    relay_dkim_keys(job->ctx->relay, &job->lease, on_keys, job);
}
