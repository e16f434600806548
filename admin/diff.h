/* SPDX-License-Identifier: ISC */
/*
 * diff.h - which words of two texts differ
 */
#ifndef ADMIN_DIFF_H
#define ADMIN_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;

/* Of each text; the rest is not compared. */
#define DIFF_WORDS 1500
#define DIFF_BYTES (64 * 1024)

enum diff_side { DIFF_BOTH, DIFF_ONLY_A, DIFF_ONLY_B };

/* A run of words of one kind; borrowed from the texts. */
struct diff_run {
	enum diff_side side;
	struct str text;
};

struct diff {
	struct diff_run *run;
	size_t n;
	bool cut; /* a text has more */
};

/*
 * The longest common subsequence of words; case and white space count for
 * nothing. `mem` gets the runs, `a` and `b` must outlive them.
 */
void diff_words(
    struct diff *out, struct arena *mem, struct str a, struct str b);

#endif
