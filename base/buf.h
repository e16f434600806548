/* SPDX-License-Identifier: ISC */
/*
 * buf.h - a growable run of bytes.
 *
 * Starts as {0}. Memory is kept by buf_clear() and given back by buf_free().
 * Bound what a peer can append before appending.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf {
	unsigned char *p;
	size_t n;
	size_t cap;
};

void buf_free(struct buf *b);
void buf_clear(struct buf *b);
/* Overwrite what was there, then clear: for bytes that were secret. */
void buf_wipe(struct buf *b);
/* Room for `n` more bytes at the returned place; they do not count yet. */
unsigned char *buf_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Remove `n` bytes from the front. */
void buf_drain(struct buf *b, size_t n);
/* NUL-terminated text of the buffer; valid until the next change. */
const char *buf_cstr(struct buf *b);

/* Big-endian integers, and bytes behind their u32 length. */
void buf_u8(struct buf *b, unsigned v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_lp(struct buf *b, const void *p, size_t n);

static inline void
buf_putc(struct buf *b, char c)
{
	if (b->n == b->cap)
		(void)buf_reserve(b, 1);
	b->p[b->n++] = (unsigned char)c;
}

static inline struct str
buf_str(const struct buf *b)
{
	return (struct str){ (const char *)b->p, b->n };
}

#endif
