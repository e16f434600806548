/* SPDX-License-Identifier: ISC */
/*
 * secret.h - bytes that must not be printed or left behind.
 *
 * KV() of log.h prints a secret as [redacted]; it cannot print its bytes.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SECRET_MAX 64

struct secret {
	size_t n;
	unsigned char b[SECRET_MAX];
};

/* Copy up to SECRET_MAX bytes; false, and empty, when there are more. */
MUST_CHECK bool secret_set(struct secret *s, const void *p, size_t n);
/* Overwrite in a way the compiler may not leave out. */
void secret_wipe(struct secret *s);
/* Equal, in a time that does not tell where they differ. */
bool secret_eq(const struct secret *a, const struct secret *b);
/* `n` bytes from the kernel's generator; aborts without one. */
void secret_random(struct secret *s, size_t n);
/*
 * Read a key file: `n` raw bytes, or with n = 0 a line of text without its
 * line end. Refuses a file that others may read.
 */
MUST_CHECK bool secret_load(
    struct secret *s, const char *path, size_t n, struct err *err);

#endif
