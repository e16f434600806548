/* SPDX-License-Identifier: ISC */
/*
 * structure.c - one pass over a message, line by line, with a stack of the
 * entities that are open.
 *
 * Only the beginning of a line is kept, enough for a header line or a
 * boundary. A line that begins like a boundary of an open multipart but is
 * not exactly one is refused: RFC 2046 lets programs match the beginning
 * only, and many compare the whole line.
 */
#include "mail/structure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/entity.h"
#include "mail/header.h"
#include "mail/leaf.h"

#define LINE_KEEP (HEADER_LINE_MAX + 2)
#define PART_HEADER_MAX (32 * 1024)

enum place {
	IN_HEADER,
	IN_BODY, /* of a leaf */
	IN_PREAMBLE,
	IN_EPILOGUE,
};

/* An entity that has begun and not ended. */
struct level {
	struct mime_part part;
	struct entity entity;
	struct leaf leaf;
	enum place place;
	bool closed; /* its closing boundary was seen */
	unsigned children;
	bool text_seen; /* preamble or epilogue is not blank */
	uint64_t text_at; /* where that began */
};

struct structure {
	structure_part_fn *part;
	void *arg;
	enum err_code code;
	const char *why;
	struct level *level[STRUCTURE_DEPTH_MAX + 1];
	size_t depth; /* levels open */
	struct buf head; /* header section so far */
	struct buf line; /* beginning of a line that is not complete */
	bool line_long; /* more than LINE_KEEP, the rest is dropped */
	uint64_t at; /* offset of the current line */
	uint64_t line_size; /* bytes of it so far */
	unsigned ix, parts, attachments;
	bool ascii_headers, utf8_headers, finished;
	const struct structure_watch *watch;
	size_t watched; /* depth of the part looked into, 0 = none */
	bool watch_crlf; /* a CRLF of it is withheld */
};

static bool
fail(struct structure *s, enum err_code code, const char *why)
{
	s->code = code;
	s->why = why;
	return false;
}

static struct level *
top(struct structure *s)
{
	return s->level[s->depth - 1];
}

/* A new entity whose header begins at `at`. */
static bool
push(struct structure *s, uint64_t at)
{
	struct level *l, *up = s->depth > 0 ? top(s) : NULL;
	int n = 0;

	if (s->depth == STRUCTURE_DEPTH_MAX + 1 ||
	    s->parts == STRUCTURE_PARTS_MAX)
		return fail(s, E_MIME_TOO_COMPLEX,
		    "MIME parts are nested deeper than 50 or are more than "
		    "1000.");
	l = xcalloc(1, sizeof(*l));
	s->level[s->depth++] = l;
	l->part.ix = s->ix++;
	l->part.depth = (unsigned)s->depth - 1;
	l->part.header_at = at;
	l->entity.part = &l->part;
	s->parts++;
	buf_clear(&s->head);
	if (up == NULL)
		return true;
	l->part.parent = up->part.ix;
	l->entity.is_message = up->part.kind == MIME_MESSAGE;
	n = snprintf(l->part.path, STRUCTURE_PATH_MAX, "%s%s%u", up->part.path,
	    up->part.path[0] != '\0' ? "." : "", ++up->children);
	BUG_ON(n < 0 || n >= STRUCTURE_PATH_MAX);
	return true;
}

/* Text outside of parts, as a part of its own. */
static void
text_emit(
    struct structure *s, struct level *l, enum mime_kind kind, uint64_t end)
{
	struct mime_part p = { .kind = kind,
		.parent = l->part.ix,
		.depth = l->part.depth + 1,
		.header_at = l->text_at,
		.body_at = l->text_at,
		.body_size = end - l->text_at };

	if (!l->text_seen || s->part == NULL)
		return;
	p.ix = s->ix++;
	memcpy(p.path, l->part.path, sizeof(p.path));
	memcpy(p.type, "text/plain", 11);
	s->part(s->arg, &p);
}

