/* SPDX-License-Identifier: ISC */
/*
 * json.c - a reader that gives up on whatever is not plain, and a writer.
 *
 * The reader decides about nothing: what it does not read is jansson's to
 * read or to refuse (tests/unit/http/test_json.c compares the two).
 */
#include "http/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#define DIGITS_MAX 18 /* fit 64 bits, whatever they are */

struct reader {
	const char *p, *end;
	unsigned depth; /* how much deeper it may get */
	struct buf text; /* of a string with escapes */
};

static json_t *read_value(struct reader *r);

static void
skip_space(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' ||
				    *r->p == '\r' || *r->p == '\t'))
		r->p++;
}

/* The next byte that is no white space, which is taken if it is `c`. */
static bool
take(struct reader *r, char c)
{
	skip_space(r);
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static const char *
plain_end(const char *p, const char *end)
{
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
		p++;
	return p;
}

static bool
take_escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;

	if (r->p == r->end || *r->p == '\0')
		return false;
	at = strchr(from, *r->p++);
	if (at == NULL)
		return false;
	buf_putc(&r->text, to[at - from]);
	return true;
}

/* Behind its first quote. Valid until the next one. */
static bool
take_string(struct reader *r, struct str *s)
{
	const char *stop = plain_end(r->p, r->end);

	*s = (struct str){ r->p, (size_t)(stop - r->p) };
	buf_clear(&r->text);
	while (stop < r->end && *stop == '\\') {
		buf_add(&r->text, r->p, (size_t)(stop - r->p));
		r->p = stop + 1;
		if (!take_escape(r))
			return false;
		stop = plain_end(r->p, r->end);
	}
	if (stop == r->end || *stop != '"')
		return false;
	if (s->p + s->n != stop) {
		buf_add(&r->text, r->p, (size_t)(stop - r->p));
		*s = buf_str(&r->text);
	}
	r->p = stop + 1;
	return true;
}

static json_t *
read_string(struct reader *r)
{
	struct str s;

	if (!take_string(r, &s))
		return NULL;
	return str_has_8bit(s) ? json_stringn(s.p, s.n)
			       : json_stringn_nocheck(s.p, s.n);
}

static json_t *
read_integer(struct reader *r)
{
	bool negative = *r->p == '-';
	const char *first = r->p + negative;
	json_int_t v = 0;

	for (r->p = first; r->p < r->end && *r->p >= '0' && *r->p <= '9' &&
			   r->p - first < DIGITS_MAX;
	     r->p++)
		v = v * 10 + (*r->p - '0');
	if (r->p == first || (*first == '0' && (negative || r->p - first > 1)))
		return NULL;
	return json_integer(negative ? -v : v); /* no delimiter: no value */
}

static json_t *
read_word(struct reader *r, const char *word, json_t *v)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return NULL;
	r->p += n;
	return v;
}

static bool
read_items(struct reader *r, json_t *list)
{
	json_t *v;

	if (take(r, ']'))
		return true;
	do {
		v = read_value(r);
		if (v == NULL || json_array_append_new(list, v) != 0)
			return false;
	} while (take(r, ','));
	return take(r, ']');
}

/* A key and its value, which nothing before has. */
static bool
read_member(struct reader *r, json_t *map)
{
	struct str s;
	char key[64];
	json_t *v;

	if (!take(r, '"') || !take_string(r, &s) || s.n >= sizeof(key) ||
	    str_has_8bit(s) || !take(r, ':'))
		return false;
	if (s.n > 0)
		memcpy(key, s.p, s.n);
	key[s.n] = '\0';
	if (json_object_get(map, key) != NULL)
		return false;
	v = read_value(r);
	return v != NULL && json_object_set_new_nocheck(map, key, v) == 0;
}

static bool
read_members(struct reader *r, json_t *map)
{
	if (take(r, '}'))
		return true;
	do {
		if (!read_member(r, map))
			return false;
	} while (take(r, ','));
	return take(r, '}');
}

/* What one of the brackets at r->p begins. */
static json_t *
read_container(struct reader *r)
{
	bool is_map = *r->p++ == '{', ok;
	json_t *v;

	if (r->depth == 0)
		return NULL;
	r->depth--;
	v = is_map ? json_object() : json_array();
	BUG_ON(v == NULL);
	ok = is_map ? read_members(r, v) : read_items(r, v);
	r->depth++;
	if (ok)
		return v;
	json_decref(v);
	return NULL;
}

static json_t *
read_value(struct reader *r)
{
	skip_space(r);
	if (r->p == r->end)
		return NULL;
	switch (*r->p) {
	case '{':
	case '[':
		return read_container(r);
	case '"':
		r->p++;
		return read_string(r);
	case 't':
		return read_word(r, "true", json_true());
	case 'f':
		return read_word(r, "false", json_false());
	case 'n':
		return read_word(r, "null", json_null());
	default:
		return read_integer(r);
	}
}

json_t *
http_json_read(const char *p, size_t n, unsigned depth)
{
	struct reader r = { .p = p, .end = p + n, .depth = depth };
	json_t *root = NULL;

	skip_space(&r);
	if (r.p < r.end && (*r.p == '{' || *r.p == '['))
		root = read_container(&r);
	skip_space(&r);
	if (r.p != r.end) {
		json_decref(root);
		root = NULL;
	}
	buf_wipe(&r.text); /* maybe of a mail */
	buf_free(&r.text);
	return root;
}

static void
write_escape(struct buf *out, char c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *at = c != '\0' ? strchr(from, c) : NULL;

	if (at == NULL) {
		buf_printf(out, "\\u%04X", (unsigned)(unsigned char)c);
		return;
	}
	buf_putc(out, '\\');
	buf_putc(out, to[at - from]);
}

static void
write_string(struct buf *out, const char *p, size_t n)
{
	const char *end = p + n, *stop;

	buf_putc(out, '"');
	for (;;) {
		stop = plain_end(p, end);
		buf_add(out, p, (size_t)(stop - p));
		if (stop == end)
			break;
		write_escape(out, *stop);
		p = stop + 1;
	}
	buf_putc(out, '"');
}

static void
write_object(struct buf *out, json_t *map)
{
	const char *key, *comma = "";
	json_t *v;

	buf_putc(out, '{');
	json_object_foreach(map, key, v)
	{
		buf_puts(out, comma);
		write_string(out, key, strlen(key));
		buf_putc(out, ':');
		http_json_write(out, v);
		comma = ",";
	}
	buf_putc(out, '}');
}

static void
write_array(struct buf *out, json_t *list)
{
	json_t *v;
	size_t i;

	buf_putc(out, '[');
	json_array_foreach(list, i, v)
	{
		if (i > 0)
			buf_putc(out, ',');
		http_json_write(out, v);
	}
	buf_putc(out, ']');
}

static int
add(const char *p, size_t n, void *out)
{
	buf_add(out, p, n);
	return 0;
}

void
http_json_write(struct buf *out, json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		write_object(out, v);
		break;
	case JSON_ARRAY:
		write_array(out, v);
		break;
	case JSON_STRING:
		write_string(out, json_string_value(v), json_string_length(v));
		break;
	case JSON_INTEGER:
		buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		break;
	case JSON_REAL:
		(void)json_dump_callback(v, add, out, JSON_ENCODE_ANY);
		break;
	case JSON_TRUE:
		buf_puts(out, "true");
		break;
	case JSON_FALSE:
		buf_puts(out, "false");
		break;
	case JSON_NULL:
		buf_puts(out, "null");
		break;
	}
}
