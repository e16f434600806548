/* SPDX-License-Identifier: ISC */
#include "mail/transfer.h"

#include <string.h>

#include "mail/header.h"

/* An encoded word is at most 75: "=?utf-8?B?" + 60 + "?=" and room. */
#define WORD_BYTES 45

const unsigned char transfer_digits[256] = {
#define D(c, v) [c] = TRANSFER_DIGIT | (v)
#define D4(c, v)                                                               \
	D(c, v), D((c) + 1, (v) + 1), D((c) + 2, (v) + 2), D((c) + 3, (v) + 3)
	D4('A', 0), D4('E', 4), D4('I', 8), D4('M', 12), D4('Q', 16),
	D4('U', 20), D('Y', 24), D('Z', 25), D4('a', 26), D4('e', 30),
	D4('i', 34), D4('m', 38), D4('q', 42), D4('u', 46), D('y', 50),
	D('z', 51), D4('0', 52), D4('4', 56), D('8', 60), D('9', 61),
	D('+', 62), D('/', 63)
#undef D4
#undef D
};

void
transfer_base64(struct buf *out, struct str s)
{
	unsigned char *to = buf_reserve(out, s.n / 4 * 3 + 3);
	unsigned acc = 0, bits = 0;
	size_t i;
	unsigned v;

	for (i = 0; i < s.n && s.p[i] != '='; i++) {
		v = transfer_digits[(unsigned char)s.p[i]];
		if (v == 0)
			continue;
		acc = (acc << 6 | (v & 63)) & 0xffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (unsigned char)(acc >> bits);
			out->n++;
		}
	}
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte written as two hex digits at `s`, or -1. */
static int
hex_pair(struct str s)
{
	if (s.n < 2 || hex_value(s.p[0]) < 0 || hex_value(s.p[1]) < 0)
		return -1;
	return hex_value(s.p[0]) << 4 | hex_value(s.p[1]);
}

/* `space` stands for a space. */
static void
decode_q(struct buf *out, struct str s, char space)
{
	size_t i;
	int v;

	for (i = 0; i < s.n; i++) {
		v = s.p[i] != '='
			? -1
			: hex_pair((struct str){ s.p + i + 1, s.n - i - 1 });
		if (v >= 0) {
			buf_u8(out, (unsigned)v);
			i += 2;
		} else {
			buf_putc(out, s.p[i] == space ? ' ' : s.p[i]);
		}
	}
}

void
transfer_q(struct buf *out, struct str s)
{
	decode_q(out, s, '_');
}

void
transfer_qp(struct buf *out, struct str s)
{
	decode_q(out, s, ' ');
}

bool
transfer_percent(struct buf *out, struct str s)
{
	size_t i;
	int v;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] != '%') {
			buf_putc(out, s.p[i]);
			continue;
		}
		v = hex_pair((struct str){ s.p + i + 1, s.n - i - 1 });
		if (v < 0)
			return false;
		buf_u8(out, (unsigned)v);
		i += 2;
	}
	return true;
}

void
transfer_base64_lines(struct buf *out, struct str s)
{
	size_t lines = s.n / TRANSFER_LINE_BYTES + 1, n;
	char *line;

	(void)buf_reserve(
	    out, lines * (BASE64_LEN(TRANSFER_LINE_BYTES) + 2) + 1);
	while (s.n > 0) {
		n = s.n < TRANSFER_LINE_BYTES ? s.n : TRANSFER_LINE_BYTES;
		line = (char *)buf_reserve(out, BASE64_LEN(n) + 1);
		base64_encode(line, s.p, n);
		out->n += BASE64_LEN(n);
		buf_add(out, "\r\n", 2);
		s.p += n;
		s.n -= n;
	}
}

/* How many bytes of `s`, whole characters, at most `max`. */
static size_t
utf8_prefix(struct str s, size_t max)
{
	struct str rest = s;
	size_t n = 0;

	while (rest.n > 0) {
		(void)utf8_next(&rest);
		if ((size_t)(rest.p - s.p) > max)
			break;
		n = (size_t)(rest.p - s.p);
	}
	return n;
}

