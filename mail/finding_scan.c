/* SPDX-License-Identifier: ISC */
/*
 * finding_scan.c - the quick search of a message whose bytes pass by.
 *
 * Text is decoded into one small buffer and searched window by window; a
 * window keeps the last words of the one before, so that nothing is missed
 * where they meet. Whatever would cost more (HTML, archives, other charsets)
 * is left for the opening, and `partial` says so.
 */
#include "mail/finding.h"

#include <string.h>
#include <strings.h>

#include "mail/structure.h"
#include "mail/transfer.h"

#define WINDOW (16 * 1024)
#define FIRST_ROOM 4096
#define OVERLAP 640 /* longer than anything that is looked for */

void
finding_scan_free(struct finding_scan *s)
{
	buf_free(&s->text);
}

/* `word` in any case, found by its character `c`, which is at `at`. */
static bool
has_word(struct str text, struct str word, size_t at, char c)
{
	const char *p = text.p, *end = text.p + text.n;

	for (; (p = memchr(p, c, (size_t)(end - p))) != NULL; p++) {
		if ((size_t)(p - text.p) >= at &&
		    str_istarts(
			(struct str){ p - at, (size_t)(end - p) + at }, word))
			return true;
	}
	return false;
}

/*
 * A scheme and "//", or what programs make a link of; in HTML any target.
 * Colons and dots are rarer than letters.
 */
static bool
has_link(struct str text, bool html)
{
	return has_word(text, str_lit("://"), 0, ':') ||
	       has_word(text, str_lit("mailto:"), 6, ':') ||
	       has_word(text, str_lit("www."), 3, '.') ||
	       (html && (has_word(text, str_lit("href"), 3, 'f') ||
			    has_word(text, str_lit("href"), 3, 'F')));
}

static void
search(struct finding_scan *s, struct str text)
{
	finding_search(text, finding_note, &s->marks);
	s->links = s->links || has_link(text, s->html);
}

/* The window is full: search it, keep its last words. */
static void
search_window(struct finding_scan *s)
{
	struct str text = buf_str(&s->text);
	size_t keep = text.n > OVERLAP ? OVERLAP : 0;

	search(s, text);
	while (keep > 0 && strchr(" \r\n", text.p[text.n - keep]) == NULL)
		keep--;
	buf_drain(&s->text, text.n - keep);
}

static bool
is_readable(const char *charset)
{
	static const char *const known[] = { "", "utf-8", "us-ascii",
		"iso-8859-1", "latin1", "windows-1252" };
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(charset, known[i]) == 0)
			return true;
	return false;
}

static void
unread(struct finding_scan *s)
{
	finding_mark(&s->marks, FINDING_TEXT_UNREAD);
	s->partial = true;
	s->links = true;
}

/* Text is searched; files only by what they say they are. */
static bool
scan_begin(void *arg, const struct mime_part *p)
{
	struct finding_scan *s = arg;

	if (strncmp(p->type, "text/", 5) != 0)
		return false;
	if (!is_readable(p->charset) || s->searched >= FINDING_SCAN_MAX) {
		unread(s);
		return false;
	}
	s->encoding = p->encoding;
	s->html = strcmp(p->type, "text/html") == 0;
	s->line_n = 0;
	buf_clear(&s->text);
	(void)buf_reserve(&s->text, FIRST_ROOM);
	return true;
}

/* ---- transfer encodings, piece by piece */

/* As long as groups of four digits follow each other; how many bytes. */
static size_t
add_groups(unsigned char **to, const unsigned char *p, size_t n)
{
	const unsigned char *digit = transfer_digits;
	unsigned a, b, c, d;
	size_t i;

	for (i = 0; n - i >= 4; i += 4) {
		a = digit[p[i]];
		b = digit[p[i + 1]];
		c = digit[p[i + 2]];
		d = digit[p[i + 3]];
		if ((a & b & c & d & TRANSFER_DIGIT) == 0)
			break;
		*(*to)++ = (unsigned char)(a << 2 | (b >> 4 & 3));
		*(*to)++ = (unsigned char)(b << 4 | (c >> 2 & 15));
		*(*to)++ = (unsigned char)(c << 6 | (d & 63));
	}
	return i;
}

