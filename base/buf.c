/* SPDX-License-Identifier: ISC */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

void
buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}

void
buf_clear(struct buf *b)
{
	b->n = 0;
}

void
buf_wipe(struct buf *b)
{
	if (b->p != NULL)
		explicit_bzero(b->p, b->cap);
	b->n = 0;
}

static void
grow(struct buf *b, size_t n)
{
	size_t cap = b->cap != 0 ? b->cap : 64;

	BUG_ON(n > SIZE_MAX / 4 || b->n > SIZE_MAX / 4);
	while (cap < b->n + n)
		cap *= cap < 1024 ? 4 : 2; /* realloc() costs more than room */
	b->p = xrealloc(b->p, cap);
	b->cap = cap;
}

unsigned char *
buf_reserve(struct buf *b, size_t n)
{
	if (b->p == NULL || n > b->cap - b->n)
		grow(b, n);
	return b->p + b->n;
}

void
buf_add(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	memcpy(buf_reserve(b, n), p, n);
	b->n += n;
}

void
buf_add_str(struct buf *b, struct str s)
{
	buf_add(b, s.p, s.n);
}

void
buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
	char *to = (char *)buf_reserve(b, 32);
	size_t room = b->cap - b->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(to, room, fmt, ap);
	va_end(ap);
	BUG_ON(n < 0);
	if ((size_t)n >= room) {
		to = (char *)buf_reserve(b, (size_t)n + 1);
		va_start(ap, fmt);
		(void)vsnprintf(to, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->n += (size_t)n;
}

void
buf_drain(struct buf *b, size_t n)
{
	BUG_ON(n > b->n);
	if (n == 0)
		return;
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
}

const char *
buf_cstr(struct buf *b)
{
	*buf_reserve(b, 1) = '\0';
	return (const char *)b->p;
}

static void
add_be(struct buf *b, uint64_t v, unsigned bytes)
{
	unsigned char out[8];
	unsigned i;

	for (i = 0; i < bytes; i++)
		out[i] = (unsigned char)(v >> 8 * (bytes - 1 - i));
	buf_add(b, out, bytes);
}

void
buf_u8(struct buf *b, unsigned v)
{
	add_be(b, v & 0xff, 1);
}

void
buf_u16(struct buf *b, uint16_t v)
{
	add_be(b, v, 2);
}

void
buf_u32(struct buf *b, uint32_t v)
{
	add_be(b, v, 4);
}

void
buf_u64(struct buf *b, uint64_t v)
{
	add_be(b, v, 8);
}

void
buf_lp(struct buf *b, const void *p, size_t n)
{
	BUG_ON(n > UINT32_MAX);
	buf_u32(b, (uint32_t)n);
	buf_add(b, p, n);
}