static void
encode_words(struct buf *out, struct str s, size_t column)
{
	char b64[BASE64_LEN(WORD_BYTES) + 1];
	size_t n, room;

	while (s.n > 0) {
		/* "=?utf-8?B??=" is 12; base64 makes 4 of 3 */
		room = column + 16 > 76 ? 0 : (76 - column - 12) / 4 * 3;
		n = utf8_prefix(s, room < WORD_BYTES ? room : WORD_BYTES);
		if (n == 0) {
			buf_puts(out, "\r\n ");
			column = 1;
			continue;
		}
		base64_encode(b64, s.p, n);
		buf_printf(out, "=?utf-8?B?%s?=", b64);
		s.p += n;
		s.n -= n;
		if (s.n > 0)
			buf_puts(out, "\r\n ");
		column = 1;
	}
}

/* May it stand as it is? */
static bool
is_plain(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] < 32 || s.p[i] > 126)
			return false;
		if (s.p[i] == '=' && i + 1 < s.n && s.p[i + 1] == '?')
			return false;
	}
	/* Outer and doubled spaces would not survive folding. */
	return s.n == 0 || (s.p[0] != ' ' && s.p[s.n - 1] != ' ');
}

/* Words of plain text, folded at single spaces. */
static bool
fold_plain(struct buf *out, struct str s, size_t column)
{
	size_t start = out->n, n, end;
	const char *space;

	while (s.n > 0) {
		/* a run of spaces stays with the word behind it */
		n = 0;
		while (n < s.n && s.p[n] == ' ')
			n++;
		space = memchr(s.p + n, ' ', s.n - n);
		end = space == NULL ? s.n : (size_t)(space - s.p);
		if (end > 900) {
			out->n = start;
			return false;
		}
		if (column + end > 76 && n > 0) {
			buf_puts(out, "\r\n");
			column = 0;
		}
		buf_add(out, s.p, end);
		column += end;
		s.p += end;
		s.n -= end;
	}
	return true;
}

static bool
is_atoms(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (strchr("()<>[]:;@\\,.\"", s.p[i]) != NULL)
			return false;
	}
	return true;
}

static void
quote(struct buf *out, struct str s)
{
	size_t i;

	buf_putc(out, '"');
	for (i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			buf_putc(out, '\\');
		buf_putc(out, s.p[i]);
	}
	buf_putc(out, '"');
}

void
transfer_words(struct buf *out, struct str s, bool phrase, size_t column)
{
	if (!is_plain(s))
		encode_words(out, s, column);
	else if (phrase && !is_atoms(s) && s.n <= 60)
		quote(out, s);
	else if (phrase && !is_atoms(s))
		encode_words(out, s, column);
	else if (!fold_plain(out, s, column))
		encode_words(out, s, column);
}

/* Where the next `c` from `from` on stands; the end when there is none. */
static size_t
next_of(struct str s, size_t from, char c)
{
	const char *p = from < s.n ? memchr(s.p + from, c, s.n - from) : NULL;

	return p != NULL ? (size_t)(p - s.p) : s.n;
}

void
transfer_crlf(struct buf *out, struct str s)
{
	size_t from = 0, cr = next_of(s, 0, '\r'), lf = next_of(s, 0, '\n');
	size_t end;

	(void)buf_reserve(out, s.n + s.n / 32 + 1);
	while (cr < s.n || lf < s.n) {
		end = cr < lf ? cr : lf;
		buf_add(out, s.p + from, end - from);
		buf_add(out, "\r\n", 2);
		from = end + (lf == cr + 1 && lf < s.n ? 2 : 1);
		if (cr < from)
			cr = next_of(s, from, '\r');
		if (lf < from)
			lf = next_of(s, from, '\n');
	}
	buf_add(out, s.p + from, s.n - from);
}

static size_t
quote_depth(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] == '>')
		n++;
	return n;
}

void
transfer_join(struct buf *out, struct str text)
{
	struct str line, next;
	size_t depth;
	bool joins = false;

	while (text.n > 0) {
		line = str_split(&text, '\n');
		if (line.n > 0 && line.p[line.n - 1] == '\r')
			line.n--;
		depth = quote_depth(line);
		next = line;
		if (joins) {
			next.p += depth;
			next.n -= depth;
			if (next.n > 0 && next.p[0] == ' ') {
				next.p++;
				next.n--;
			}
		}
		joins = line.n > depth && line.p[line.n - 1] == ' ' &&
			!str_eq(line, str_lit("-- ")) && next.n > 0 &&
			text.n > 0 && quote_depth(text) == depth;
		next.n -= joins;
		buf_add_str(out, next);
		if (!joins)
			buf_puts(out, "\r\n");
	}
}
