/* SPDX-License-Identifier: ISC */
#include "admin/message_read.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "base/buf.h"
#include "mail/header.h"
#include "mail/mailbox.h"
#include "mail/structure.h"
#include "mail/transfer.h"

#define HEADERS_MAX 1000
#define NAMED_MAX 2000

struct naming {
	struct message_read *r;
	char kind;
};

static char *
keep_buf(struct arena *mem, struct buf *b)
{
	char *s = arena_str(mem, buf_str(b));

	buf_free(b);
	return s;
}

/* ---- headers */

static bool
add_named(void *arg, const struct mailbox *m)
{
	struct naming *naming = arg;
	struct message_read *r = naming->r;
	struct read_mailbox *to;
	struct buf name = { 0 };

	if (r->named_count == NAMED_MAX)
		return true;
	mailbox_name_text_with(&name, m, foreign_word, &r->foreign);
	to = &r->named[r->named_count++];
	to->canonical = arena_strdup(&r->mem, m->address.canonical);
	to->wire = arena_strdup(&r->mem, m->address.wire);
	to->name = keep_buf(&r->mem, &name);
	to->kind = naming->kind;
	return true;
}

static bool
take_first(void *arg, const struct mailbox *m)
{
	char *to = arg;

	memcpy(to, m->address.canonical, ADDRESS_MAX);
	return false;
}

static void
name_all(struct message_read *r, const struct header *h, const char *field,
    char kind)
{
	struct naming naming = { r, kind };
	const struct header_field *f;
	const char *why;
	size_t i;

	for (i = 0; (f = header_find(h, field, i)) != NULL; i++)
		if (!mailbox_list_parse(f->value, add_named, &naming, &why))
			r->problem = "A To or Cc header is not a list of "
				     "addresses.";
}

static char *
decoded(struct message_read *r, const struct header *h, const char *field)
{
	const struct header_field *f = header_find(h, field, 0);
	struct buf out = { 0 };

	if (f == NULL)
		return NULL;
	header_decode_with(&out, f->value, NULL, foreign_word, &r->foreign);
	return keep_buf(&r->mem, &out);
}

static char *
canonical(struct message_read *r, const struct header *h, const char *field)
{
	const struct header_field *f = header_find(h, field, 0);
	char address[ADDRESS_MAX] = "";
	const char *why;

	/* stopping at the first one reads as an error: what counts is it */
	if (f == NULL ||
	    (mailbox_list_parse(f->value, take_first, address, &why) &&
		address[0] == '\0'))
		return NULL;
	return address[0] != '\0' ? arena_strdup(&r->mem, address) : NULL;
}

static void
list_headers(struct message_read *r, const struct header *h)
{
	size_t i, n = h->count < HEADERS_MAX ? h->count : HEADERS_MAX;

	r->headers = arena_array(&r->mem, n + 1, sizeof(*r->headers));
	for (i = 0; i < n; i++) {
		struct buf plain = { 0 }, text = { 0 };

		header_unfold(&plain, h->field[i].value);
		header_decode_with(
		    &text, h->field[i].value, NULL, foreign_word, &r->foreign);
		r->headers[i].differs =
		    !str_eq(buf_str(&plain), buf_str(&text));
		r->headers[i].name = arena_str(&r->mem, h->field[i].name);
		r->headers[i].value = keep_buf(&r->mem, &text);
		buf_free(&plain);
	}
	r->header_count = n;
}

static bool
add_reply(void *arg, const struct mailbox *m)
{
	struct buf *all = arg;

	buf_puts(all, m->address.canonical);
	buf_putc(all, '\n');
	return true;
}

/*
 * Every address that answers go to, by some programs at least; one that is not
 * From's speaks for all.
 */
