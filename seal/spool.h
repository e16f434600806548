/* SPDX-License-Identifier: ISC */
/*
 * spool.h - bytes of one upload that are too many for memory: a file without
 * a name, under a key that exists only here (XChaCha20). Who reads the disk
 * reads nothing; who stops the program leaves nothing.
 */
#ifndef SEAL_SPOOL_H
#define SEAL_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct spool;

/* In the folder `dir`. NULL and `err` when there can be none. */
struct spool *spool_new(const char *dir, struct err *err);
/* Append. False and `err`: nothing of it counts, as when the disk is full. */
MUST_CHECK bool spool_put(
    struct spool *s, const void *p, size_t n, struct err *err);
uint64_t spool_size(const struct spool *s);
/* `n` bytes from `at`, all of which were put. */
MUST_CHECK bool spool_get(
    struct spool *s, uint64_t at, void *p, size_t n, struct err *err);
/* NULL is fine. */
void spool_free(struct spool *s);

#endif
