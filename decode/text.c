/* SPDX-License-Identifier: ISC */
#include "decode/text.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <iconv.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "decode/archive.h"
#include "decode/charset.h"
#include "decode/html.h"

#define HTML_MAX (2 * HELPER_INPUT_MAX) /* decoded; its report is smaller */
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Room that is never passed: `cap` is fixed when it is made. */
struct room {
	unsigned char *p;
	size_t n, cap;
};

/* ---- requests */

static size_t
get_u32(const unsigned char *p)
{
	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 |
	       p[3];
}

size_t
text_request_size(const unsigned char *head)
{
	size_t n = get_u32(head + 12);

	if (memcmp(head, HELPER_REQUEST_MAGIC, 4) != 0 ||
	    head[4] < HELPER_LEAF || head[4] > HELPER_FILE ||
	    head[5] > HELPER_BASE64 || head[6] > HELPER_FLAG_MORE ||
	    head[7] > HELPER_NAME_MAX || head[8] > HELPER_NAME_MAX ||
	    head[9] != 0 || head[10] != 0 || head[11] != 0 ||
	    n > (head[4] == HELPER_FILE ? HELPER_FILE_MAX : HELPER_INPUT_MAX))
		return 0;
	return HELPER_REQUEST_HEAD + (size_t)head[7] + head[8] + n;
}

bool
text_request_parse(struct text_request *r, const unsigned char *p, size_t n)
{
	if (n < HELPER_REQUEST_HEAD || text_request_size(p) != n)
		return false;
	r->kind = (enum helper_kind)p[4];
	r->encoding = p[5] == HELPER_BASE64 ? HELPER_BASE64
		      : p[5] == HELPER_QP   ? HELPER_QP
					    : HELPER_PLAIN;
	r->more = (p[6] & HELPER_FLAG_MORE) != 0;
	r->charset = (const char *)p + HELPER_REQUEST_HEAD;
	r->charset_n = p[7];
	r->type = r->charset + r->charset_n;
	r->type_n = p[8];
	r->bytes = p + HELPER_REQUEST_HEAD + p[7] + p[8];
	r->n = get_u32(p + 12);
	return true;
}

/* ---- transfer encodings, by GMime */

static GMimeContentEncoding
encoding_of(enum helper_encoding e)
{
	switch (e) {
	case HELPER_PLAIN:
		return GMIME_CONTENT_ENCODING_8BIT;
	case HELPER_QP:
		return GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE;
	case HELPER_BASE64:
		return GMIME_CONTENT_ENCODING_BASE64;
	}
	return GMIME_CONTENT_ENCODING_8BIT;
}

/* Append what `n` encoded bytes say. */
static bool
add_decoded(struct room *to, GMimeContentEncoding how, const void *p, size_t n)
{
	GMimeEncoding state;

	g_mime_encoding_init_decode(&state, how);
	if (g_mime_encoding_outlen(&state, n) > to->cap - to->n)
		return false;
	to->n += g_mime_encoding_flush(&state, p, n, (char *)to->p + to->n);
	return true;
}

/* ---- encoded words */

/* What stands before the next '?', which is skipped. */
static bool
take_field(const char **at, const char *end, const char **field, size_t *n)
{
	const char *q = memchr(*at, '?', (size_t)(end - *at));

	if (q == NULL)
		return false;
	*field = *at;
	*n = (size_t)(q - *at);
	*at = q + 1;
	return true;
}

static bool
same_charset(const struct text_request *r, const char *charset, size_t n)
{
	const char *star = memchr(charset, '*', n); /* RFC 2231 5 */

	if (star != NULL)
		n = (size_t)(star - charset);
	return n == r->charset_n && strncasecmp(charset, r->charset, n) == 0;
}

