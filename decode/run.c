/* SPDX-License-Identifier: ISC */
#include "decode/run.h"

#include <string.h>

bool
run_is_space(unsigned char c)
{
	return c <= ' ' || c == 0x7f;
}

void
run_gap(struct run *r)
{
	r->gap = r->n > 0;
}

void
run_add(struct run *r, const char *s)
{
	for (; *s != '\0'; s++) {
		if (run_is_space((unsigned char)*s)) {
			run_gap(r);
			continue;
		}
		if (r->n + 2 > r->cap)
			return;
		if (r->gap)
			r->p[r->n++] = ' ';
		r->gap = false;
		r->p[r->n++] = *s;
	}
}

bool
run_says(const struct run *r)
{
	static const char *const blanks[] = { " ", "\xc2\xa0", "\xc2\xad",
		"\xcd\x8f", "\xe2\x80\x8b", "\xe2\x80\x8c", "\xe2\x80\x8d",
		"\xe2\x80\x87", "\xe2\x80\xaf", "\xef\xbb\xbf" };
	size_t i = 0, j, len;

	while (i < r->n) {
		for (j = 0; j < sizeof(blanks) / sizeof(blanks[0]); j++) {
			len = strlen(blanks[j]);
			if (r->n - i >= len &&
			    memcmp(r->p + i, blanks[j], len) == 0)
				break;
		}
		if (j == sizeof(blanks) / sizeof(blanks[0]))
			return true;
		i += len;
	}
	return false;
}

void
run_clear(struct run *r, size_t cap)
{
	r->n = 0;
	r->cap = cap;
	r->gap = false;
}
