/* SPDX-License-Identifier: ISC */
/*
 * findings_html.c - what postern-decode reports of HTML (decode/html.h), and
 * whether the plain text says the same
 *
 * A report may be any bytes: a line that makes no sense is passed over.
 */
#include "admin/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/header.h"

#define WORDS_MAX 100000
#define TOO_LONG "they are too long to be compared"
#define WORDS_MIN 3 /* to compare at all */
#define WORD_MIN 3 /* letters */
#define DIGITS_MIN 2 /* of a number that has to be in both */

static void
take_hidden(struct findings *f, struct str line)
{
	struct str how = str_split(&line, '\t');
	struct buf text = { 0 };

	buf_add_str(&text, how);
	buf_puts(&text, ": ");
	buf_add_str(&text, line);
	findings_add(f, FINDING_HTML_HIDDEN, buf_str(&text));
	findings_text(f, line);
	buf_free(&text);
}

static void
take_link(struct findings *f, struct str line)
{
	struct str target = str_split(&line, '\t');

	finding_search_link(target, line, findings_add, f);
	findings_domain(f, finding_link_host(target));
}

static void
take_line(struct findings *f, struct str line, struct buf *shown)
{
	char letter = line.n >= 2 && line.p[1] == ' ' ? line.p[0] : '\0';

	line.p += letter != '\0' ? 2 : 0;
	line.n -= letter != '\0' ? 2 : 0;
	switch (letter) {
	case 'T':
		findings_text(f, line);
		buf_add_str(shown, line);
		buf_putc(shown, '\n');
		break;
	case 'L':
		take_link(f, line);
		break;
	case 'H':
		take_hidden(f, line);
		break;
	case 'I':
		findings_add(f, FINDING_HTML_REMOTE, finding_link_host(line));
		break;
	case 'A':
		findings_add(f, FINDING_HTML_ACTIVE, line);
		break;
	default:
		break;
	}
}

void
findings_html(struct findings *f, struct str report, struct buf *shown)
{
	while (report.n > 0)
		take_line(f, str_split(&report, '\n'), shown);
}

/* ---- do two texts say the same? */

struct word {
	uint32_t hash;
	struct str text;
	bool is_number; /* an amount, an account: not the mark of a list */
};

struct words {
	struct word *v;
	size_t n;
};

static int
by_hash(const void *va, const void *vb)
{
	const struct word *a = va, *b = vb;

	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static void
words_add(struct words *w, struct str text, uint32_t hash, size_t letters,
    size_t digits, bool marks)
{
	if (w->n < WORDS_MAX && (letters >= WORD_MIN || digits >= DIGITS_MIN))
		w->v[w->n++] =
		    (struct word){ hash, text, digits >= DIGITS_MIN && !marks };
}

static bool
is_letter(int32_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || c > 0xbf;
}

static bool
is_mark(int32_t c)
{
	return c >= 0x2000 && c <= 0x206f;
}

/* Each of their characters is a word: lines break anywhere. */
static bool
is_ideograph(int32_t c)
{
	return c >= 0x2e80 && c <= 0x3fffd;
}

/* Addresses stand in one form only: behind words in HTML, spelled in text. */
static struct str
skip_url(struct str s)
{
	while (s.n > 0 && strchr(" \t\r\n>)]\"", *s.p) == NULL) {
		s.p++;
		s.n--;
	}
	return s;
}

static bool
is_url(struct str s)
{
	return str_istarts(s, str_lit("http://")) ||
	       str_istarts(s, str_lit("https://")) ||
	       str_istarts(s, str_lit("www.")) ||
	       str_istarts(s, str_lit("mailto:"));
}

/* 84.90, 1,000 and 03:42 are one number; the last stop of a sentence is none.
 */
static bool
is_within_number(int32_t c, struct str rest)
{
	return (c == '.' || c == ',' || c == ':' || c == '\'') && rest.n > 0 &&
	       rest.p[0] >= '0' && rest.p[0] <= '9';
}

/* Nothing but white space, as before the mark of a list? */
static bool
is_blank(const char *from, const char *to)
{
	while (from < to && strchr(" \t\r\n", *from) != NULL)
		from++;
	return from == to;
}

static void
words_of(struct words *w, struct str s)
{
	uint32_t hash = 2166136261u;
	size_t letters = 0, digits = 0;
	const char *from = s.p, *at, *line = s.p;
	int32_t c;

	while (s.n > 0 && w->n < WORDS_MAX) {
		if (letters == 0 && is_url(s)) {
			s = skip_url(s);
			continue;
		}
		at = s.p;
		c = utf8_next(&s);
		if (digits > 0 && digits == letters && is_within_number(c, s))
			continue;
		if (is_letter(c) && !is_mark(c) && !is_ideograph(c)) {
			if (letters++ == 0)
				from = at;
			digits += c >= '0' && c <= '9';
			c = c >= 'A' && c <= 'Z' ? c + 32 : c;
			hash = (hash ^ (uint32_t)c) * 16777619u;
			if (s.n > 0)
				continue;
			at = s.p;
		}
		words_add(w, (struct str){ from, (size_t)(at - from) }, hash,
		    letters, digits == letters ? digits : 0,
		    is_blank(line, from));
		if (c == '\n')
			line = s.p;
		if (is_ideograph(c))
			words_add(w, (struct str){ at, (size_t)(s.p - at) },
			    (uint32_t)c, WORD_MIN, 0, false);
		hash = 2166136261u;
		letters = digits = 0;
	}
	if (w->n > 0)
		qsort(w->v, w->n, sizeof(*w->v), by_hash);
}

/* How many distinct words of `a` are not in `b`; `first` is one of them. */
static size_t
missing(const struct words *a, const struct words *b, size_t *distinct,
    struct str *first, bool *number)
{
	size_t i, j = 0, n = 0;

	*distinct = 0;
	for (i = 0; i < a->n; i++) {
		if (i > 0 && a->v[i].hash == a->v[i - 1].hash)
			continue;
		++*distinct;
		while (j < b->n && b->v[j].hash < a->v[i].hash)
			j++;
		if (j < b->n && b->v[j].hash == a->v[i].hash)
			continue;
		n++;
		if (first->n == 0 || (a->v[i].is_number && !*number))
			*first = a->v[i].text;
		*number |= a->v[i].is_number;
	}
	return n;
}

void
findings_compare_texts(struct findings *f, struct str plain, struct str html)
{
	struct words p = { 0 }, h = { 0 };
	struct str only_plain = { "", 0 }, only_html = { "", 0 };
	size_t in_p, in_h, not_h, not_p;
	bool number = false, other = false;

	p.v = xcalloc(WORDS_MAX, sizeof(*p.v));
	h.v = xcalloc(WORDS_MAX, sizeof(*h.v));
	words_of(&p, plain);
	words_of(&h, html);
	not_h = missing(&p, &h, &in_p, &only_plain, &number);
	not_p = missing(&h, &p, &in_h, &only_html, &other);
	if (p.n == WORDS_MAX || h.n == WORDS_MAX) {
		findings_add(f, FINDING_PARTS_DIFFER, str_lit(TOO_LONG));
	} else if (in_p >= WORDS_MIN && in_h >= WORDS_MIN &&
		   (number || not_h * 10 > in_p * 3 || not_p * 2 > in_h)) {
		findings_add(f, FINDING_PARTS_DIFFER, only_plain);
		findings_add(f, FINDING_PARTS_DIFFER, only_html);
	}
	free(p.v);
	free(h.v);
}