/* "=?charset?B?text?=": appends the bytes; `at` goes behind it. */
static bool
add_word(struct room *to, const struct text_request *r, const char **at,
    const char *end)
{
	const char *charset, *enc, *text;
	size_t charset_n, enc_n, text_n, i;
	char plain[1024];

	if (end - *at < 2 || memcmp(*at, "=?", 2) != 0)
		return false;
	*at += 2;
	if (!take_field(at, end, &charset, &charset_n) ||
	    !take_field(at, end, &enc, &enc_n) ||
	    !take_field(at, end, &text, &text_n) || *at == end || **at != '=')
		return false;
	*at += 1;
	if (enc_n != 1 || !same_charset(r, charset, charset_n) ||
	    text_n > sizeof(plain))
		return false;
	if (*enc == 'B' || *enc == 'b')
		return add_decoded(
		    to, GMIME_CONTENT_ENCODING_BASE64, text, text_n);
	if (*enc != 'Q' && *enc != 'q')
		return false;
	for (i = 0; i < text_n; i++)
		plain[i] = text[i] == '_' ? ' ' : text[i];
	return add_decoded(
	    to, GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE, plain, text_n);
}

/* Adjacent words are joined as bytes: many senders split characters. */
static bool
add_words(struct room *to, const struct text_request *r)
{
	const char *at = (const char *)r->bytes, *end = at + r->n;

	while (at < end) {
		if (*at == ' ' || *at == '\t')
			at++;
		else if (!add_word(to, r, &at, end))
			return false;
	}
	return true;
}

/* ---- charsets, by iconv */

static bool
put_replacement(struct room *out)
{
	if (out->cap - out->n < sizeof(REPLACEMENT) - 1)
		return false;
	memcpy(out->p + out->n, REPLACEMENT, sizeof(REPLACEMENT) - 1);
	out->n += sizeof(REPLACEMENT) - 1;
	return true;
}

/* The flags of the reply. Whole characters only, also when it is cut. */
static unsigned
convert(struct room *out, const struct charset *c, unsigned char *p, size_t n,
    bool more)
{
	char *in = (char *)p, *to;
	unsigned flags = more ? HELPER_FLAG_CUT : 0;
	size_t left, got, skip;

	(void)iconv(c->to_utf8, NULL, NULL, NULL, NULL);
	for (;;) {
		to = (char *)out->p + out->n;
		left = out->cap - out->n;
		got = iconv(c->to_utf8, n > 0 ? &in : NULL, n > 0 ? &n : NULL,
		    &to, &left);
		out->n = out->cap - left;
		if (got != (size_t)-1 && n == 0) {
			if (in == NULL)
				return flags;
			in = NULL; /* once more: what it kept back */
			continue;
		}
		if (got == (size_t)-1 && errno == E2BIG)
			return flags | HELPER_FLAG_CUT;
		if (got == (size_t)-1 && errno == EINVAL && more)
			return flags;
		flags |= HELPER_FLAG_REPLACED;
		if (!put_replacement(out))
			return flags | HELPER_FLAG_CUT;
		skip = errno == EINVAL || n < c->unit ? n : c->unit;
		in += skip;
		n -= skip;
		if (n == 0)
			return flags;
	}
}

