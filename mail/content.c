/* SPDX-License-Identifier: ISC */
#include "mail/content.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/xalloc.h"
#include "mail/header.h"
#include "mail/structure.h"
#include "mail/transfer.h"

/* The part whose bytes are passing. */
struct part {
	enum mime_encoding encoding;
	EVP_MD_CTX *sum;
	uint64_t size;
	struct buf text; /* its beginning, when it is a text */
	struct buf digits; /* of base64, no whole group yet */
	struct buf decoded; /* of one line */
	bool is_text, soft; /* a soft line break was seen */
	bool open;
	unsigned ix;
	bool wanted;
};

struct content {
	struct structure *structure;
	struct buf head;
	bool head_done;
	struct part part;
	struct content_text text[2]; /* plain, HTML */
	struct content_attachment *attachment;
	size_t count, cap;
	const char *want; /* NULL: none */
	content_data_fn *data;
	void *arg;
};

/* Decoded bytes of the part. */
static void
put(struct content *c, const void *p, size_t n)
{
	struct part *part = &c->part;
	size_t room = CONTENT_TEXT_MAX - part->text.n;

	if (n == 0)
		return;
	BUG_ON(!EVP_DigestUpdate(part->sum, p, n));
	part->size += n;
	if (part->is_text)
		buf_add(&part->text, p, n < room ? n : room);
	if (part->wanted)
		c->data(c->arg, p, n);
}

/* Whole groups of four digits; the rest waits for the next line. */
static void
put_base64(struct content *c, struct str line)
{
	struct buf *digits = &c->part.digits, *out = &c->part.decoded;
	struct str whole;
	size_t i;

	for (i = 0; i < line.n; i++) {
		if (line.p[i] != ' ' && line.p[i] != '\t' &&
		    line.p[i] != '\r' && line.p[i] != '\n')
			buf_putc(digits, line.p[i]);
	}
	whole = (struct str){ (char *)digits->p, digits->n / 4 * 4 };
	buf_clear(out);
	transfer_base64(out, whole);
	put(c, out->p, out->n);
	buf_drain(digits, whole.n);
}

static void
put_qp(struct content *c, struct str line)
{
	struct buf *out = &c->part.decoded;

	if (str_eq(line, str_lit("\r\n"))) {
		if (!c->part.soft)
			put(c, "\r\n", 2);
		c->part.soft = false;
		return;
	}
	while (line.n > 0 &&
	       (line.p[line.n - 1] == ' ' || line.p[line.n - 1] == '\t'))
		line.n--; /* added on the way (RFC 2045 6.7) */
	c->part.soft = line.n > 0 && line.p[line.n - 1] == '=';
	if (c->part.soft)
		line.n--;
	buf_clear(out);
	transfer_qp(out, line);
	put(c, out->p, out->n);
}

static void
on_data(void *arg, const void *p, size_t n)
{
	struct content *c = arg;
	struct str line = { p, n };

	switch (c->part.encoding) {
	case MIME_7BIT:
	case MIME_8BIT:
	case MIME_BINARY:
		put(c, p, n);
		break;
	case MIME_QP:
		put_qp(c, line);
		break;
	case MIME_BASE64:
		put_base64(c, line);
		break;
	}
}

static bool
on_begin(void *arg, const struct mime_part *part)
{
	struct content *c = arg;
	struct part *p = &c->part;

	if (p->sum == NULL)
		p->sum = EVP_MD_CTX_new();
	BUG_ON(
	    p->sum == NULL || !EVP_DigestInit_ex(p->sum, EVP_sha256(), NULL));
	p->open = true;
	p->ix = part->ix;
	p->encoding = part->encoding;
	p->size = 0;
	buf_clear(&p->text);
	buf_clear(&p->digits);
	p->is_text = mime_part_is_text(part);
	p->soft = false;
	p->wanted = c->want != NULL && strcmp(c->want, part->path) == 0;
	return true;
}

static void
add_attachment(struct content *c, const struct mime_part *part)
{
	struct content_attachment *a;

	if (c->count == c->cap) {
		c->cap = c->cap == 0 ? 4 : c->cap * 2;
		c->attachment =
		    xreallocarray(c->attachment, c->cap, sizeof(*a));
	}
	a = &c->attachment[c->count++];
	a->path = xstrdup(part->path);
	a->filename = xstrdup(part->filename);
	a->type = xstrdup(part->type);
	a->charset = xstrdup(part->charset);
	a->content_id = xstrdup(part->content_id);
	a->is_inline = part->disposition == MIME_DISPOSITION_INLINE ||
		       (part->disposition == MIME_DISPOSITION_NONE &&
			   (part->content_id[0] != '\0' || c->part.is_text));
	a->size = c->part.size;
	BUG_ON(!EVP_DigestFinal_ex(c->part.sum, a->sha256, NULL));
}