static void
add_base64(struct finding_scan *s, const unsigned char *p, size_t n)
{
	unsigned char *to = buf_reserve(&s->text, n / 4 * 3 + 3), *at = to;
	unsigned acc = 0, d;
	size_t i, have = s->line_n;

	for (i = 0; i < have; i++)
		acc = acc << 6 | (unsigned)s->line[i];
	for (i = have == 0 ? add_groups(&at, p, n) : 0; i < n; i++) {
		d = transfer_digits[p[i]];
		if (d == 0)
			continue;
		acc = acc << 6 | (d & 63);
		if (++have < 4)
			continue;
		*at++ = (unsigned char)(acc >> 16);
		*at++ = (unsigned char)(acc >> 8);
		*at++ = (unsigned char)acc;
		have = 0;
		acc = 0;
	}
	for (i = 0; i < have; i++)
		s->line[i] = (char)(acc >> 6 * (have - 1 - i) & 63);
	s->line_n = have;
	s->text.n += (size_t)(at - to);
}

/* The last digits of a part are one or two bytes. */
static void
end_base64(struct finding_scan *s)
{
	if (s->line_n >= 2)
		buf_u8(&s->text,
		    ((unsigned)s->line[0] << 2 | (unsigned)s->line[1] >> 4) &
			0xff);
	if (s->line_n >= 3)
		buf_u8(&s->text,
		    ((unsigned)s->line[1] << 4 | (unsigned)s->line[2] >> 2) &
			0xff);
}

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line, or its end: pieces of structure.h are one or the other. */
static void
add_qp(struct finding_scan *s, const char *p, size_t n)
{
	unsigned char *to = buf_reserve(&s->text, n), *at = to;
	const char *end = p + n, *eq;
	bool open = s->line_n > 0; /* the line before ended in '=' */

	s->line_n = n > 0 && end[-1] == '=';
	if (open && n == 2 && memcmp(p, "\r\n", 2) == 0)
		return;
	while ((eq = memchr(p, '=', (size_t)(end - p))) != NULL) {
		memcpy(at, p, (size_t)(eq - p));
		at += eq - p;
		p = eq + 1;
		if (end - p >= 2 && hex(p[0]) >= 0 && hex(p[1]) >= 0) {
			*at++ = (unsigned char)(hex(p[0]) * 16 + hex(p[1]));
			p += 2;
		}
	}
	memcpy(at, p, (size_t)(end - p));
	at += end - p;
	s->text.n += (size_t)(at - to);
}

/* Lines are short and many: no call for what fits. */
static void
add_plain(struct finding_scan *s, const void *p, size_t n)
{
	if (s->text.cap - s->text.n < n)
		(void)buf_reserve(&s->text, n);
	memcpy(s->text.p + s->text.n, p, n);
	s->text.n += n;
}

static void
scan_data(void *arg, const void *p, size_t n)
{
	struct finding_scan *s = arg;
	size_t was = s->text.n;

	if (s->searched >= FINDING_SCAN_MAX) {
		unread(s);
		return;
	}
	switch ((enum mime_encoding)s->encoding) {
	case MIME_BASE64:
		add_base64(s, p, n);
		break;
	case MIME_QP:
		add_qp(s, p, n);
		break;
	case MIME_7BIT:
	case MIME_8BIT:
	case MIME_BINARY:
		add_plain(s, p, n);
		break;
	}
	s->searched += s->text.n - was;
	if (s->text.n >= WINDOW)
		search_window(s);
}

const struct structure_watch finding_watch = { scan_begin, scan_data };

static void
scan_file(struct finding_scan *s, const struct mime_part *p)
{
	/* A picture or sheet of style inside the HTML is no file. */
	if (p->content_id[0] == '\0' || strncmp(p->type, "image/", 6) != 0)
		finding_mark(&s->marks, FINDING_FILE);
	finding_search_file(
	    str_of(p->filename), p->type, finding_note, &s->marks);
	s->partial = true;
}

void
finding_scan_part(void *scan, const struct mime_part *p)
{
	struct finding_scan *s = scan;

	switch (p->kind) {
	case MIME_MULTIPART:
		return;
	case MIME_MESSAGE:
		finding_mark(&s->marks, FINDING_FILE_MESSAGE);
		s->partial = true;
		return;
	case MIME_PREAMBLE:
	case MIME_EPILOGUE:
		finding_mark(&s->marks, FINDING_STRAY_TEXT);
		s->partial = true;
		return;
	case MIME_LEAF:
		break;
	}
	if (s->text.n > 0 || s->line_n > 0) {
		if (s->encoding == MIME_BASE64)
			end_base64(s);
		search(s, buf_str(&s->text));
		buf_clear(&s->text);
		s->line_n = 0;
	}
	if (!mime_part_is_text(p)) {
		scan_file(s, p);
	} else if (strcmp(p->type, "text/html") == 0) {
		finding_mark(&s->marks, FINDING_HTML);
		s->partial = true;
	} else if (p->joins) {
		s->partial = true; /* what goes on in the next line */
	}
}
