/* SPDX-License-Identifier: ISC */
/*
 * xalloc.h - memory for our own small objects, and assertions.
 *
 * These never return NULL: running out of memory aborts. Whatever a peer
 * sizes must be bounded before it is allocated. Release with free().
 */
#ifndef BASE_XALLOC_H
#define BASE_XALLOC_H

#include <stddef.h>

void *xmalloc(size_t n);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t n);
/* Aborts when count * size does not fit in a size_t. */
void *xreallocarray(void *p, size_t count, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
void *xmemdup(const void *p, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A bug in this program: log where, abort. */
#define BUG_ON(cond)                                                           \
	do {                                                                   \
		if (__builtin_expect(!!(cond), 0))                             \
			xalloc_bug(__FILE__, __LINE__, #cond);                 \
	} while (0)

_Noreturn void xalloc_bug(const char *file, int line, const char *what);

#endif
