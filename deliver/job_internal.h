/* SPDX-License-Identifier: ISC */
/* job_internal.h - what job.c (order), job_check.c and job_relay.c share. */
#ifndef DELIVER_JOB_INTERNAL_H
#define DELIVER_JOB_INTERNAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "deliver/client.h"
#include "deliver/job.h"
#include "deliver/route.h"
#include "mail/digest.h"
#include "seal/body.h"
#include "seal/release.h"

#define JOB_RCPT_MAX 1000
#define JOB_KEEP_BYTES 1048576 /* larger bodies are read twice */
#define JOB_CHUNKS 2 /* a read ahead */

struct job {
	const struct job_context *ctx;
	struct store_lease lease;
	job_end_fn *end;
	void *arg;
	struct relay_op *op;
	struct route *route;
	struct client *client;
	bool stopping, over, in_client;
	bool attempted; /* rows are marked as being sent */
	struct relay_rcpt *rows; /* results waiting for that */

	/* Of the message; text lives in `text`. */
	struct buf text;
	struct str mail_from;
	struct str rcpt[JOB_RCPT_MAX]; /* all, in digest order */
	size_t rcpt_count;
	int due[JOB_RCPT_MAX]; /* numbers, 1.. */
	struct str due_rcpt[JOB_RCPT_MAX];
	size_t due_count;
	int64_t size;
	int chunks, next_chunk, attempts;
	int read_from; /* an answer without rows is a body cut short */
	struct seal_id id;
	struct secret key; /* the message key */
	unsigned char want_tag[32];
	bool is_8bit, needs_utf8;

	/* Reading the body. */
	struct seal_open *open;
	struct body_tag *tag;
	bool relaying, read_failed;
	struct buf kept;
	bool is_kept;

	struct route_host hosts[ROUTE_HOSTS_MAX];
	size_t host_count, host_at;
	bool no_tls; /* the handshake failed here: once more without */
	char last_why[REPLY_TEXT_MAX];
	int64_t began_ms;
};

/* job.c */
void job_over(struct job *job);
void job_release(struct job *job, int retry_s);
void job_finish_all(struct job *job, enum relay_result result, int code,
    const char *enhanced, const char *why);
void job_finish(struct job *job, const struct relay_rcpt *v, size_t n);
/* Called by the reader: the whole body was read (verify or relay pass). */
void job_body_verified(struct job *job);

/* job_check.c */
void job_integrity(struct job *job, const char *why);
void job_fetch(struct job *job);
/* Read `JOB_CHUNKS` more chunks of the current pass. */
void job_read(struct job *job);
void job_rewind(struct job *job, bool relaying);

/* job_relay.c */
void job_route(struct job *job);
/* The relay pass got bytes, or all of them. */
void job_relay_bytes(struct job *job, const char *p, size_t n);
void job_relay_read(struct job *job, bool all);

#endif