/* The bytes of a character of UTF-8 (RFC 3629) at `p`; 0: there is none. */
static size_t
char_len(const unsigned char *p, size_t n)
{
	unsigned char c = *p;
	size_t i, len = c < 0x80                 ? 1
			: c >= 0xc2 && c <= 0xdf ? 2
			: (c & 0xf0) == 0xe0     ? 3
			: c >= 0xf0 && c <= 0xf4 ? 4
						 : 0;

	if (len == 0 || len > n)
		return 0;
	for (i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* no longer than it must be, no surrogate, nothing beyond Unicode */
	if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) ||
	    (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

/*
 * glibc lets through, from UTF-8, what is beyond the last code point, and Gumbo
 * makes one byte of a reference like &#xDbbbbbbbb. U+FFFD where there is room.
 */
static unsigned
repair(struct room *out)
{
	unsigned char *from = out->p, *to = out->p, *end = out->p + out->n;
	unsigned flags = 0;
	size_t len;

	for (; from < end; from += len) {
		len = char_len(from, (size_t)(end - from));
		if (len > 0) {
			if (to != from)
				memmove(to, from, len);
			to += len;
			continue;
		}
		flags = HELPER_FLAG_REPLACED;
		for (len = 1; from + len < end && (from[len] & 0xc0) == 0x80;)
			len++;
		if (len >= sizeof(REPLACEMENT) - 1) {
			memcpy(to, REPLACEMENT, sizeof(REPLACEMENT) - 1);
			to += sizeof(REPLACEMENT) - 1;
		} else {
			*to++ = '?';
		}
	}
	out->n = (size_t)(to - out->p);
	return flags;
}

/* ---- replies */

static void
put_head(unsigned char *p, enum helper_status status, unsigned flags, size_t n)
{
	memcpy(p, HELPER_REPLY_MAGIC, 4);
	p[4] = (unsigned char)status;
	p[5] = (unsigned char)flags;
	p[6] = p[7] = 0;
	p[8] = (unsigned char)(n >> 24);
	p[9] = (unsigned char)(n >> 16);
	p[10] = (unsigned char)(n >> 8);
	p[11] = (unsigned char)n;
}

static bool
add_bytes(struct room *to, const struct text_request *r)
{
	if (r->kind == HELPER_WORD)
		return add_words(to, r);
	if (r->kind == HELPER_FILE)
		return add_decoded(
		    to, encoding_of(r->encoding), r->bytes, r->n);
	if (r->type_n < 5 || strncasecmp(r->type, "text/", 5) != 0)
		return false;
	return add_decoded(to, encoding_of(r->encoding), r->bytes, r->n);
}

/* UTF-8 of what was asked about; NULL in `c`: no such charset. */
static bool
decode(struct room *out, const struct text_request *r, const struct charset **c,
    unsigned *flags)
{
	struct room raw = { .cap = 2 * r->n + 64 };
	size_t mark;
	bool ok;

	raw.p = malloc(raw.cap);
	ok = raw.p != NULL && add_bytes(&raw, r);
	*c = ok ? charset_find(r->charset, r->charset_n, raw.p, raw.n, &mark)
		: NULL;
	if (*c != NULL) {
		*flags = convert(out, *c, raw.p + mark, raw.n - mark, r->more);
		*flags |= repair(out);
	}
	free(raw.p);
	return ok;
}

/* In place of its text, what a page of HTML shows and hides. */
static bool
report(struct room *out, unsigned *flags)
{
	struct room html = *out;
	bool cut = false, ok = false;

	out->p = malloc(out->cap);
	if (out->p != NULL) {
		out->n = html_report(out->p, HELPER_OUTPUT_MAX, (char *)html.p,
		    html.n, &cut, &ok);
		memcpy(html.p, out->p, out->n);
	}
	free(out->p);
	out->p = html.p;
	if (cut)
		*flags |= HELPER_FLAG_CUT;
	*flags |= repair(out);
	return ok;
}

/* What is in an archive, in place of its bytes. */
static bool
list_archive(struct room *out, const struct text_request *r, unsigned *flags)
{
	struct room raw = { .cap = 2 * r->n + 64 };
	bool ok, cut = false;

	raw.p = malloc(raw.cap);
	ok = raw.p != NULL && add_bytes(&raw, r);
	if (ok)
		out->n = archive_report(
		    out->p, out->cap, raw.p, raw.n, r->more, &cut);
	if (cut)
		*flags |= HELPER_FLAG_CUT;
	free(raw.p);
	return ok;
}

static bool
answer(struct room *out, const struct text_request *r, unsigned *flags,
    enum helper_status *status)
{
	const struct charset *c;

	*status = HELPER_DECODED;
	if (r->kind == HELPER_FILE)
		return list_archive(out, r, flags);
	if (!decode(out, r, &c, flags))
		return false;
	if (c == NULL)
		*status = HELPER_NO_CHARSET;
	return c == NULL || r->kind != HELPER_HTML || report(out, flags);
}

unsigned char *
text_reply(const struct text_request *r, size_t *n)
{
	struct room out = { .cap = r->kind == HELPER_HTML ? HTML_MAX
							  : HELPER_OUTPUT_MAX };
	unsigned char *reply = malloc(HELPER_REPLY_HEAD + out.cap);
	enum helper_status status;
	unsigned flags = 0;

	if (reply == NULL)
		return NULL;
	out.p = reply + HELPER_REPLY_HEAD;
	if (!answer(&out, r, &flags, &status)) {
		free(reply);
		return NULL;
	}
	put_head(reply, status, flags, out.n);
	*n = HELPER_REPLY_HEAD + out.n;
	return reply;
}
