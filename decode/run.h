/* SPDX-License-Identifier: ISC */
/*
 * run.h - a run of text from a page, white space made one
 */
#ifndef DECODE_RUN_H
#define DECODE_RUN_H

#include <stdbool.h>
#include <stddef.h>

#define TEXT_MAX (96 * 1024) /* of what a reader sees */

struct run {
	char p[TEXT_MAX];
	size_t n, cap;
	bool gap; /* white space is owed */
};

bool run_is_space(unsigned char c);
/* Empty, with room for `cap` bytes. */
void run_clear(struct run *r, size_t cap);
/* White space is owed; none at the beginning. */
void run_gap(struct run *r);
/* What does not fit is left out. */
void run_add(struct run *r, const char *s);
/* Is there more than what fills a preview line: joiners, odd spaces? */
bool run_says(const struct run *r);

#endif
