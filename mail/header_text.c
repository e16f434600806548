/* SPDX-License-Identifier: ISC */
/*
 * header_text.c - RFC 2047 encoded words, for people to read.
 *
 * Read liberally, because recipients' programs do: words need no space
 * around them. Bytes of adjacent words of one charset are joined before they
 * become text, since many senders split characters.
 */
#include "mail/header.h"

#include <string.h>

#include "mail/transfer.h"

enum charset {
	CHARSET_NONE,
	CHARSET_UTF8,
	CHARSET_LATIN,
	CHARSET_OTHER,
};

struct decoder {
	struct buf *out;
	struct buf pending; /* bytes of joined words; OTHER: as written */
	enum charset charset; /* of `pending` */
	struct str other; /* name of an OTHER */
	header_word_fn *fn; /* for OTHER; may be NULL */
	void *arg;
	bool undecoded;
};

/* "name*language" (RFC 2231 5) */
static struct str
charset_name(struct str s)
{
	return str_split(&s, '*');
}

static enum charset
charset_find(struct str name)
{
	if (str_ieq(name, str_lit("utf-8")) || str_ieq(name, str_lit("utf8")) ||
	    str_ieq(name, str_lit("us-ascii")) ||
	    str_ieq(name, str_lit("ascii")))
		return CHARSET_UTF8;
	if (str_ieq(name, str_lit("iso-8859-1")) ||
	    str_ieq(name, str_lit("latin1")) ||
	    str_ieq(name, str_lit("windows-1252")) ||
	    str_ieq(name, str_lit("cp1252")))
		return CHARSET_LATIN;
	return CHARSET_OTHER;
}

/* Up to the next '?', of characters `accept` allows. */
static bool
until_question(struct str *s, struct str *out)
{
	const char *q = memchr(s->p, '?', s->n);
	size_t i;

	if (q == NULL)
		return false;
	*out = (struct str){ s->p, (size_t)(q - s->p) };
	for (i = 0; i < out->n; i++) {
		if (out->p[i] <= 32 || out->p[i] >= 127)
			return false;
	}
	s->n -= out->n + 1;
	s->p += out->n + 1;
	return true;
}

size_t
header_word_split(
    struct str s, struct str *charset, char *encoding, struct str *text)
{
	struct str rest = s, enc;

	if (!str_starts(s, str_lit("=?")))
		return 0;
	rest.p += 2;
	rest.n -= 2;
	if (!until_question(&rest, charset) || charset->n == 0 ||
	    !until_question(&rest, &enc) || enc.n != 1 ||
	    strchr("bBqQ", enc.p[0]) == NULL || !until_question(&rest, text) ||
	    rest.n == 0 || rest.p[0] != '=')
		return 0;
	*encoding = (char)(enc.p[0] | 0x20);
	return (size_t)(rest.p + 1 - s.p);
}

/* windows-1252 where it differs from Latin-1; 0 = no character. */
static const uint16_t high[32] = { 0x20ac, 0, 0x201a, 0x192, 0x201e, 0x2026,
	0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0, 0x17d, 0, 0,
	0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122,
	0x161, 0x203a, 0x153, 0, 0x17e, 0x178 };

static void
latin_to_utf8(struct buf *out, const struct buf *in)
{
	unsigned c;
	size_t i;

	for (i = 0; i < in->n; i++) {
		c = in->p[i];
		if (c >= 0x80 && c < 0xa0)
			c = high[c - 0x80] != 0 ? high[c - 0x80] : 0xfffd;
		if (c < 0x80) {
			buf_putc(out, (char)c);
		} else if (c < 0x800) {
			buf_u8(out, 0xc0 | c >> 6);
			buf_u8(out, 0x80 | (c & 0x3f));
		} else {
			buf_u8(out, 0xe0 | c >> 12);
			buf_u8(out, 0x80 | (c >> 6 & 0x3f));
			buf_u8(out, 0x80 | (c & 0x3f));
		}
	}
}