/* CRLF to LF. */
static void
unify_lines(struct buf *b)
{
	size_t i, n = 0;

	for (i = 0; i < b->n; i++) {
		if (b->p[i] == '\r' && i + 1 < b->n && b->p[i + 1] == '\n')
			continue;
		b->p[n++] = b->p[i];
	}
	b->n = n;
}

/* Cut bytes of UTF-8 between characters. */
static void
cut_whole(struct buf *b, size_t max)
{
	if (b->n <= max)
		return;
	b->n = max;
	while (b->n > 0 && (b->p[b->n] & 0xc0) == 0x80)
		b->n--;
}

/* The text of the part joins that of the mail; false: not one to decode. */
static bool
add_text(struct content *c, const struct mime_part *part)
{
	struct content_text *t = &c->text[strcmp(part->type, "text/html") == 0];
	struct buf *bytes = &c->part.text, text = { 0 };
	bool whole = bytes->n == c->part.size;

	/* A character that was cut at the end is not a wrong one. */
	if (!whole)
		cut_whole(bytes, bytes->n - 4);
	if (!header_charset_text(&text, str_of(part->charset), buf_str(bytes)))
		return false;
	unify_lines(&text);
	if (t->text.n > 0 && t->text.p[t->text.n - 1] != '\n')
		buf_putc(&t->text, '\n');
	buf_add(&t->text, text.p, text.n);
	buf_free(&text);
	t->present = true;
	if (t->text.n > CONTENT_TEXT_MAX)
		whole = false;
	cut_whole(&t->text, CONTENT_TEXT_MAX);
	t->truncated |= !whole;
	return whole;
}

static void
on_part(void *arg, const struct mime_part *part)
{
	struct content *c = arg;

	if (!c->part.open || part->ix != c->part.ix)
		return;
	c->part.open = false;
	if (!c->part.is_text || !add_text(c, part))
		add_attachment(c, part);
}

static const struct structure_watch watch = { on_begin, on_data };

struct content *
content_new(void)
{
	struct content *c = xcalloc(1, sizeof(*c));

	c->structure = structure_new(on_part, c);
	structure_set_watch(c->structure, &watch);
	return c;
}

void
content_free(struct content *c)
{
	size_t i;

	if (c == NULL)
		return;
	for (i = 0; i < c->count; i++) {
		free(c->attachment[i].path);
		free(c->attachment[i].filename);
		free(c->attachment[i].type);
		free(c->attachment[i].charset);
		free(c->attachment[i].content_id);
	}
	free(c->attachment);
	structure_free(c->structure);
	EVP_MD_CTX_free(c->part.sum);
	buf_free(&c->part.text);
	buf_free(&c->part.digits);
	buf_free(&c->part.decoded);
	buf_free(&c->head);
	buf_free(&c->text[0].text);
	buf_free(&c->text[1].text);
	free(c);
}

void
content_want(
    struct content *c, const char *path, content_data_fn *data, void *arg)
{
	c->want = path;
	c->data = data;
	c->arg = arg;
}

/* Keep what stands before the empty line. */
static void
take_head(struct content *c, const char *p, size_t n)
{
	size_t from = c->head.n < 3 ? 0 : c->head.n - 3;
	size_t room = HEADER_BYTES_MAX * 2 - c->head.n;
	const char *end;

	buf_add(&c->head, p, n < room ? n : room);
	end = memmem(c->head.p + from, c->head.n - from, "\r\n\r\n", 4);
	c->head_done = end != NULL || n >= room;
	if (end != NULL)
		c->head.n = (size_t)(end - (char *)c->head.p) + 2;
}

bool
content_feed(struct content *c, const void *p, size_t n)
{
	if (!c->head_done)
		take_head(c, p, n);
	return structure_feed(c->structure, p, n) == E_NONE;
}

bool
content_finish(struct content *c)
{
	return structure_finish(c->structure) == E_NONE;
}

struct str
content_header(const struct content *c)
{
	return buf_str(&c->head);
}

const struct content_text *
content_text(const struct content *c, bool html)
{
	return &c->text[html];
}

size_t
content_attachments(const struct content *c)
{
	return c->count;
}

const struct content_attachment *
content_attachment(const struct content *c, size_t i)
{
	return &c->attachment[i];
}