static bool
counts_as_attachment(const struct mime_part *p)
{
	return p->kind == MIME_MESSAGE ||
	       (p->kind == MIME_LEAF && !mime_part_is_text(p));
}

/*
 * A line of the part that is watched. Its CRLF waits until it is known not
 * to belong to a boundary.
 */
static void
watch_line(struct structure *s, struct str line)
{
	const struct level *l;
	size_t n = line.n;

	if (s->watched == 0)
		return;
	l = s->level[s->watched - 1];
	if (s->at < l->part.body_at)
		return;
	if (s->watch_crlf)
		s->watch->data(s->arg, "\r\n", 2);
	s->watch_crlf =
	    n >= 2 && line.p[n - 2] == '\r' && line.p[n - 1] == '\n';
	if (s->watch_crlf)
		n -= 2;
	if (n > 0)
		s->watch->data(s->arg, line.p, n);
}

/* The part on top begins its body; does anybody want it? */
static void
watch_begin(struct structure *s)
{
	if (s->watch == NULL || s->watched != 0 ||
	    !s->watch->begin(s->arg, &top(s)->part))
		return;
	s->watched = s->depth;
	s->watch_crlf = false;
}

/* The part on top is over at `end`. */
static void
watch_end(struct structure *s, uint64_t end)
{
	if (s->watched != s->depth)
		return;
	if (s->watch_crlf && end == s->at)
		s->watch->data(s->arg, "\r\n", 2);
	s->watched = 0;
}

/* The innermost entity ends at `end`. */
static bool
pop(struct structure *s, uint64_t end)
{
	struct level *l = top(s);
	const char *why = "";

	if (l->place == IN_HEADER)
		return fail(s, E_MESSAGE_MALFORMED,
		    "A part's header has no empty line behind it.");
	if (l->part.kind == MIME_MULTIPART && !l->closed)
		return fail(s, E_MESSAGE_MALFORMED,
		    "A multipart has no closing boundary.");
	if (l->part.kind == MIME_LEAF && !leaf_end(&l->leaf, &l->part, &why))
		return fail(s, E_MESSAGE_MALFORMED, why);
	if (end < l->part.body_at)
		end = l->part.body_at;
	l->part.body_size = end - l->part.body_at;
	if (l->place == IN_EPILOGUE && end > l->text_at)
		text_emit(s, l, MIME_EPILOGUE, end);
	watch_end(s, end);
	s->attachments += counts_as_attachment(&l->part);
	if (s->part != NULL)
		s->part(s->arg, &l->part);
	free(l);
	s->level[--s->depth] = NULL;
	return true;
}

enum match {
	MATCH_NONE,
	MATCH_NEXT,
	MATCH_CLOSE,
	MATCH_UNCLEAR,
};

/* Does a line (with its line end) delimit `boundary`? */
static enum match
match(struct str line, const char *boundary)
{
	size_t n = strlen(boundary);

	if (line.n < n + 2 || memcmp(line.p + 2, boundary, n) != 0)
		return MATCH_NONE;
	line.p += n + 2;
	line.n -= n + 2;
	if (str_eq(line, str_lit("\r\n")) || line.n == 0)
		return MATCH_NEXT;
	if (str_eq(line, str_lit("--\r\n")) || str_eq(line, str_lit("--")))
		return MATCH_CLOSE;
	return MATCH_UNCLEAR;
}

/* At a boundary of level `i`, `at` = where its line begins. */
static bool
boundary(
    struct structure *s, size_t i, bool is_last, uint64_t at, uint64_t next)
{
	struct level *l = s->level[i];
	uint64_t end = at >= 2 ? at - 2 : 0;

