/* SPDX-License-Identifier: ISC */
/*
 * filter.h - what the operator's own filters say of a message while it is
 * submitted. The store does not know them: the gateway gives it functions.
 *
 * They see the frozen bytes and change nothing. What they say becomes
 * findings; the reasons are sealed with the message (decision A7).
 */
#ifndef STORE_FILTER_H
#define STORE_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/uuid.h"
#include "mail/finding.h"

struct store;

#define STORE_FILTER_NOTE_MAX 1200

struct store_filter_mail {
	struct uuid message;
	const char *from; /* the inbox */
	const struct str *rcpt;
	size_t rcpt_count;
};

struct store_filter_result {
	struct finding_marks marks;
	bool hold; /* no mode releases it without a person */
	bool refuse; /* a filter that must answer did not: try again */
	/* Lines "finding code, TAB, filter: reason", LF behind each. */
	char note[STORE_FILTER_NOTE_MAX];
};

struct store_filter {
	void *arg; /* of begin */
	/*
	 * A message begins; NULL when there is nothing to ask. `done` runs
	 * once, later, after finish; `room` after feed has said no.
	 */
	void *(*begin)(void *arg, const struct store_filter_mail *mail,
	    void (*done)(void *sub), void (*room)(void *sub), void *sub);
	/* All bytes are taken; false: enough for now. */
	bool (*feed)(void *run, const void *p, size_t n);
	void (*finish)(void *run);
	/* After done. */
	void (*result)(void *run, struct store_filter_result *out);
	/* No more callbacks. */
	void (*free)(void *run);
};

/* Copied; from now on each submission is shown. `arg` outlives the store. */
void store_set_filter(struct store *st, const struct store_filter *filter);

#endif
