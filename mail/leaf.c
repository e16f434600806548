/* SPDX-License-Identifier: ISC */
#include "mail/leaf.h"

#include <stdint.h>
#include <string.h>

#include "mail/header.h"
#include "mail/transfer.h"

#define UU_CHAR(c) ((c) >= ' ' && (c) <= '`')

static bool
is_space(char c)
{
	return c == '\r' || c == '\n' || c == ' ' || c == '\t';
}

/* Without CR, LF, and white space at the end. */
static struct str
content(struct str line)
{
	while (line.n > 0 && is_space(line.p[line.n - 1]))
		line.n--;
	return line;
}

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') ||
	       (c >= 'a' && c <= 'f');
}

static bool
is_base64(char c)
{
	return transfer_digits[(unsigned char)c] != 0;
}

/* How many digits of base64 it begins with. */
static size_t
base64_digits(struct str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	const unsigned char *digit = transfer_digits;
	size_t i = 0;

	while (
	    s.n - i >= 4 && (digit[p[i]] & digit[p[i + 1]] & digit[p[i + 2]] &
				digit[p[i + 3]] & TRANSFER_DIGIT) != 0)
		i += 4;
	while (i < s.n && digit[p[i]] != 0)
		i++;
	return i;
}

static bool
base64_line(struct leaf *l, struct str s)
{
	size_t i = l->padded ? 0 : base64_digits(s);

	l->digits = (unsigned char)((l->digits + i) % 4);
	for (; i < s.n; i++) {
		if (s.p[i] == ' ' || s.p[i] == '\t')
			continue;
		if (s.p[i] == '=') {
			/* after two digits or three of a group of four */
			if (l->digits < 2)
				return false;
			l->padded = true;
		} else if (l->padded || !is_base64(s.p[i])) {
			return false;
		}
		l->digits = (l->digits + 1) % 4;
	}
	return true;
}

/*
 * White space behind a soft break is for some decoders none, and for others
 * makes the break a "=": one text more than is looked at.
 */
static bool
qp_line(struct str s, struct str line)
{
	const char *p = s.p, *end = s.p + s.n;

	if (s.n > 0 && end[-1] == '=' && line.n > s.n &&
	    (*end == ' ' || *end == '\t'))
		return false;

	while ((p = memchr(p, '=', (size_t)(end - p))) != NULL) {
		p++;
		if (p == end)
			return true; /* a soft line break */
		if (end - p < 2 || !is_hex(p[0]) || !is_hex(p[1]))
			return false;
		p += 2;
	}
	return true;
}

/* "begin 644 name" */
static bool
begins_uu(struct str s)
{
	size_t i = 6;

	if (!str_starts(s, str_lit("begin ")))
		return false;
	while (i < s.n && s.p[i] >= '0' && s.p[i] <= '7')
		i++;
	return i >= 9 && i <= 10 && i + 1 < s.n && s.p[i] == ' ';
}

/* A line of uuencode: a count, and as many characters as that takes. */
static bool
is_uu(struct str s)
{
	size_t i, bytes, least, most;

	if (s.n == 0 || !UU_CHAR(s.p[0]))
		return false;
	bytes = (size_t)(s.p[0] - ' ') & 63;
	least = (bytes * 8 + 5) / 6;
	most = (bytes + 2) / 3 * 4 + 2;
	/* spaces at the end may be gone: they are zero bits */
	if (bytes == 0 || s.n - 1 > most || (s.n - 1) * 2 < least)
		return false;
	for (i = 1; i < s.n; i++) {
		if (!UU_CHAR(s.p[i]))
			return false;
	}
	return true;
}

static bool
hides_file(struct leaf *l, struct str s)
{
	char first = s.n > 0 ? s.p[0] : '\0';
	bool hides =
	    (l->begun && is_uu(s)) ||
	    (first == '=' && str_starts(s, str_lit("=ybegin line="))) ||
	    (first == 'b' && str_starts(s, str_lit("begin-base64 ")));

	l->begun = first == 'b' && begins_uu(s);
	return hides;
}

static bool
is_text(const struct mime_part *part)
{
	return strncmp(part->type, "text/", 5) == 0;
}

static bool
eight_bit_fits(const struct mime_part *part, struct str s, const char **why)
{
	if (part->encoding != MIME_8BIT && part->encoding != MIME_BINARY) {
		*why = "A part has bytes above 127 and its "
		       "Content-Transfer-Encoding is not 8bit.";
		return false;
	}
	if (is_text(part) && (part->charset[0] == '\0' ||
				 strcmp(part->charset, "us-ascii") == 0)) {
		*why = "A text has bytes above 127 and names no charset for "
		       "them.";
		return false;
	}
	if (is_text(part) && strcmp(part->charset, "utf-8") == 0 &&
	    !utf8_valid(s)) {
		*why = "A text is not UTF-8, which its charset says it is.";
		return false;
	}
	return true;
}

bool
leaf_line(struct leaf *l, const struct mime_part *part, struct str line,
    const char **why)
{
	struct str s = content(line);

	if (str_has_8bit(s) && !eight_bit_fits(part, s, why))
		return false;
	if (part->encoding == MIME_BASE64 && !base64_line(l, s)) {
		*why = "A part is not valid base64.";
		return false;
	}
	if (part->encoding == MIME_QP && !qp_line(s, line)) {
		*why = "A part is not valid quoted-printable.";
		return false;
	}
	if (is_text(part) && part->encoding != MIME_BASE64 &&
	    hides_file(l, s)) {
		*why = "A text has a uuencoded or yEnc file in it; attach it.";
		return false;
	}
	return true;
}

bool
leaf_end(const struct leaf *l, const struct mime_part *part, const char **why)
{
	if (part->encoding != MIME_BASE64 || l->digits == 0)
		return true;
	*why = "A part is base64 that ends too early.";
	return false;
}
