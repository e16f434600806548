/* SPDX-License-Identifier: ISC */
/*
 * header.c - fields of a header section, found once and strictly.
 *
 * Everything that two readers could cut differently is refused here: a name
 * with a space behind it, a line that is only white space, a bare CR or LF.
 */
#include "mail/header.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* freeze() may add fields to a header that is exactly as large as allowed. */
#define HEADER_SLACK 2048
#define HEADER_SLACK_FIELDS 8

static const char why_bytes[] =
    "The header has a bare CR or LF, a NUL or a control character.";

static bool
is_wsp(char c)
{
	return c == ' ' || c == '\t';
}

/* RFC 5322 3.6.8: printable ASCII without the colon. */
static size_t
name_len(struct str line)
{
	size_t i = 0;

	while (i < line.n && line.p[i] >= 33 && line.p[i] <= 126 &&
	       line.p[i] != ':')
		i++;
	return i;
}

/* How many bytes, of eight at a time, are printable ASCII. */
static size_t
plain_len(const char *p, size_t n)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t eight;
	size_t i;

	for (i = 0; n - i >= sizeof(eight); i += sizeof(eight)) {
		memcpy(&eight, p + i, sizeof(eight));
		/* A high bit: of itself, below 0x20, or 0x7f. */
		if (((eight | (eight - ones * 0x20) |
			 ((eight ^ ones * 0x7f) - ones)) &
			ones * 0x80) != 0)
			break;
	}
	return i;
}

/* The next line with its CRLF; `why` when it is none. */
static bool
line_next(struct str *s, struct str *line, struct header *h, const char **why)
{
	const char *nl = memchr(s->p, '\n', s->n);
	unsigned char c;
	size_t i;

	line->p = s->p;
	line->n = nl == NULL ? 0 : (size_t)(nl - s->p) + 1;
	if (line->n < 2 || nl[-1] != '\r') {
		*why = why_bytes;
		return false;
	}
	if (line->n - 2 > HEADER_LINE_MAX) {
		*why = "A header line is longer than 998 bytes.";
		return false;
	}
	i = plain_len(line->p, line->n - 2);
	for (; i < line->n - 2; i++) {
		c = (unsigned char)line->p[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f) {
			*why = why_bytes;
			return false;
		}
		if (c > 0x7f)
			h->has_8bit = true;
	}
	s->p += line->n;
	s->n -= line->n;
	return true;
}

static bool
line_blank(struct str line)
{
	return str_trim((struct str){ line.p, line.n - 2 }).n == 0;
}

/* A continuation goes to the field before it. */
static bool
field_continue(struct header *h, struct str line, const char **why)
{
	struct header_field *f;

	if (h->count == 0) {
		*why = "The header begins with white space.";
		return false;
	}
	if (line_blank(line)) {
		*why = "A header line is only white space.";
		return false;
	}
	f = &h->field[h->count - 1];
	f->raw.n += line.n;
	f->value.n = (size_t)(line.p + line.n - 2 - f->value.p);
	return true;
}

static bool
field_begin(struct header *h, struct str line, size_t *cap, const char **why)
{
	size_t n = name_len(line);
	struct header_field *f;

	if (n == 0 || n > 256 || line.p[n] != ':') {
		*why = "A header line is not `Name: value`.";
		return false;
	}
	if (h->count == HEADER_FIELDS_MAX + HEADER_SLACK_FIELDS) {
		*why = "The header has more than 1000 fields.";
		return false;
	}
	if (h->count == *cap) {
		*cap = *cap == 0 ? 16 : *cap * 2;
		h->field = xreallocarray(h->field, *cap, sizeof(*f));
	}
	f = &h->field[h->count++];
	f->name = (struct str){ line.p, n };
	f->value = (struct str){ line.p + n + 1, line.n - n - 3 };
	f->raw = line;
	return true;
}

