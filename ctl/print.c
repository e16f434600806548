/* SPDX-License-Identifier: ISC */
/*
 * Rows for people and for programs. Numbers of the vocabulary become their
 * names, and ids get the form every other door shows.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/uuid.h"
#include "base/xalloc.h"
#include "ctl/ctl.h"
#include "mail/header.h"
#include "policy/vocabulary.h"

#define CELL_MAX 60
#define LAST_MAX 400 /* of a line, and of the last cell of a row */

static json_t *
spell_id(const char *name, const json_t *v)
{
	const char *s = json_string_value(v);
	char id[UUID_ID_MAX];
	struct uuid u;

	if (s == NULL || strcmp(name, "message_id") != 0 ||
	    !uuid_from_text(&u, str_of(s)))
		return NULL;
	uuid_to_id(id, "msg_", &u);
	return json_string(id);
}

static json_t *
spell_bytes(const char *name, const json_t *v)
{
	const char *s = json_string_value(v);
	char text[128];

	if (s == NULL || strncmp(s, "\\x", 2) != 0 || strlen(s) > 100)
		return NULL;
	(void)snprintf(text, sizeof(text), "%s%s",
	    strcmp(name, "digest") == 0 ? "sha256:" : "", s + 2);
	return json_string(text);
}

static json_t *
spell_number(const char *name, const json_t *v)
{
	const char *word = NULL;
	int n = (int)json_integer_value(v);

	if (!json_is_integer(v))
		return NULL;
	if (strcmp(name, "state") == 0)
		word = policy_state_name(n);
	else if (strcmp(name, "mode") == 0)
		word = policy_mode_name(n);
	return word != NULL ? json_string(word) : NULL;
}

static void
spell(json_t *row)
{
	const char *name;
	json_t *v, *as;
	void *at;

	json_object_foreach_safe(row, at, name, v)
	{
		as = spell_id(name, v);
		if (as == NULL)
			as = spell_bytes(name, v);
		if (as == NULL)
			as = spell_number(name, v);
		if (as != NULL)
			(void)json_object_set_new(row, name, as);
	}
}

/* Does a terminal act on it, or show what is behind it in another order? */
static bool
is_command(int32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c ||
	       c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

/* One value as a line of text: nothing that moves it, cut when long. */
static void
add_cell(struct buf *out, const json_t *v, size_t max)
{
	char *dumped = NULL;
	const char *s, *at;
	size_t from = out->n;
	struct str rest;
	int32_t c;

	if (json_is_null(v) || v == NULL)
		s = "-";
	else if (json_is_string(v))
		s = json_string_value(v);
	else if (json_is_boolean(v))
		s = json_is_true(v) ? "yes" : "no";
	else
		s = dumped = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	rest = str_of(s != NULL ? s : "");
	while (rest.n > 0) {
		if (out->n - from >= max) {
			buf_puts(out, "...");
			break;
		}
		at = rest.p;
		c = utf8_next(&rest);
		if (c == '\n')
			buf_puts(out, ", ");
		else if (is_command(c))
			buf_putc(out, '?');
		else
			buf_add(out, at, (size_t)(rest.p - at));
	}
	if (out->n == from)
		buf_putc(out, '-');
	free(dumped);
}

static void
print_object(json_t *row)
{
	struct buf out = { 0 };
	const char *name;
	json_t *v;

	json_object_foreach(row, name, v)
	{
		buf_printf(&out, "%-16s ", name);
		add_cell(&out, v, LAST_MAX);
		buf_putc(&out, '\n');
	}
	(void)fwrite(out.p, 1, out.n, stdout);
	buf_free(&out);
}

static size_t
column_width(json_t *rows, const char *name)
{
	size_t width = strlen(name), i;
	struct buf cell = { 0 };
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		buf_clear(&cell);
		add_cell(&cell, json_object_get(row, name), CELL_MAX);
		if (cell.n > width)
			width = cell.n;
	}
	buf_free(&cell);
	return width;
}

static void
print_table(json_t *rows)
{
	json_t *first = json_array_get(rows, 0), *row, *v;
	struct buf out = { 0 };
	const char *name;
	size_t i, from, cells;

	json_object_foreach(first, name, v)
	    buf_printf(&out, "%-*s  ", (int)column_width(rows, name), name);
	buf_putc(&out, '\n');
	json_array_foreach(rows, i, row)
	{
		cells = json_object_size(first);
		json_object_foreach(first, name, v)
		{
			from = out.n;
			add_cell(&out, json_object_get(row, name),
			    --cells == 0 ? LAST_MAX : CELL_MAX);
			while (out.n - from < column_width(rows, name) + 2)
				buf_putc(&out, ' ');
		}
		while (out.n > 0 && out.p[out.n - 1] == ' ')
			out.n--;
		buf_putc(&out, '\n');
	}
	(void)fwrite(out.p, 1, out.n, stdout);
	buf_free(&out);
}

void
ctl_print(const struct ctl *ctl, json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) spell(row);
	if (ctl->json) {
		(void)json_dumpf(rows, stdout, JSON_INDENT(1));
		(void)fputc('\n', stdout);
	} else if (json_array_size(rows) == 1) {
		print_object(json_array_get(rows, 0));
	} else if (json_array_size(rows) > 1) {
		print_table(rows);
	} else {
		(void)printf("nothing\n");
	}
}
