/* SPDX-License-Identifier: ISC */
/*
 * select.h - does a selector of a style sheet fit an element? And the few words
 * of CSS that this takes.
 */
#ifndef DECODE_SELECT_H
#define DECODE_SELECT_H

#include <gumbo.h>
#include <stdbool.h>
#include <stddef.h>

/* Text between two places. */
struct span {
	const char *p, *end;
};

struct span span_trim(struct span s);
/* Where `c` is, or the end. */
const char *span_find(struct span s, char c);
/* The next comma outside of brackets, or the end. */
const char *span_comma(struct span s);
/* Behind the bracket that closes what `s`, behind its '(', is in. */
const char *span_bracket(struct span s);
/* Letters, digits, '-' and '_', taken off; may be none. */
struct span span_name(struct span *s);
/* Whatever case the letters have. */
bool span_is(struct span s, const char *text);

/*
 * Adds to `tries`, one for each element looked at, and finds nothing more when
 * there were `most`.
 */
bool select_matches(
    const GumboNode *node, struct span selector, size_t *tries, size_t most);
/* What CSS calls specificity. */
unsigned select_weight(struct span selector);

#endif