static void
read_replies(struct message_read *r, const struct header *h)
{
	static const char *const names[] = { "Reply-To", "Mail-Reply-To",
		"Mail-Followup-To" };
	const struct header_field *f;
	struct buf all = { 0 };
	struct str rest, one;
	const char *why;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		f = header_find(h, names[i], 0);
		if (f != NULL)
			(void)mailbox_list_parse(
			    f->value, add_reply, &all, &why);
	}
	r->replies = keep_buf(&r->mem, &all);
	rest = str_of(r->replies);
	r->reply_canonical = NULL;
	while (rest.n > 0) {
		one = str_split(&rest, '\n');
		if (r->reply_canonical == NULL || r->from_canonical == NULL ||
		    strcmp(r->reply_canonical, r->from_canonical) == 0)
			r->reply_canonical = arena_str(&r->mem, one);
	}
}

static void
read_sender(struct message_read *r, const struct header *h)
{
	r->subject = decoded(r, h, "Subject");
	r->from = decoded(r, h, "From");
	r->from_canonical = canonical(r, h, "From");
	r->reply_to = decoded(r, h, "Reply-To");
	read_replies(r, h);
}

static void
read_named(struct message_read *r, const struct header *h)
{
	r->named = arena_array(&r->mem, NAMED_MAX, sizeof(*r->named));
	r->named_count = 0;
	name_all(r, h, "To", 't');
	name_all(r, h, "Cc", 'c');
}

static void
with_header(struct message_read *r,
    void (*fn)(struct message_read *r, const struct header *h))
{
	const char *end = memmem(r->bytes.p, r->bytes.n, "\r\n\r\n", 4);
	struct str section = { r->bytes.p,
		end != NULL ? (size_t)(end - r->bytes.p) + 2 : r->bytes.n };
	struct header h;
	const char *why;

	if (!header_parse(&h, section, &why)) {
		r->problem = why;
		return;
	}
	fn(r, &h);
	header_free(&h);
}

/* ---- parts */

static int
hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 2045 6.7, reading liberally: what is no escape stays. */
static void
decode_qp(struct buf *out, struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] != '=') {
			buf_putc(out, s.p[i]);
		} else if (i + 2 < s.n && s.p[i + 1] == '\r' &&
			   s.p[i + 2] == '\n') {
			i += 2;
		} else if (i + 2 < s.n && hex(s.p[i + 1]) >= 0 &&
			   hex(s.p[i + 2]) >= 0) {
			buf_u8(out,
			    (unsigned)(hex(s.p[i + 1]) * 16 + hex(s.p[i + 2])));
			i += 2;
		} else if (i + 1 < s.n || s.n == 1) {
			buf_putc(out, s.p[i]);
		}
	}
}

static void
decode_leaf(struct buf *out, struct str bytes, const struct mime_part *p)
{
	struct str body = { bytes.p + p->body_at, p->body_size };

	if (p->body_at > bytes.n || p->body_size > bytes.n - p->body_at)
		return;
	switch (p->encoding) {
	case MIME_7BIT:
	case MIME_8BIT:
	case MIME_BINARY:
		buf_add_str(out, body);
		break;
	case MIME_QP:
		decode_qp(out, body);
		break;
	case MIME_BASE64:
		transfer_base64(out, body);
		break;
	}
}

static bool
is_latin(const char *charset)
{
	return strcmp(charset, "iso-8859-1") == 0 ||
	       strcmp(charset, "latin1") == 0;
}

static bool
is_utf8(const char *charset)
{
	return charset[0] == '\0' || strcmp(charset, "utf-8") == 0 ||
	       strcmp(charset, "us-ascii") == 0;
}

/* As windows-1252, which is how programs read it. */
static void
latin_to_utf8(struct buf *text)
{
	struct buf out = { 0 };

	(void)header_charset_text(&out, str_lit("iso-8859-1"), buf_str(text));
	buf_free(text);
	*text = out;
}

