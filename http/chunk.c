/* SPDX-License-Identifier: ISC */
/* chunk.c - RFC 9112 section 7.1, without trailers. */
#include "http/chunk.h"

enum {
	CH_SIZE,
	CH_EXTENSION,
	CH_SIZE_LF,
	CH_DATA,
	CH_DATA_CR,
	CH_DATA_LF,
	CH_LAST_CR,
	CH_LAST_LF,
	CH_END,
	CH_BAD,
};

void
http_chunk_init(struct http_chunk *c)
{
	*c = (struct http_chunk){ .state = CH_SIZE };
}

static int
hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int
after_size(struct http_chunk *c, unsigned char ch)
{
	if (c->digits == 0)
		return CH_BAD;
	if (ch == '\r')
		return CH_SIZE_LF;
	if (ch == ';') {
		c->extension++;
		return CH_EXTENSION;
	}
	return CH_BAD;
}

static int
in_size(struct http_chunk *c, unsigned char ch)
{
	int v = hex_value(ch);

	if (v < 0)
		return after_size(c, ch);
	if (++c->digits > HTTP_CHUNK_SIZE_DIGITS)
		return CH_BAD;
	c->left = c->left * 16 + (unsigned)v;
	return CH_SIZE;
}

static int
in_extension(struct http_chunk *c, unsigned char ch)
{
	if (ch == '\r')
		return CH_SIZE_LF;
	if (ch < 0x20 || ch >= 0x7f)
		return CH_BAD;
	return ++c->extension > HTTP_CHUNK_EXTENSION_MAX ? CH_BAD
							 : CH_EXTENSION;
}

static int
framing(struct http_chunk *c, unsigned char ch)
{
	switch (c->state) {
	case CH_SIZE:
		return in_size(c, ch);
	case CH_EXTENSION:
		return in_extension(c, ch);
	case CH_SIZE_LF:
		if (ch != '\n')
			return CH_BAD;
		return c->left == 0 ? CH_LAST_CR : CH_DATA;
	case CH_DATA_CR:
		return ch == '\r' ? CH_DATA_LF : CH_BAD;
	case CH_DATA_LF:
		c->digits = 0;
		return ch == '\n' ? CH_SIZE : CH_BAD;
	case CH_LAST_CR:
		return ch == '\r' ? CH_LAST_LF : CH_BAD;
	case CH_LAST_LF:
		return ch == '\n' ? CH_END : CH_BAD;
	}
	return CH_BAD;
}

enum http_chunk_result
http_chunk_feed(struct http_chunk *c, const char *p, size_t n, size_t *used)
{
	size_t i = 0, run;

	while (i < n && c->state != CH_END && c->state != CH_BAD) {
		if (c->state != CH_DATA) {
			c->state = framing(c, (unsigned char)p[i++]);
			continue;
		}
		run = n - i < c->left ? n - i : (size_t)c->left;
		i += run;
		c->left -= run;
		c->total += run;
		if (c->left == 0)
			c->state = CH_DATA_CR;
	}
	*used = i;
	if (c->state == CH_BAD)
		return HTTP_CHUNK_BAD;
	return c->state == CH_END ? HTTP_CHUNK_END : HTTP_CHUNK_MORE;
}
