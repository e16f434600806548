/* SPDX-License-Identifier: ISC */
/*
 * str.h - views of bytes owned by somebody else. Not NUL-terminated.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/codec.h"

struct str {
	const char *p;
	size_t n;
};

/* A view of a string literal. */
#define str_lit(s) ((struct str){ "" s, sizeof(s) - 1 })

static inline struct str
str_of(const char *s)
{
	return (struct str){ s, s != NULL ? strlen(s) : 0 };
}

bool str_eq(struct str a, struct str b);
/* Equal when A-Z count as a-z; other bytes must be the same. */
bool str_ieq(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_istarts(struct str s, struct str prefix);
/* Without leading and trailing space and tab. */
struct str str_trim(struct str s);
/* Cut `s` at the first `sep`: returns the part before, `s` keeps the rest. */
struct str str_split(struct str *s, char sep);
/* Cut off what stands behind its u32 length; false when that is not there. */
bool str_lp(struct str *s, struct str *field);
/* A NUL-terminated copy; caller frees. */
char *str_dup(struct str s);
/* Lower A-Z in place. */
void str_lower(char *p, size_t n);
/* Some byte above 127. */
bool str_has_8bit(struct str s);
/* All of `s` as an unsigned decimal at most `max`; no sign, no space. */
bool str_to_u64(struct str s, unsigned long long max, unsigned long long *out);
/*
 * May an operator be called so? 1 to 64 letters and digits of ASCII, or after
 * the first, dot, dash, underscore and @: two names that look alike are one.
 * The database says the same.
 */
bool str_is_login(struct str s);
/* The rule in words, for who broke it. */
#define STR_LOGIN_RULE                                                         \
	"A name has 1 to 64 of a-z, 0-9, dot, dash, underscore and @, "        \
	"and begins with a letter or digit."

#endif