/* For postern-decode: the leaf as it stands, or its first lines. */
static struct foreign_text *
note_foreign(struct message_read *r, enum helper_kind kind,
    const struct mime_part *p, const char *type)
{
	const char *charset = p->charset[0] != '\0' ? p->charset : "utf-8";
	struct helper_request ask = { .kind = kind,
		.encoding = p->encoding == MIME_QP       ? HELPER_QP
			    : p->encoding == MIME_BASE64 ? HELPER_BASE64
							 : HELPER_PLAIN,
		.charset = str_of(arena_strdup(&r->mem, charset)),
		.type = str_of(type),
		.bytes = { r->bytes.p + p->body_at, p->body_size } };
	size_t max = kind == HELPER_FILE ? HELPER_FILE_MAX : HELPER_INPUT_MAX;

	if (ask.bytes.n > max) {
		ask.more = true;
		ask.bytes.n = max;
		while (ask.bytes.n > max - 1000 &&
		       ask.bytes.p[ask.bytes.n - 1] != '\n')
			ask.bytes.n--;
	}
	return foreign_leaf(&r->foreign, &ask);
}

static void
show_text(struct message_read *r, struct view_part *to, struct str text)
{
	size_t n = text.n < READ_TEXT_MAX ? text.n : READ_TEXT_MAX;

	to->text = arena_str(&r->mem, (struct str){ text.p, n });
	to->text_n = n;
	to->cut = n < text.n;
}

/* Lines as a reader's program joins them. */
static void
join(struct buf *text)
{
	struct buf joined = { 0 };

	transfer_join(&joined, buf_str(text));
	buf_free(text);
	*text = joined;
}

static void
add_text(struct message_read *r, const struct mime_part *p)
{
	struct view_part *to = &r->parts[r->part_count];
	struct foreign_text **foreign = &r->part_texts[r->part_count++];
	bool is_html = strcmp(p->type, "text/html") == 0;
	struct buf text = { 0 };

	decode_leaf(&text, r->bytes, p);
	to->index = (int)p->ix;
	to->label = is_html ? "HTML source" : "Text";
	to->code = is_html;
	to->type = arena_strdup(&r->mem, p->type);
	if (is_latin(p->charset)) {
		latin_to_utf8(&text);
	} else if (!is_utf8(p->charset)) {
		*foreign = note_foreign(r, HELPER_LEAF, p, to->type);
		to->problem = "This part is in another character set; its "
			      "bytes are shown as they are.";
	} else if (!utf8_valid(buf_str(&text))) {
		to->problem = "This part says it is UTF-8 but is not; wrong "
			      "bytes are marked.";
	}
	if (p->joins)
		join(&text);
	if (*foreign == NULL)
		findings_text(&r->findings, buf_str(&text));
	show_text(r, to, buf_str(&text));
	buf_free(&text);
}

static char *
file_name(struct message_read *r, const struct mime_part *p)
{
	char name[STRUCTURE_NAME_MAX];

	mime_part_name(name, p, r->bytes, foreign_word, &r->foreign);
	return arena_strdup(&r->mem, name);
}

static void
add_file(struct message_read *r, const struct mime_part *p)
{
	struct foreign_text **list = &r->file_lists[r->file_count];
	struct view_file *to = &r->files[r->file_count++];
	unsigned char sha[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];
	struct buf body = { 0 };

	decode_leaf(&body, r->bytes, p);
	SHA256(body.p, body.n, sha);
	hex_encode(text, sha, sizeof(sha));
	to->index = (int)p->ix;
	to->name = file_name(r, p);
	to->type = arena_strdup(&r->mem, p->type);
	to->sniffed = sniff_type(buf_str(&body));
	to->mismatch = !sniff_agrees(p->type, p->filename, to->sniffed);
	to->size = (int64_t)body.n;
	to->sha256 = arena_strdup(&r->mem, text);
	if (strstr(to->sniffed, "archive") != NULL ||
	    finding_name_packs(str_of(to->name)))
		*list = note_foreign(r, HELPER_FILE, p, "");
	findings_file(
	    &r->findings, to->name, p->type, to->sniffed, buf_str(&body));
	buf_free(&body);
}