	if (l->closed)
		return fail(s, E_MESSAGE_MALFORMED,
		    "A multipart goes on behind its closing boundary.");
	while (s->depth > i + 1) {
		if (!pop(s, end))
			return false;
	}
	if (l->place == IN_PREAMBLE) {
		if (end > l->text_at)
			text_emit(s, l, MIME_PREAMBLE, end);
		if (is_last)
			return fail(
			    s, E_MESSAGE_MALFORMED, "A multipart has no part.");
	}
	l->text_seen = false;
	l->text_at = next;
	l->place = IN_EPILOGUE;
	l->closed = is_last;
	return is_last || push(s, next);
}

/* Is the line a boundary of an open multipart? `done` says it was one. */
static bool
try_boundary(struct structure *s, struct str line, bool *done)
{
	enum match m;
	size_t i;

	*done = false;
	for (i = s->depth; i-- > 0;) {
		if (s->level[i]->part.kind != MIME_MULTIPART ||
		    s->level[i]->place == IN_HEADER)
			continue;
		m = match(line, s->level[i]->entity.boundary);
		if (m == MATCH_UNCLEAR)
			return fail(s, E_MESSAGE_MALFORMED,
			    "A line begins like a boundary and is none.");
		if (m == MATCH_NONE)
			continue;
		*done = true;
		return boundary(s, i, m == MATCH_CLOSE, s->at, s->at + line.n);
	}
	return true;
}

/* No boundary may be the beginning of another that is open. */
static bool
boundary_unique(struct structure *s)
{
	const char *mine = top(s)->entity.boundary, *other;
	size_t i, n = strlen(mine), m;

	for (i = 0; i + 1 < s->depth; i++) {
		if (s->level[i]->part.kind != MIME_MULTIPART)
			continue;
		other = s->level[i]->entity.boundary;
		m = strlen(other);
		if (memcmp(mine, other, m < n ? m : n) == 0)
			return fail(s, E_MESSAGE_MALFORMED,
			    "One boundary begins with another.");
	}
	return true;
}

static bool
in_digest(const struct structure *s)
{
	return s->depth > 1 && s->level[s->depth - 2]->entity.is_digest;
}

/* The empty line behind a header; `next` = where the body begins. */
static bool
header_end(struct structure *s, uint64_t next)
{
	struct level *l = top(s);
	const char *why = "";

	if (!entity_read(&l->entity, buf_str(&s->head),
		in_digest(s) ? "message/rfc822" : "text/plain", &why))
		return fail(s, E_MESSAGE_MALFORMED, why);
	s->utf8_headers |= l->entity.has_8bit;
	if (s->ascii_headers && s->depth > 1 && l->entity.has_8bit)
		return fail(s, E_SMTPUTF8_NEEDED,
		    "The header of a part has bytes above 127.");
	buf_clear(&s->head);
	l->part.header_size = next - l->part.header_at;
	l->part.body_at = next;
	l->text_at = next;
	switch (l->part.kind) {
	case MIME_MULTIPART:
		l->place = IN_PREAMBLE;
		return boundary_unique(s);
	case MIME_MESSAGE:
		l->place = IN_BODY;
		watch_begin(s);
		return push(s, next);
	case MIME_LEAF:
	case MIME_PREAMBLE:
	case MIME_EPILOGUE:
		break;
	}
	l->place = IN_BODY;
	watch_begin(s);
	return true;
}

static bool
header_line(struct structure *s, struct str line)
{
	if (s->line_long)
		return fail(s, E_MESSAGE_MALFORMED,
		    "A header line is longer than 998 bytes.");
	if (str_eq(line, str_lit("\r\n")))
		return header_end(s, s->at + 2);
	buf_add_str(&s->head, line);
	if (s->depth > 1 && s->head.n > PART_HEADER_MAX)
		return fail(s, E_MIME_TOO_COMPLEX,
		    "The header of a part is larger than 32 KiB.");
	if (s->head.n > 2 * HEADER_BYTES_MAX)
		return fail(s, E_MESSAGE_MALFORMED,
		    "The header is larger than 100 KiB.");
	return true;
}

