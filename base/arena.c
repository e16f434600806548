/* SPDX-License-Identifier: ISC */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define FIRST 960 /* with its head still small for malloc() */
#define BLOCK 8192
#define ALIGN alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	alignas(max_align_t) unsigned char data[];
};

void *
arena_get(struct arena *a, size_t n)
{
	struct arena_block *b = a->blocks;
	size_t size;
	void *p;

	BUG_ON(n > SIZE_MAX / 2);
	n = (n + ALIGN - 1) / ALIGN * ALIGN;
	if (b == NULL || b->size - b->used < n) {
		size = b == NULL ? FIRST : BLOCK;
		if (size < n)
			size = n;
		b = xcalloc(1, sizeof(*b) + size);
		b->size = size;
		b->next = a->blocks;
		a->blocks = b;
	}
	p = b->data + b->used;
	b->used += n;
	return p;
}

void *
arena_array(struct arena *a, size_t count, size_t size)
{
	BUG_ON(size != 0 && count > SIZE_MAX / 2 / size);
	return arena_get(a, count * size);
}

char *
arena_str(struct arena *a, struct str s)
{
	char *p = arena_get(a, s.n + 1);

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	return p;
}

char *
arena_strdup(struct arena *a, const char *s)
{
	return s != NULL ? arena_str(a, str_of(s)) : NULL;
}

void
arena_free(struct arena *a)
{
	struct arena_block *b, *next;

	for (b = a->blocks; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	a->blocks = NULL;
}