bool
header_parse(struct header *h, struct str section, const char **why)
{
	struct str all = section, line;
	size_t cap = 0;
	bool ok = true;

	memset(h, 0, sizeof(*h));
	if (section.n > HEADER_BYTES_MAX + HEADER_SLACK) {
		*why = "The header is larger than 100 KiB.";
		return false;
	}
	while (ok && section.n > 0) {
		ok = line_next(&section, &line, h, why);
		if (ok && is_wsp(line.p[0]))
			ok = field_continue(h, line, why);
		else if (ok)
			ok = field_begin(h, line, &cap, why);
	}
	if (!ok) {
		header_free(h);
		return false;
	}
	h->is_utf8 = h->has_8bit && utf8_valid(all);
	return true;
}

void
header_free(struct header *h)
{
	free(h->field);
	memset(h, 0, sizeof(*h));
}

/* Nearly all differ in the first letter. */
static bool
is_named(const struct header_field *f, const char *name)
{
	return f->name.n > 0 && ((f->name.p[0] ^ name[0]) & 0x5f) == 0 &&
	       str_ieq(f->name, str_of(name));
}

const struct header_field *
header_find(const struct header *h, const char *name, size_t nth)
{
	size_t i;

	for (i = 0; i < h->count; i++) {
		if (is_named(&h->field[i], name) && nth-- == 0)
			return &h->field[i];
	}
	return NULL;
}

size_t
header_count(const struct header *h, const char *name)
{
	size_t i, n = 0;

	for (i = 0; i < h->count; i++)
		n += is_named(&h->field[i], name);
	return n;
}

bool
header_name_is(struct str name, const char *pattern)
{
	size_t n;

	if (name.n == 0 || ((name.p[0] ^ pattern[0]) & 0x5f) != 0)
		return false; /* as nearly all */
	n = strlen(pattern);
	if (pattern[n - 1] == '*')
		return str_istarts(name, (struct str){ pattern, n - 1 });
	return str_ieq(name, (struct str){ pattern, n });
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str
header_trim(struct str value)
{
	while (value.n > 0 && is_blank(value.p[0])) {
		value.p++;
		value.n--;
	}
	while (value.n > 0 && is_blank(value.p[value.n - 1]))
		value.n--;
	return value;
}

void
header_unfold(struct buf *out, struct str value)
{
	size_t i;

	value = header_trim(value);
	for (i = 0; i < value.n; i++) {
		if (value.p[i] != '\r' && value.p[i] != '\n')
			buf_putc(out, value.p[i]);
	}
}

/* RFC 5322 msg-id, and nothing that needs quoting. */
bool
header_id_valid(struct str id)
{
	const char *at;
	size_t i;

	if (id.n < 5 || id.n > 250 || id.p[0] != '<' || id.p[id.n - 1] != '>')
		return false;
	for (i = 1; i < id.n - 1; i++) {
		if (id.p[i] <= 32 || id.p[i] >= 127 ||
		    strchr("<>(),;\\\"", id.p[i]) != NULL)
			return false;
	}
	at = memchr(id.p, '@', id.n);
	return at != NULL && at > id.p + 1 && at < id.p + id.n - 2 &&
	       memchr(at + 1, '@', (size_t)(id.p + id.n - at - 1)) == NULL;
}

size_t
header_ids(struct str value, struct str *id, size_t max)
{
	const char *open, *end;
	size_t n = 0;
	struct str one;

	while (n < max && (open = memchr(value.p, '<', value.n)) != NULL) {
		value.n -= (size_t)(open - value.p);
		value.p = open;
		end = memchr(value.p, '>', value.n);
		if (end == NULL)
			break;
		one = (struct str){ open, (size_t)(end - open) + 1 };
		if (header_id_valid(one))
			id[n++] = one;
		value.n -= one.n;
		value.p += one.n;
	}
	return n;
}

struct str
header_take_field(struct str *section)
{
	struct str field = { section->p, 0 };
	const char *nl;
	size_t at = 0;

	while ((nl = memchr(section->p + at, '\n', section->n - at)) != NULL) {
		at = (size_t)(nl - section->p) + 1;
		if (at == section->n ||
		    (section->p[at] != ' ' && section->p[at] != '\t'))
			break;
	}
	if (nl == NULL)
		at = section->n;
	field.n = at;
	section->p += at;
	section->n -= at;
	while (field.n > 0 &&
	       (field.p[field.n - 1] == '\n' || field.p[field.n - 1] == '\r'))
		field.n--;
	return field;
}
