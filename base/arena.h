/* SPDX-License-Identifier: ISC */
/*
 * arena.h - memory of one piece of work, given back in one call.
 *
 * Starts as {0}. Bound what a peer can put in before putting it in.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena {
	struct arena_block *blocks;
};

/* Zeroed; aligned for any object; lives until arena_free(). */
void *arena_get(struct arena *a, size_t n);
/* count objects of `size` bytes; aborts when the product overflows. */
void *arena_array(struct arena *a, size_t count, size_t size);
/* A NUL-terminated copy; NULL stays NULL. */
char *arena_strdup(struct arena *a, const char *s);
char *arena_str(struct arena *a, struct str s);
void arena_free(struct arena *a);

#endif