/* Text before or behind the parts of a multipart. */
static bool
stray_line(struct structure *s, struct str line)
{
	struct level *l = top(s);

	if (str_trim(line).n > 2 || (line.n > 0 && line.p[0] > 32))
		l->text_seen = true;
	if (l->place == IN_PREAMBLE && str_istarts(line, str_lit("content-")))
		return fail(s, E_MESSAGE_MALFORMED,
		    "A part's header stands before the first boundary.");
	return true;
}

/* One line with its line end; may be cut when it is very long. */
static bool
take_line(struct structure *s, struct str line)
{
	struct level *l;
	const char *why = "";
	bool done = false;

	if (line.n >= 2 && line.p[0] == '-' && line.p[1] == '-' &&
	    !try_boundary(s, line, &done))
		return false;
	watch_line(s, line);
	if (done)
		return true;
	l = top(s);
	switch (l->place) {
	case IN_HEADER:
		return header_line(s, line);
	case IN_PREAMBLE:
	case IN_EPILOGUE:
		return stray_line(s, line);
	case IN_BODY:
		break;
	}
	return s->line_long || leaf_line(&l->leaf, &l->part, line, &why) ||
	       fail(s, E_MESSAGE_MALFORMED, why);
}

struct structure *
structure_new(structure_part_fn *part, void *arg)
{
	struct structure *s = xcalloc(1, sizeof(*s));

	s->part = part;
	s->arg = arg;
	s->why = "";
	(void)push(s, 0);
	return s;
}

void
structure_set_watch(struct structure *s, const struct structure_watch *watch)
{
	s->watch = watch;
}

void
structure_ascii_headers(struct structure *s)
{
	s->ascii_headers = true;
}

void
structure_free(struct structure *s)
{
	if (s == NULL)
		return;
	while (s->depth > 0)
		free(s->level[--s->depth]);
	buf_free(&s->head);
	buf_free(&s->line);
	free(s);
}

/* Keep the beginning of a line whose end has not come yet. */
static void
line_keep(struct structure *s, const char *p, size_t n)
{
	size_t room = LINE_KEEP - s->line.n;

	s->line_size += n;
	if (n > room) {
		s->line_long = true;
		n = room;
	}
	buf_add(&s->line, p, n);
}

static void
line_done(struct structure *s)
{
	s->at += s->line_size;
	s->line_size = 0;
	s->line_long = false;
	buf_clear(&s->line);
}

enum err_code
structure_feed(struct structure *s, const void *p, size_t n)
{
	const char *in = p, *nl;
	struct str line;
	size_t len;

	while (n > 0 && s->code == E_NONE) {
		nl = memchr(in, '\n', n);
		len = nl == NULL ? n : (size_t)(nl - in) + 1;
		if (nl == NULL) {
			line_keep(s, in, len);
			break;
		}
		if (s->line.n > 0) {
			line_keep(s, in, len);
			line = buf_str(&s->line);
		} else {
			s->line_size = len;
			s->line_long = len > LINE_KEEP;
			line =
			    (struct str){ in, s->line_long ? LINE_KEEP : len };
		}
		if (!take_line(s, line))
			break;
		line_done(s);
		in += len;
		n -= len;
	}
	return s->code;
}

enum err_code
structure_finish(struct structure *s)
{
	if (s->code == E_NONE && !s->finished) {
		if (s->line.n > 0 && take_line(s, buf_str(&s->line)))
			line_done(s);
		while (s->code == E_NONE && s->depth > 0)
			(void)pop(s, s->at);
		s->finished = true;
	}
	return s->code;
}

const char *
structure_why(const struct structure *s)
{
	return s->why;
}

unsigned
structure_parts(const struct structure *s)
{
	return s->parts;
}

bool
structure_utf8_headers(const struct structure *s)
{
	return s->utf8_headers;
}

unsigned
structure_attachments(const struct structure *s)
{
	return s->attachments;
}
