/* SPDX-License-Identifier: ISC */
/*
 * mailbox.c - address lists, iterative and without the obsolete forms.
 *
 * A list is cut into tokens; a small state machine turns them into
 * mailboxes. Nothing here is guessed: what does not fit is refused.
 */
#include "mail/mailbox.h"

#include <string.h>

#include "mail/header.h"

enum token {
	TOKEN_END,
	TOKEN_ATOM, /* a run of characters without specials, or a string */
	TOKEN_STRING,
	TOKEN_ANGLE, /* <...>; text without the brackets */
	TOKEN_COMMA,
	TOKEN_COLON,
	TOKEN_SEMICOLON,
	TOKEN_BAD,
};

struct lexer {
	struct str s;
	struct str text; /* of the last token */
	const char *why;
	bool comments; /* allowed */
};

static void
advance(struct lexer *l, size_t n)
{
	l->s.p += n;
	l->s.n -= n;
}

static enum token
bad(struct lexer *l, const char *why)
{
	l->why = why;
	return TOKEN_BAD;
}

/* At '(': skip the comment. */
static bool
skip_comment(struct lexer *l)
{
	unsigned depth = 0;
	size_t i;

	for (i = 0; i < l->s.n; i++) {
		if (l->s.p[i] == '\\')
			i++;
		else if (l->s.p[i] == '(' && ++depth > MAILBOX_COMMENT_DEPTH)
			return false;
		else if (l->s.p[i] == ')' && --depth == 0)
			break;
	}
	if (i >= l->s.n)
		return false;
	advance(l, i + 1);
	return true;
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Length of a quoted string with both quotes, 0 when it does not end. */
static size_t
string_len(struct str s)
{
	size_t i;

	for (i = 1; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			return i + 1;
	}
	return 0;
}

/* Length of "<...>" with the brackets, 0 when it does not end. */
static size_t
angle_len(struct str s)
{
	size_t i, n;

	for (i = 1; i < s.n; i++) {
		if (s.p[i] == '>')
			return i + 1;
		if (s.p[i] == '<')
			return 0;
		if (s.p[i] == '"') {
			n = string_len((struct str){ s.p + i, s.n - i });
			if (n == 0)
				return 0;
			i += n - 1;
		}
	}
	return 0;
}

static size_t
atom_len(struct str s)
{
	size_t i = 0;

	while (i < s.n && !is_space(s.p[i]) &&
	       memchr("()<>[]:;,\"\\", s.p[i], 11) == NULL)
		i++;
	return i;
}

static enum token
next_long(struct lexer *l)
{
	enum token t = TOKEN_ATOM;
	size_t n;

	if (l->s.p[0] == '<') {
		n = angle_len(l->s);
		if (n == 0)
			return bad(l, "An angle bracket is not closed.");
		l->text = (struct str){ l->s.p + 1, n - 2 };
		t = TOKEN_ANGLE;
	} else if (l->s.p[0] == '"') {
		n = string_len(l->s);
		if (n == 0)
			return bad(l, "A quoted string is not closed.");
		l->text = (struct str){ l->s.p, n };
		t = TOKEN_STRING;
	} else {
		n = atom_len(l->s);
		if (n == 0)
			return bad(l, "A character is not allowed here.");
		l->text = (struct str){ l->s.p, n };
	}
	advance(l, n);
	return t;
}

static enum token
next(struct lexer *l)
{
	for (;;) {
		if (l->s.n > 0 && is_space(l->s.p[0])) {
			advance(l, 1);
		} else if (l->s.n > 0 && l->s.p[0] == '(') {
			if (!l->comments)
				return bad(l, "Comments are not allowed here.");
			if (!skip_comment(l))
				return bad(l, "A comment is not closed.");
		} else {
			break;
		}
	}
	if (l->s.n == 0)
		return TOKEN_END;
	l->text = (struct str){ l->s.p, 1 };
	switch (l->s.p[0]) {
	case ',':
		advance(l, 1);
		return TOKEN_COMMA;
	case ':':
		advance(l, 1);
		return TOKEN_COLON;
	case ';':
		advance(l, 1);
		return TOKEN_SEMICOLON;
	default:
		return next_long(l);
	}
}

/* Words before "<...>", ":" or the end of a mailbox. */
struct words {
	struct str first, all; /* from the first to the last */
	size_t count;
	bool has_at; /* an unquoted word with '@' */
};

static void
words_add(struct words *w, struct lexer *l, enum token t)
{
	if (w->count++ == 0)
		w->first = w->all = l->text;
	w->all.n = (size_t)(l->text.p + l->text.n - w->all.p);
	if (t == TOKEN_ATOM && memchr(l->text.p, '@', l->text.n) != NULL)
		w->has_at = true;
}

/* One mailbox is complete: `spec` in brackets, or the words themselves. */
static bool
mailbox_make(struct mailbox *m, const struct words *w, const struct str *angle,
    const char **why)
{
	enum address_result r;

	memset(m, 0, sizeof(*m));
	if (angle != NULL) {
		if (w->has_at) {
			*why = "A display name has an unquoted \"@\".";
			return false;
		}
		m->name = w->count > 0 ? w->all : str_lit("");
		m->spec = *angle;
		if (angle->n > 0 && angle->p[0] == '@') {
			*why = address_result_text(ADDRESS_ROUTE);
			return false;
		}
	} else {
		/* "quoted"@domain lexes as two words that touch */
		m->spec = w->all;
		m->name = str_lit("");
	}
	r = address_parse(&m->address, m->spec);
	if (r != ADDRESS_OK)
		*why = address_result_text(r);
	return r == ADDRESS_OK;
}

struct list_state {
	struct lexer l;
	struct words w;
	struct str angle;
	bool has_angle, in_group, ended;
	size_t count, in_this; /* mailboxes; since the group began */
	mailbox_fn *fn;
	void *arg;
};

/* A ',' or ';' or the end: hand out what was collected. */
static bool
element_end(struct list_state *st, bool may_be_empty)
{
	struct mailbox m;

	if (st->w.count == 0 && !st->has_angle) {
		st->l.why = "An address is missing.";
		return may_be_empty;
	}
	if (!mailbox_make(
		&m, &st->w, st->has_angle ? &st->angle : NULL, &st->l.why))
		return false;
	if (++st->count > MAILBOX_LIST_MAX) {
		st->l.why = "A header names more than 1000 addresses.";
		return false;
	}
	st->in_this++;
	memset(&st->w, 0, sizeof(st->w));
	st->has_angle = false;
	return st->fn == NULL || st->fn(st->arg, &m);
}

/* "name:" begins a group. */
static bool
group_begin(struct list_state *st)
{
	if (st->in_group || st->has_angle || st->w.count == 0 || st->w.has_at) {
		st->l.why = "A group is malformed or inside another one.";
		return false;
	}
	memset(&st->w, 0, sizeof(st->w));
	st->in_group = true;
	st->in_this = 0;
	return true;
}

/* ";" ends it; a comma or the end must follow. */
static bool
group_end(struct list_state *st)
{
	enum token t;

	if (!st->in_group || !element_end(st, st->in_this == 0)) {
		if (!st->in_group)
			st->l.why = "A \";\" ends no group.";
		return false;
	}
	st->in_group = false;
	t = next(&st->l);
	st->ended = t == TOKEN_END;
	if (!st->ended && t != TOKEN_COMMA) {
		st->l.why = "A comma is missing between addresses.";
		return false;
	}
	return true;
}

/* One token; false when wrong. */
static bool
step(struct list_state *st, enum token t)
{
	switch (t) {
	case TOKEN_BAD:
		return false;
	case TOKEN_ATOM:
	case TOKEN_STRING:
		if (st->has_angle) {
			st->l.why = "Text follows an address.";
			return false;
		}
		words_add(&st->w, &st->l, t);
		return true;
	case TOKEN_ANGLE:
		if (st->has_angle) {
			st->l.why = "A comma is missing between addresses.";
			return false;
		}
		st->angle = st->l.text;
		st->has_angle = true;
		return true;
	case TOKEN_COLON:
		return group_begin(st);
	case TOKEN_COMMA:
		return element_end(st, false);
	case TOKEN_SEMICOLON:
		return group_end(st);
	case TOKEN_END:
		st->ended = true;
		if (st->in_group) {
			st->l.why = "A group is not closed by \";\".";
			return false;
		}
		return element_end(st, false);
	}
	return false;
}

bool
mailbox_list_parse(
    struct str value, mailbox_fn *fn, void *arg, const char **why)
{
	struct list_state st = {
		.l = { .s = value, .comments = true }, .fn = fn, .arg = arg
	};
	bool ok = true;

	st.l.why = "The address list is malformed.";
	while (ok && !st.ended)
		ok = step(&st, next(&st.l));
	*why = ok ? "" : st.l.why;
	return ok;
}

void
mailbox_name_text(struct buf *out, const struct mailbox *m)
{
	mailbox_name_text_with(out, m, NULL, NULL);
}

void
mailbox_name_text_with(
    struct buf *out, const struct mailbox *m, header_word_fn *fn, void *arg)
{
	struct buf plain = { 0 };
	bool quoted = false;
	size_t i;

	for (i = 0; i < m->name.n; i++) {
		if (m->name.p[i] == '"') {
			quoted = !quoted;
		} else {
			if (quoted && m->name.p[i] == '\\' && i + 1 < m->name.n)
				i++;
			buf_putc(&plain, m->name.p[i]);
		}
	}
	header_decode_with(out, buf_str(&plain), NULL, fn, arg);
	buf_free(&plain);
}

/* '@' in any of its shapes, or a character that hides or turns text. */
static bool
name_poses(struct str text)
{
	int32_t c;

	while (text.n > 0) {
		c = utf8_next(&text);
		if (c == '@' || c == 0xff20 || c == 0xfe6b || c == 0xfffd ||
		    c == '<' || c == '>' || (c >= 0x202a && c <= 0x202e) ||
		    (c >= 0x2066 && c <= 0x2069) || c == 0x200b ||
		    c == 0xfeff || c == 0x2060 || (c >> 8) == 0xe00)
			return true;
	}
	return false;
}

/* What the name says must not be another address. */
static bool
name_check(const struct mailbox *m, const char **why)
{
	struct buf text = { 0 };
	struct address a;
	bool ok;

	if (m->name.n == 0)
		return true;
	mailbox_name_text(&text, m);
	ok = !name_poses(buf_str(&text)) ||
	     (address_parse(&a, str_trim(buf_str(&text))) == ADDRESS_OK &&
		 address_eq(&a, &m->address));
	if (!ok)
		*why = "The display name looks like an address or hides text.";
	if (ok && strstr(buf_cstr(&text), "=?") != NULL) {
		*why = "The display name has an encoded word that is not "
		       "UTF-8, ASCII or Latin-1.";
		ok = false;
	}
	buf_free(&text);
	return ok;
}

bool
mailbox_parse_strict(struct str value, struct mailbox *out, const char **why)
{
	struct lexer l = { .s = value };
	struct words w = { 0 };
	struct str angle;
	bool has_angle = false;
	enum token t;

	*why = "";
	l.why = "";
	while ((t = next(&l)) != TOKEN_END) {
		if (t == TOKEN_ANGLE && !has_angle) {
			angle = l.text;
			has_angle = true;
		} else if ((t == TOKEN_ATOM || t == TOKEN_STRING) &&
			   !has_angle) {
			words_add(&w, &l, t);
		} else {
			*why = t == TOKEN_BAD ? l.why
					      : "Exactly one address is "
						"needed, without groups.";
			return false;
		}
	}
	if (w.count == 0 && !has_angle) {
		*why = "An address is missing.";
		return false;
	}
	return mailbox_make(out, &w, has_angle ? &angle : NULL, why) &&
	       name_check(out, why);
}
