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

#define FOREIGN_MAX 32 /* asked about on one page; more stay as they are */

struct foreign_text {
	struct helper_request request;
	struct foreign *of;
	bool is_answered;
	enum helper_outcome outcome;
	struct str text; /* any bytes: clean before use */
	bool replaced, cut;
};

/* Starts as {0} but for `mem`. */
struct foreign {
	struct arena *mem;
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
