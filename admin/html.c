/* SPDX-License-Identifier: ISC */
/*
 * html.c - escaping, in one place
 *
 * Everything is read as UTF-8, one code point at a time. What is not UTF-8 is
 * shown byte for byte as \xNN, so that two different inputs never look alike
 * because of a replacement character.
 */
#include "admin/html.h"

#include <string.h>

#include "base/buf.h"

struct range {
	uint32_t first, last;
};

/* Sorted. Unicode 15 default ignorables, bidi controls and odd spaces. */
static const struct range odd[] = {
	{ 0x0000, 0x0008 },
	{ 0x000b, 0x001f },
	{ 0x007f, 0x009f },
	{ 0x00ad, 0x00ad },
	{ 0x034f, 0x034f },
	{ 0x061c, 0x061c },
	{ 0x115f, 0x1160 },
	{ 0x17b4, 0x17b5 },
	{ 0x180b, 0x180f },
	{ 0x200b, 0x200f },
	{ 0x2028, 0x202e },
	{ 0x2060, 0x206f },
	{ 0x2800, 0x2800 },
	{ 0x3164, 0x3164 },
	{ 0xfe00, 0xfe0e }, /* U+FE0F only makes an emoji of a sign */
	{ 0xfeff, 0xfeff },
	{ 0xffa0, 0xffa0 },
	{ 0xfff0, 0xfffc },
	{ 0x1bca0, 0x1bca3 },
	{ 0x1d173, 0x1d17a },
	{ 0xe0000, 0xe0fff },
};

struct html_piece
html_piece_mem(enum html_kind kind, const char *p, size_t n)
{
	return (struct html_piece){ .kind = kind, .p = p, .n = p ? n : 0 };
}

struct html_piece
html_piece_str(enum html_kind kind, const char *s)
{
	return html_piece_mem(kind, s, s ? strlen(s) : 0);
}

int
html_is_odd(uint32_t code_point)
{
	size_t i;

	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (code_point < odd[i].first)
			return 0;
		if (code_point <= odd[i].last)
			return 1;
	}
	return 0;
}

static size_t
sequence_length(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef)
		return 3;
	if (c >= 0xf0 && c <= 0xf4)
		return 4;
	return 0;
}

/* Length of the character at `s`, 0 if it is not UTF-8 (RFC 3629). */
static size_t
decode(const unsigned char *s, size_t n, uint32_t *code_point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t i, len = sequence_length(s[0]);
	uint32_t v;

	if (len == 0 || len > n)
		return 0;
	v = len == 1 ? s[0] : s[0] & (0x7fu >> len);
	for (i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (s[i] & 0x3f);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 0;
	*code_point = v;
	return len;
}

static const char *
entity(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

static void
put_odd(struct buf *out, enum html_kind kind, uint32_t code_point)
{
	if (kind == HTML_ATTR)
		buf_printf(out, "[U+%04X]", code_point);
	else
		buf_printf(
		    out, "<span class=\"odd\">U+%04X</span>", code_point);
}

static void
put_broken(struct buf *out, enum html_kind kind, unsigned char c)
{
	if (kind == HTML_ATTR)
		buf_printf(out, "[\\x%02X]", c);
	else
		buf_printf(out, "<span class=\"odd\">\\x%02X</span>", c);
}

static size_t
put_char(struct buf *out, enum html_kind kind, const unsigned char *s, size_t n)
{
	const char *name = entity(s[0]);
	uint32_t code_point;
	size_t len;

	if (name != NULL) {
		buf_add(out, name, strlen(name));
		return 1;
	}
	if (kind == HTML_LINES && s[0] == '\r' && n > 1 && s[1] == '\n')
		return 1;
	len = decode(s, n, &code_point);
	if (len == 0) {
		put_broken(out, kind, s[0]);
		return 1;
	}
	if ((code_point == '\n' || code_point == '\t')
		? kind != HTML_LINES
		: html_is_odd(code_point))
		put_odd(out, kind, code_point);
	else
		buf_add(out, s, len);
	return len;
}

static void
put_text(struct buf *out, enum html_kind kind, const char *p, size_t n)
{
	const unsigned char *s = (const unsigned char *)p;
	size_t plain = 0;

	while (n > 0) {
		while (plain < n && s[plain] >= 0x20 && s[plain] < 0x7f &&
		       entity(s[plain]) == NULL)
			plain++;
		buf_add(out, s, plain);
		s += plain;
		n -= plain;
		plain = 0;
		if (n > 0) {
			size_t used = put_char(out, kind, s, n);

			s += used;
			n -= used;
		}
	}
}

static int
is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
	       c == '~';
}

static void
put_path(struct buf *out, const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (is_unreserved(p[i]))
			buf_add(out, p + i, 1);
		else
			buf_printf(out, "%%%02X", (unsigned char)p[i]);
	}
}

void
html_put(struct buf *out, const struct html_piece *pieces, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		const struct html_piece *piece = &pieces[i];

		switch (piece->kind) {
		case HTML_LIT:
			buf_add(out, piece->p, piece->n);
			break;
		case HTML_TEXT:
		case HTML_LINES:
		case HTML_ATTR:
			put_text(out, piece->kind, piece->p, piece->n);
			break;
		case HTML_PATH:
			put_path(out, piece->p, piece->n);
			break;
		case HTML_NUM:
			buf_printf(out, "%lld", (long long)piece->v);
			break;
		}
	}
}
