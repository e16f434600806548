/* SPDX-License-Identifier: ISC */
/* cut.c - see cut.h. */
#include "http/cut.h"

#include <stdio.h>
#include <string.h>

#include "base/codec.h"

enum state {
	BETWEEN, /* not in a string */
	STRING,
	STRING_ESCAPE,
	CONTENT,
	CONTENT_ESCAPE,
	CONTENT_HEX,
};

void
http_cut_init(struct http_cut *c, const char *token, size_t rest_max,
    http_cut_fn *out, void *arg)
{
	memset(c, 0, sizeof(*c));
	c->out = out;
	c->arg = arg;
	c->rest_max = rest_max;
	snprintf(c->token, sizeof(c->token), "%s", token);
}

void
http_cut_free(struct http_cut *c)
{
	buf_wipe(&c->rest);
	buf_free(&c->rest);
}

bool
http_cut_keep(struct http_cut *c, const char *p, size_t n)
{
	if (n > c->rest_max - c->rest.n)
		c->too_large = true;
	else
		buf_add(&c->rest, p, n);
	return !c->too_large;
}

static struct http_cut_part *
current(struct http_cut *c)
{
	return &c->part[c->part_count - 1];
}

bool
http_cut_open(struct http_cut *c, char name[HTTP_CUT_NAME])
{
	if (c->part_count == HTTP_CUT_MAX)
		return false;
	c->part[c->part_count] = (struct http_cut_part){ .at = c->total };
	snprintf(name, HTTP_CUT_NAME, "%s:%u", c->token, c->part_count);
	c->part_count++;
	return true;
}

bool
http_cut_add(struct http_cut *c, const void *p, size_t n)
{
	if (!c->out(c->arg, p, n)) {
		c->failed = true;
		return false;
	}
	current(c)->n += n;
	c->total += n;
	return true;
}

/* Decode what was gathered. Only the last block may have padding. */
static void
flush_block(struct http_cut *c, bool last)
{
	unsigned char bytes[HTTP_CUT_BLOCK / 4 * 3];
	struct http_cut_part *part = current(c);
	size_t n = 0;

	if (!base64_decode(bytes, &n, c->block, c->block_n) ||
	    (!last && n != sizeof(bytes)))
		part->bad = true;
	c->block_n = 0;
	if (part->bad || n == 0 || c->part_count == HTTP_CUT_MAX)
		return;
	if (!c->out(c->arg, bytes, n)) {
		c->failed = true;
		return;
	}
	part->n += n;
	c->total += n;
}

static void
begin_content(struct http_cut *c)
{
	char text[HTTP_CUT_TOKEN + 32];

	if (c->part_count < HTTP_CUT_MAX)
		c->part_count++;
	*current(c) = (struct http_cut_part){ .at = c->total };
	snprintf(text, sizeof(text), "\"%s:%u\"", c->token, c->part_count - 1);
	http_cut_keep(c, text, strlen(text));
	c->block_n = 0;
	c->state = CONTENT;
}

static void
content_char(struct http_cut *c, char ch)
{
	if (c->block_n == sizeof(c->block))
		flush_block(c, false);
	c->block[c->block_n++] = ch;
}

static void
end_string(struct http_cut *c)
{
	c->state = BETWEEN;
	if (!c->key_due)
		return;
	if (c->depth == 1)
		c->in_list =
		    c->name_n == 11 && memcmp(c->name, "attachments", 11) == 0;
	else if (c->depth == 3)
		c->in_content =
		    c->name_n == 7 && memcmp(c->name, "content", 7) == 0;
}

static bool
is_object(const struct http_cut *c)
{
	return c->depth >= 1 && c->depth <= 3 && c->kind[c->depth] == '{';
}

static void
open_string(struct http_cut *c)
{
	if (!c->key_due && c->depth == 3 && c->in_list && c->in_content &&
	    c->kind[1] == '{' && c->kind[2] == '[' && c->kind[3] == '{') {
		begin_content(c);
		return;
	}
	c->name_n = 0;
	c->state = STRING;
	http_cut_keep(c, "\"", 1);
}