static bool
read_structure(struct str bytes, struct mime_list *list, const char **why)
{
	struct structure *s = structure_new(mime_list_add, list);
	bool ok = structure_feed(s, bytes.p, bytes.n) == E_NONE &&
		  structure_finish(s) == E_NONE;

	*why = ok ? NULL
		  : "The parts of this message cannot be told apart with "
		    "certainty. Read it raw.";
	structure_free(s);
	mime_list_sort(list);
	return ok;
}

/* What HTML shows and hides: behind all texts, which matter more. */
static void
ask_pages(struct message_read *r)
{
	size_t i, part = 0;

	for (i = 0; i < r->list.count; i++) {
		const struct mime_part *p = &r->list.part[i];

		if (p->kind != MIME_LEAF || !mime_part_is_text(p))
			continue;
		if (r->parts[part].code)
			r->part_pages[part] = note_foreign(
			    r, HELPER_HTML, p, r->parts[part].type);
		part++;
	}
}

static void
read_parts(struct message_read *r)
{
	const struct mime_list *list = &r->list;
	size_t i;

	r->parts = arena_array(&r->mem, list->count + 1, sizeof(*r->parts));
	r->part_texts =
	    arena_array(&r->mem, list->count + 1, sizeof(*r->part_texts));
	r->part_pages =
	    arena_array(&r->mem, list->count + 1, sizeof(*r->part_pages));
	r->file_lists =
	    arena_array(&r->mem, list->count + 1, sizeof(*r->file_lists));
	r->files = arena_array(&r->mem, list->count + 1, sizeof(*r->files));
	for (i = 0; i < list->count; i++)
		if (list->part[i].kind == MIME_LEAF &&
		    mime_part_is_text(&list->part[i]))
			add_text(r, &list->part[i]);
	ask_pages(r);
	for (i = 0; i < list->count; i++)
		if (list->part[i].kind == MIME_LEAF &&
		    !mime_part_is_text(&list->part[i]))
			add_file(r, &list->part[i]);
}

/*
 * Only so much can be asked about on one page (FOREIGN_MAX), so what matters
 * most comes first.
 */
void
message_read(void *arg)
{
	struct message_read *r = arg;
	const char *why;

	r->foreign.mem = &r->mem;
	r->findings.mem = &r->mem;
	with_header(r, read_sender);
	if (read_structure(r->bytes, &r->list, &why))
		read_parts(r);
	else
		r->problem = why;
	with_header(r, read_named);
	with_header(r, list_headers);
}

void
message_read_again(struct message_read *r)
{
	const struct foreign_text *t;
	size_t i, j = 0;

	with_header(r, read_sender);
	for (i = 0; i < r->part_count; i++) {
		t = r->part_texts[i];
		if (t == NULL)
			continue;
		r->parts[i].problem = foreign_notice(t, &r->mem);
		if (!t->is_answered || t->outcome != HELPER_TEXT)
			continue;
		show_text(r, &r->parts[i], t->text);
		r->parts[i].cut |= t->cut;
		findings_text(&r->findings, t->text);
	}
	for (i = 0; i < r->file_count; i++) {
		while (r->list.part[j].ix != (unsigned)r->files[i].index)
			j++;
		r->files[i].name = file_name(r, &r->list.part[j]);
	}
	with_header(r, read_named);
	with_header(r, list_headers);
}

void
message_read_clear(struct message_read *r)
{
	mime_list_free(&r->list);
	arena_free(&r->mem);
}

bool
message_read_leaf(struct str bytes, unsigned ix, struct arena *mem,
    struct buf *out, char **name)
{
	struct mime_list list = { 0 };
	const char *why;
	bool found = false;
	size_t i;

	if (read_structure(bytes, &list, &why))
		for (i = 0; i < list.count; i++) {
			if (list.part[i].ix != ix ||
			    list.part[i].kind != MIME_LEAF)
				continue;
			decode_leaf(out, bytes, &list.part[i]);
			*name = arena_strdup(mem, list.part[i].filename);
			found = true;
		}
	mime_list_free(&list);
	return found;
}
