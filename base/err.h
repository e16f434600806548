/* SPDX-License-Identifier: ISC */
/*
 * err.h - why a start-up or configuration step failed, in words for a person.
 *
 * Not for expected outcomes: those are an enum per question.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

struct err {
	int code; /* 0 = none; an errno or a value the function documents */
	char text[256];
};

/* Fill `err` (may be NULL). The text is cut to fit. */
void err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
