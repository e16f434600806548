/* SPDX-License-Identifier: ISC */
/* urlenc.c - see urlenc.h. */
#include "http/urlenc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static int
hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Length of the well-formed UTF-8 sequence at `s`, 0 if there is none. */
static size_t
utf8_length(const unsigned char *s, size_t n)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80   ? 1
		     : s[0] < 0xc2 ? 0
		     : s[0] < 0xe0 ? 2
		     : s[0] < 0xf0 ? 3
		     : s[0] < 0xf5 ? 4
				   : 0;
	uint32_t v;
	size_t i;

	if (len < 2)
		return len;
	if (len > n)
		return 0;
	v = s[0] & (0xffu >> (len + 1));
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (s[i] & 0x3f);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 0;
	return len;
}

static bool
is_text(const char *p, size_t n)
{
	const unsigned char *s = (const unsigned char *)p;
	size_t i, len;

	for (i = 0; i < n; i += len) {
		len = utf8_length(s + i, n - i);
		if (len == 0 || s[i] == '\0')
			return false;
	}
	return true;
}

long
http_url_decode(char *out, const char *p, size_t n, bool plus)
{
	size_t i, w = 0;
	int hi, lo;

	for (i = 0; i < n; i++) {
		if (p[i] == '+' && plus) {
			out[w++] = ' ';
		} else if (p[i] != '%') {
			out[w++] = p[i];
		} else {
			if (n - i < 3)
				return -1;
			hi = hex_value((unsigned char)p[i + 1]);
			lo = hex_value((unsigned char)p[i + 2]);
			if (hi < 0 || lo < 0)
				return -1;
			out[w++] = (char)(hi << 4 | lo);
			i += 2;
		}
	}
	out[w] = '\0';
	return is_text(out, w) ? (long)w : -1;
}

/* Decode one "name=value" into `out`; the bytes written, -1 if malformed. */
static long
parse_pair(struct http_pairs *pairs, char *out, const char *p, size_t n)
{
	const char *eq = memchr(p, '=', n);
	size_t name_n = eq != NULL ? (size_t)(eq - p) : n;
	long a, b;

	if (pairs->n == HTTP_PAIRS_MAX)
		return -1;
	a = http_url_decode(out, p, name_n, true);
	if (a < 0)
		return -1;
	b = eq == NULL
		? http_url_decode(out + a + 1, p, 0, true)
		: http_url_decode(out + a + 1, eq + 1, n - name_n - 1, true);
	if (b < 0)
		return -1;
	pairs->item[pairs->n].name = out;
	pairs->item[pairs->n++].value = out + a + 1;
	return a + b + 2;
}

bool
http_pairs_parse(struct http_pairs *pairs, const char *p, size_t n)
{
	const char *end = p + n, *amp;
	size_t len;
	long used;
	char *w;

	/* A pair of k bytes needs at most k + 2, and k + 1 bytes are read. */
	pairs->text = w = xmalloc(2 * n + 4);
	pairs->n = 0;
	while (p < end) {
		amp = memchr(p, '&', (size_t)(end - p));
		len = amp != NULL ? (size_t)(amp - p) : (size_t)(end - p);
		if (len > 0) {
			used = parse_pair(pairs, w, p, len);
			if (used < 0) {
				http_pairs_free(pairs);
				return false;
			}
			w += used;
		}
		p += len + (amp != NULL);
	}
	return true;
}

void
http_pairs_free(struct http_pairs *pairs)
{
	free(pairs->text);
	pairs->text = NULL;
	pairs->n = 0;
}

const char *
http_pairs_get(const struct http_pairs *pairs, const char *name, size_t index)
{
	size_t i;

	for (i = 0; i < pairs->n; i++)
		if (strcmp(pairs->item[i].name, name) == 0 && index-- == 0)
			return pairs->item[i].value;
	return NULL;
}
