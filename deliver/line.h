/* SPDX-License-Identifier: ISC */
/*
 * line.h - the jobs of a worker, in the order of their turns (turn.h): which
 * of those that wait begins now, is made ready, waits on, or goes back.
 *
 * A few more than there are places wait here, so that the next is at hand when
 * one is given back. Who waits behind others for long, or for a domain that is
 * closed, goes back: a lease that waits here waits for no other worker.
 */
#ifndef DELIVER_LINE_H
#define DELIVER_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "deliver/job.h"
#include "deliver/share.h"

#define LINE_MAX 400

struct line {
	const struct job_context *ctx;
	struct dests *dests;
	job_end_fn *left, *end; /* of each job; see job_new() */
	void *arg;

	struct job *job[LINE_MAX];
	size_t n;
	/* As line_go() left it: jobs that wait for nothing but a place; that
	 * wait and are made ready; that wait for a place of the unproven. */
	size_t ready, made, unproven;
	uint64_t turn; /* of the next that waits for nothing but a place */
	uint64_t unproven_ms; /* when one got a place of the unproven last */
	uint64_t apart_ms; /* how far apart these were of late */
	struct shares shares; /* as line_go() found them */
	bool news; /* for line_news() */
};

/* The job of a new lease, where its turn is; there is room for it. */
struct job *line_add(struct line *l, const struct store_lease *lease);
/* It has no place any more: what it says of its destination counts. */
void line_leave(struct line *l, struct job *job);
/* It has ended; the caller frees it. */
void line_remove(struct line *l, struct job *job);
/* Something has changed: begin what may begin. */
void line_go(struct line *l);
/* Enough waits for a place of the unproven: more of it would be given back. */
bool line_is_long(const struct line *l);
/* Since it was last asked, was a job added that needs none, or got one? */
bool line_news(struct line *l);

#endif
