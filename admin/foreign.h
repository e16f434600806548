/* SPDX-License-Identifier: ISC */
/*
 * foreign.h - text in charsets that only postern-decode reads
 *
 * Reading a message (in a thread) notes down every leaf and every run of
 * encoded words that is not UTF-8, ASCII or Latin-1. Then the loop asks the
 * helper about all of them at once, and what has an answer is read again.
 */
#ifndef ADMIN_FOREIGN_H
#define ADMIN_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/helper/helper.h"
#include "base/str.h"

struct buf;

#define FOREIGN_MAX 64 /* asked about on one page; more stay as they are */
#define FOREIGN_LIST_MS 1000 /* so long a list waits for its subjects */

/* Words that lists have asked about before, for the next list. */
struct foreign_cache;
struct foreign_cache *foreign_cache_new(void);
/* NULL is fine. */
void foreign_cache_free(struct foreign_cache *c);

struct foreign_text {
	struct helper_request request;
	struct foreign *of;
	bool is_answered;
	enum helper_outcome outcome;
	struct str text; /* any bytes: clean before use */
	bool replaced, cut;
};

/* Starts as {0} but for `mem`, and the next two for lists. */
struct foreign {
	struct arena *mem;
	unsigned deadline_ms; /* 0: the helper's own */
	struct foreign_cache *cache; /* never for what lies sealed */
	struct foreign_text *text[FOREIGN_MAX];
	size_t count;
	bool is_full; /* there were words beyond these */
	size_t waiting;
	void (*done)(void *arg);
	void *arg;
};

/* A header_word_fn; `arg` is a struct foreign. Notes down what is new. */
bool foreign_word(
    void *arg, struct str charset, struct str run, struct buf *text);
/*
 * The subject that the database keeps for lists: the gateway left words there
 * that only the helper reads. Notes them down; with their answers the text.
 */
const char *foreign_subject(struct foreign *f, const char *subject);
/* Note down a leaf; its views must stay. NULL when there are too many. */
struct foreign_text *foreign_leaf(
    struct foreign *f, const struct helper_request *r);

/*
 * Ask about all that has no answer; `done` runs once, later, from the loop.
 * False: there was nothing to ask, and `done` does not run.
 */
bool foreign_ask(struct foreign *f, struct helper_pool *helpers,
    void (*done)(void *arg), void *arg);
/* Is there a word without its text? */
bool foreign_words_left(const struct foreign *f);
/* What to say above the text of a leaf; NULL: nothing. */
const char *foreign_notice(const struct foreign_text *text, struct arena *mem);

#endif
