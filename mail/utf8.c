/* SPDX-License-Identifier: ISC */
/*
 * utf8.c - strict UTF-8 (RFC 3629): no surrogates, nothing overlong.
 */
#include "mail/header.h"

int32_t
utf8_next(struct str *s)
{
	const unsigned char *p = (const unsigned char *)s->p;
	static const uint32_t lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0];
	size_t n, i;

	n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
	s->p++;
	s->n--;
	if (n == 1)
		return (int32_t)c;
	if (n == 0 || c > 0xf4 || n - 1 > s->n)
		return -1;
	c &= 0x7fu >> n;
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return -1;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < lowest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return -1;
	s->p += n - 1;
	s->n -= n - 1;
	return (int32_t)c;
}

static bool
is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

bool
utf8_valid(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p, *end;
	struct str rest;

	if (!str_has_8bit(s)) /* also when `s` is nothing at all */
		return true;
	end = p + s.n;
	while (p < end) {
		/* Most characters; the others have more rules. */
		if (*p < 0x80) {
			p++;
		} else if (*p >= 0xc2 && *p <= 0xdf && end - p >= 2 &&
			   is_tail(p[1])) {
			p += 2;
		} else if (*p > 0xe0 && *p < 0xed && end - p >= 3 &&
			   is_tail(p[1]) && is_tail(p[2])) {
			p += 3;
		} else {
			rest =
			    (struct str){ (const char *)p, (size_t)(end - p) };
			if (utf8_next(&rest) < 0)
				return false;
			p = (const unsigned char *)rest.p;
		}
	}
	return true;
}

static bool
is_control(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 ||
	       c == 0x2029;
}

void
utf8_clean(struct buf *out, struct str s)
{
	const char *at;
	int32_t c;

	while (s.n > 0) {
		at = s.p;
		c = utf8_next(&s);
		if (c == '\t')
			buf_putc(out, ' ');
		else if (is_control(c))
			buf_puts(out, "\xef\xbf\xbd");
		else
			buf_add(out, at, (size_t)(s.p - at));
	}
}