static void
between(struct http_cut *c, char ch)
{
	if (ch == '"') {
		open_string(c);
		return;
	}
	http_cut_keep(c, &ch, 1);
	if (ch == '{' || ch == '[') {
		c->depth++;
		if (c->depth >= 1 && c->depth <= 3)
			c->kind[c->depth] = ch;
		c->key_due = is_object(c);
		if (c->depth == 3)
			c->in_content = false;
	} else if (ch == '}' || ch == ']') {
		c->depth--;
		c->key_due = false;
	} else if (ch == ',') {
		c->key_due = is_object(c);
	} else if (ch == ':') {
		c->key_due = false;
	}
}

/* As much of a string as is plain; its length. */
static size_t
string(struct http_cut *c, const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && p[i] != '"' && p[i] != '\\'; i++)
		if (c->name_n < sizeof(c->name))
			c->name[c->name_n++] = p[i];
	if (i < n) {
		if (p[i] == '"')
			end_string(c);
		else
			c->state = STRING_ESCAPE;
		/* a name with an escape is none of those we look for */
		if (p[i] == '\\')
			c->name_n = sizeof(c->name);
		i++;
	}
	http_cut_keep(c, p, i);
	return i;
}

static size_t
content(struct http_cut *c, const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && p[i] != '"' && p[i] != '\\'; i++)
		content_char(c, p[i]);
	if (i == n)
		return n;
	if (p[i] == '"') {
		flush_block(c, true);
		c->state = BETWEEN;
	} else {
		c->state = CONTENT_ESCAPE;
	}
	return i + 1;
}

static void
content_escape(struct http_cut *c, char ch)
{
	c->state = CONTENT;
	if (ch == '/') {
		content_char(c, ch);
	} else if (ch == 'u') {
		c->state = CONTENT_HEX;
		c->hex = c->hex_n = 0;
	} else {
		current(c)->bad = true;
	}
}

static void
content_hex(struct http_cut *c, char ch)
{
	const char *digits = "0123456789abcdef";
	const char *at = strchr(digits, ch >= 'A' && ch <= 'F' ? ch | 32 : ch);

	if (ch == '\0' || at == NULL) {
		current(c)->bad = true;
		c->state = ch == '"' ? BETWEEN : CONTENT;
		return;
	}
	c->hex = c->hex << 4 | (unsigned)(at - digits);
	if (++c->hex_n < 4)
		return;
	c->state = CONTENT;
	if (c->hex < 0x80)
		content_char(c, (char)c->hex);
	else
		current(c)->bad = true;
}

static size_t
step(struct http_cut *c, const char *p, size_t n)
{
	switch ((enum state)c->state) {
	case BETWEEN:
		between(c, *p);
		return 1;
	case STRING:
		return string(c, p, n);
	case STRING_ESCAPE:
		http_cut_keep(c, p, 1);
		c->state = STRING;
		return 1;
	case CONTENT:
		return content(c, p, n);
	case CONTENT_ESCAPE:
		content_escape(c, *p);
		return 1;
	case CONTENT_HEX:
		content_hex(c, *p);
		return 1;
	}
	return n;
}

bool
http_cut_feed(struct http_cut *c, const char *p, size_t n)
{
	size_t used;

	while (n > 0 && !c->too_large && !c->failed) {
		used = step(c, p, n);
		p += used;
		n -= used;
	}
	return !c->too_large && !c->failed;
}

const struct http_cut_part *
http_cut_find(const struct http_cut *c, struct str text)
{
	unsigned long long i;

	if (text.n <= HTTP_CUT_TOKEN + 1 ||
	    memcmp(text.p, c->token, HTTP_CUT_TOKEN) != 0)
		return NULL;
	text.p += HTTP_CUT_TOKEN + 1;
	text.n -= HTTP_CUT_TOKEN + 1;
	if (!str_to_u64(text, HTTP_CUT_MAX, &i) || i >= c->part_count)
		return NULL;
	return &c->part[i];
}
