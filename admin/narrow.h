/* SPDX-License-Identifier: ISC */
/*
 * narrow.h - what a search is narrowed by, beside its words
 *
 * A search is one text, as docs/store-api.md says of review_list_1: words, and
 * terms such as has:links or older:3d. The page offers some of the terms as
 * fields; here one becomes the other.
 */
#ifndef ADMIN_NARROW_H
#define ADMIN_NARROW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;

struct narrow_term {
	const char *field; /* of the form */
	const char *term; /* has:links */
	const char *label; /* of its option, and in the sentence */
};
extern const struct narrow_term narrow_terms[];
extern const size_t narrow_term_count;

/* The one of ours that a word of a search is, or NULL. */
const struct narrow_term *narrow_find(struct str word);
/*
 * In which field a word stands: it is one of ours, or one with another span
 * (older:36h). NULL: it is no term.
 */
const char *narrow_field(struct str word);

/*
 * The search without its terms, and its terms each once, by single blanks;
 * both in the arena, "" when there are none.
 */
struct narrow {
	char *words, *terms;
};
struct narrow narrow_split(struct arena *mem, const char *search);
/* Whether `term` is one of those. */
bool narrow_has(const struct narrow *n, const char *term);
/* Both again, in the arena; NULL when there is nothing. */
char *narrow_join(struct arena *mem, const struct narrow *n);

#endif
