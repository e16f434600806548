/* SPDX-License-Identifier: ISC */
/*
 * finding_search.h - what the parts of finding_search() share: finding_search.c
 * goes through the text, finding_number.c and finding_token.c look closer.
 */
#ifndef MAIL_FINDING_SEARCH_H
#define MAIL_FINDING_SEARCH_H

#include "mail/finding.h"

struct search {
	const char *start, *end;
	finding_fn *fn;
	void *arg;
};

/* What a byte is worth, and two classes it may be in. */
enum {
	PLAIN = 0,
	DIGIT = 1,
	ANCHOR = 2, /* of a token */
	HIGH = 3, /* first byte of a character that is looked at */
	LOOK = 3, /* the mask of these */
	WORD = 4, /* of words and tokens */
	STOP = 8, /* ends the user's part of a URL */
};
extern const unsigned char finding_class[256];

/*
 * Each looks at what stands at `p`, tells what it is, and returns where to go
 * on, behind `p`: at the first digit of a run, and at an ANCHOR.
 */
const char *finding_look_number(const struct search *s, const char *p);
const char *finding_look_token(const struct search *s, const char *p);

/*
 * Tokens known by how they begin. `anchor`: which character of the prefix
 * finding_class[] has; it and the one before it are a pair of finding_skip.c.
 */
#define FINDING_JWT_REST 60
#define FINDING_AWS_REST 16
#define FINDING_OPENAI_REST 45 /* "sk-" alone begins words, too: */
#define FINDING_OPENAI_MARK "T3BlbkFJ" /* in all of these keys */
struct finding_token {
	const char *prefix;
	unsigned char n, anchor, rest; /* at least so many follow */
};
extern const struct finding_token finding_tokens[]; /* ends with n = 0 */

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool
is_alpha(char c)
{
	return is_upper(c) || (c >= 'a' && c <= 'z');
}

static inline bool
is_alnum(char c)
{
	return is_alpha(c) || is_digit(c);
}

static inline bool
is_word(char c)
{
	return (finding_class[(unsigned char)c] & WORD) != 0;
}

/* The byte `n` before `p`; a space when there is none. */
static inline char
before(const struct search *s, const char *p, ptrdiff_t n)
{
	return p - s->start >= n ? p[-n] : ' ';
}

static inline char
at_or_space(const struct search *s, const char *p)
{
	return p < s->end ? *p : ' ';
}

static inline void
tell(const struct search *s, enum finding f, const char *from, const char *to)
{
	s->fn(s->arg, f, (struct str){ from, (size_t)(to - from) });
}

#endif
