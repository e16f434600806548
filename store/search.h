/* SPDX-License-Identifier: ISC */
/*
 * search.h - the words that operators search by, kept behind the audit log
 */
#ifndef STORE_SEARCH_H
#define STORE_SEARCH_H

#include "store/operator.h"

struct search_filled {
	struct review_answer is;
	int n; /* rows of the log that were read */
	bool more;
};
/*
 * Read at most `limit` rows of the log on and store the words of what was
 * submitted. Needs no session: it makes nothing known.
 */
void search_fill(struct review_db *db, int limit, struct search_filled *out,
    review_done_fn *done, void *arg);

/* Does so from now on, each second, and at once while there is more. */
struct search_filler;
struct search_filler *search_filler_new(
    struct loop *loop, struct review_db *db);
/* After review_db_free(). NULL is fine. */
void search_filler_free(struct search_filler *f);

#endif