/* A run of words in a charset that is not ours. */
static void
flush_other(struct decoder *d)
{
	struct str run = buf_str(&d->pending);
	struct buf text = { 0 };

	if (d->fn != NULL && d->fn(d->arg, d->other, run, &text)) {
		utf8_clean(d->out, buf_str(&text));
	} else {
		utf8_clean(d->out, run);
		d->undecoded = true;
	}
	buf_free(&text);
}

static void
flush(struct decoder *d)
{
	struct buf text = { 0 };

	switch (d->charset) {
	case CHARSET_LATIN:
		latin_to_utf8(&text, &d->pending);
		utf8_clean(d->out, buf_str(&text));
		buf_free(&text);
		break;
	case CHARSET_UTF8:
		utf8_clean(d->out, buf_str(&d->pending));
		break;
	case CHARSET_OTHER:
		flush_other(d);
		break;
	case CHARSET_NONE:
		break;
	}
	buf_clear(&d->pending);
	d->charset = CHARSET_NONE;
}

/* Valid UTF-8 that keeps its lines, unlike utf8_clean(). */
static void
text_clean(struct buf *out, struct str s)
{
	const char *at;
	int32_t c;

	while (s.n > 0) {
		at = s.p;
		c = utf8_next(&s);
		if (c <= 0)
			buf_puts(out, "\xef\xbf\xbd");
		else
			buf_add(out, at, (size_t)(s.p - at));
	}
}

bool
header_charset_text(struct buf *out, struct str charset, struct str bytes)
{
	enum charset c = charset.n > 0 ? charset_find(charset) : CHARSET_UTF8;
	struct buf in = { 0 }, text = { 0 };

	if (c == CHARSET_OTHER || (charset.n == 0 && !utf8_valid(bytes)))
		return false;
	if (c == CHARSET_LATIN) {
		buf_add_str(&in, bytes);
		latin_to_utf8(&text, &in);
		text_clean(out, buf_str(&text));
	} else {
		text_clean(out, bytes);
	}
	buf_free(&in);
	buf_free(&text);
	return true;
}

/* One encoded word; `whole` as written. */
static void
decode_word(struct decoder *d, struct str whole, struct str charset,
    char encoding, struct str text)
{
	struct str name = charset_name(charset);
	enum charset c = charset_find(name);

	if (c != d->charset || (c == CHARSET_OTHER && !str_ieq(name, d->other)))
		flush(d);
	if (d->charset == CHARSET_NONE)
		d->other = name;
	d->charset = c;
	if (c == CHARSET_OTHER)
		buf_add_str(&d->pending, whole);
	else if (encoding == 'b')
		transfer_base64(&d->pending, text);
	else
		transfer_q(&d->pending, text);
}

void
header_decode(struct buf *out, struct str value, bool *undecoded)
{
	header_decode_with(out, value, undecoded, NULL, NULL);
}

void
header_decode_with(struct buf *out, struct str value, bool *undecoded,
    header_word_fn *fn, void *arg)
{
	struct decoder d = { .out = out, .fn = fn, .arg = arg };
	struct buf flat = { 0 };
	struct str s, charset, text, gap = { NULL, 0 };
	size_t n;
	char enc;

	header_unfold(&flat, value);
	s = buf_str(&flat);
	while (s.n > 0) {
		n = header_word_split(s, &charset, &enc, &text);
		if (n > 0) {
			decode_word(
			    &d, (struct str){ s.p, n }, charset, enc, text);
			gap = (struct str){ s.p + n, 0 };
		} else if (gap.p != NULL && (s.p[0] == ' ' || s.p[0] == '\t')) {
			gap.n++; /* dropped if a word follows */
			n = 1;
		} else {
			flush(&d);
			utf8_clean(out, gap.p != NULL ? gap : str_lit(""));
			gap = (struct str){ NULL, 0 };
			for (n = 1; n < s.n && s.p[n] != '='; n++)
				;
			utf8_clean(out, (struct str){ s.p, n });
		}
		s.p += n;
		s.n -= n;
	}
	flush(&d);
	if (undecoded != NULL)
		*undecoded = d.undecoded;
	buf_free(&d.pending);
	buf_free(&flat);
}
