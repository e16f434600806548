/* SPDX-License-Identifier: ISC */
/*
 * trace.c - see trace.h
 *
 * The logs are read twice: first for the lines that name the message, which
 * also name the session or request it came with; then for what else that
 * session did. A line is only parsed when it can be one of them.
 */
#include "ctl/trace.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/xalloc.h"

#define ORIGINS_MAX 16 /* a message is stored once; the rest are replays */
#define LINE_BYTES 65536 /* longer ones are not the programs' */

struct origin {
	char program[32], id[64];
	json_int_t pid;
};

struct tracing {
	const char *id; /* of the message */
	struct origin origin[ORIGINS_MAX];
	size_t origins;
	json_t *rows; /* {at, program, event, detail} */
};

typedef void line_fn(struct tracing *t, const char *line, size_t n);

static const char *
field(const json_t *row, const char *name)
{
	const char *s = json_string_value(json_object_get(row, name));

	return s != NULL ? s : "";
}

/* The session or request of a line; "" for none. */
static const char *
origin_of(const json_t *row)
{
	const char *s = field(row, "session");

	return s[0] != '\0' ? s : field(row, "request");
}

static bool
is_of(const struct origin *o, const json_t *row)
{
	return strcmp(o->id, origin_of(row)) == 0 &&
	       strcmp(o->program, field(row, "program")) == 0 &&
	       o->pid == json_integer_value(json_object_get(row, "pid"));
}

static bool
came_with(const struct tracing *t, const json_t *row)
{
	size_t i;

	for (i = 0; i < t->origins; i++)
		if (is_of(&t->origin[i], row))
			return true;
	return false;
}

/* First reading: where the message came from. */
static void
find_origin(struct tracing *t, const char *line, size_t n)
{
	json_t *row =
	    strstr(line, t->id) != NULL ? json_loadb(line, n, 0, NULL) : NULL;
	struct origin *o = &t->origin[t->origins];

	if (t->origins < ORIGINS_MAX &&
	    strcmp(field(row, "message"), t->id) == 0 &&
	    origin_of(row)[0] != '\0' && !came_with(t, row)) {
		(void)snprintf(o->program, sizeof(o->program), "%s",
		    field(row, "program"));
		(void)snprintf(o->id, sizeof(o->id), "%s", origin_of(row));
		o->pid = json_integer_value(json_object_get(row, "pid"));
		t->origins++;
	}
	json_decref(row);
}

static void
add_word(struct buf *out, const char *name, const json_t *v)
{
	char *dumped =
	    json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY);

	buf_printf(out, "%s%s=%s", out->n > 0 ? " " : "", name,
	    dumped != NULL ? dumped : json_string_value(v));
	free(dumped);
}

/* What a line says besides when, who and which message. */
static json_t *
detail_of(json_t *row)
{
	static const char *const known[] = { "at", "level", "event", "program",
		"pid", "message" };
	struct buf out = { 0 };
	const char *name;
	json_t *v, *text;
	size_t i;

	json_object_foreach(row, name, v)
	{
		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			if (strcmp(known[i], name) == 0)
				break;
		if (i == sizeof(known) / sizeof(known[0]))
			add_word(&out, name, v);
	}
	text = json_string(buf_cstr(&out));
	buf_free(&out);
	return text;
}

static bool
may_be_of_origin(const struct tracing *t, const char *line)
{
	size_t i;

	for (i = 0; i < t->origins; i++)
		if (strstr(line, t->origin[i].id) != NULL)
			return true;
	return false;
}

/* Second reading: the message's lines, and the others of where it came from
 * that are of no other message. */
static void
take_line(struct tracing *t, const char *line, size_t n)
{
	json_t *row = NULL;
	const char *of;

	if (strstr(line, t->id) != NULL || may_be_of_origin(t, line))
		row = json_loadb(line, n, 0, NULL);
	of = field(row, "message");
	if (row != NULL && field(row, "at")[0] != '\0' &&
	    (strcmp(of, t->id) == 0 || (of[0] == '\0' && came_with(t, row))))
		(void)json_array_append_new(t->rows,
		    json_pack("{s:s, s:s, s:s, s:o}", "at", field(row, "at"),
			"program", field(row, "program"), "event",
			field(row, "event"), "detail", detail_of(row)));
	json_decref(row);
}

static void
read_lines(FILE *in, struct tracing *t, line_fn *each)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, in)) != -1)
		if (n > 1 && n < LINE_BYTES && line[0] == '{')
			each(t, line, (size_t)n);
	free(line);
}

/* Standard input, which cannot be read twice. */
static FILE *
copy_input(void)
{
	FILE *copy = tmpfile();
	char block[65536];
	size_t n;

	while (copy != NULL && (n = fread(block, 1, sizeof(block), stdin)) > 0)
		if (fwrite(block, 1, n, copy) != n) {
			(void)fclose(copy);
			copy = NULL;
		}
	return copy;
}

/* One reading of a file; false with errno. */
static bool
read_file(const char *path, struct tracing *t, line_fn *each)
{
	FILE *in = fopen(path, "re");

	if (in == NULL)
		return false;
	read_lines(in, t, each);
	return fclose(in) == 0;
}

static bool
read_folder(const char *path, struct tracing *t, line_fn *each)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	struct stat st;
	char *file;
	bool ok = dir != NULL;

	while (ok && (e = readdir(dir)) != NULL) {
		file = xasprintf("%s/%s", path, e->d_name);
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
			ok = read_file(file, t, each);
		free(file);
	}
	if (dir != NULL)
		(void)closedir(dir);
	return ok;
}

static bool
read_logs(const char *logs, struct tracing *t)
{
	struct stat st;
	FILE *copy;

	if (strcmp(logs, "-") == 0) {
		copy = copy_input();
		if (copy == NULL)
			return false;
		rewind(copy);
		read_lines(copy, t, find_origin);
		rewind(copy);
		read_lines(copy, t, take_line);
		return fclose(copy) == 0;
	}
	if (stat(logs, &st) != 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return read_folder(logs, t, find_origin) &&
		       read_folder(logs, t, take_line);
	return read_file(logs, t, find_origin) && read_file(logs, t, take_line);
}

/* ---- in order */

/*
 * The database's "2026-03-01T10:30:00.123456+01:00", in its time zone, as the
 * logs have it: "2026-03-01T09:30:00.123456Z".
 */
static void
write_time(char out[40], const char *text)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int digits = 0, hours = 0, minutes = 0;
	time_t s;

	out[0] = '\0';
	if (rest == NULL)
		return;
	if (*rest == '.')
		digits = 1 + (int)strspn(rest + 1, "0123456789");
	(void)sscanf(rest + digits, "%d:%d", &hours, &minutes);
	if (rest[digits] == '-')
		minutes = -minutes;
	s = timegm(&tm) - hours * 3600 - minutes * 60;
	(void)strftime(out, 40, "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));
	(void)snprintf(
	    out + strlen(out), 40 - strlen(out), "%.*sZ", digits, rest);
}

static void
add_event(struct tracing *t, const json_t *e)
{
	struct buf out = { 0 };
	char at[40];

	write_time(at, field(e, "at"));
	buf_printf(&out, "by %s", field(e, "actor"));
	if (field(e, "who")[0] != '\0')
		buf_printf(&out, " %s", field(e, "who"));
	if (field(e, "detail")[0] != '\0')
		buf_printf(&out, ": %s", field(e, "detail"));
	(void)json_array_append_new(t->rows,
	    json_pack("{s:s, s:s, s:s, s:s}", "at", at, "program", "database",
		"event", field(e, "type"), "detail", buf_cstr(&out)));
	buf_free(&out);
}

/* By the digits of seconds and their fraction, whatever their number: "Z" is
 * behind every digit and would make 12.5Z later than 12.53Z. */
static int
by_time(const void *a, const void *b)
{
	const char *x = field(*(json_t *const *)a, "at");
	const char *y = field(*(json_t *const *)b, "at");

	while (*x != '\0' && *x == *y) {
		x++;
		y++;
	}
	if (*x == *y)
		return 0;
	if (*x == 'Z' || *y == 'Z')
		return *x == 'Z' ? -1 : 1;
	return *x < *y ? -1 : 1;
}

static json_t *
sorted(json_t *rows)
{
	size_t n = json_array_size(rows), i;
	json_t **v = xcalloc(n + 1, sizeof(*v)), *out = json_array();

	for (i = 0; i < n; i++)
		v[i] = json_array_get(rows, i);
	qsort(v, n, sizeof(*v), by_time);
	for (i = 0; i < n; i++)
		(void)json_array_append(out, v[i]);
	free(v);
	return out;
}

int
trace_with_logs(const struct ctl *ctl, const json_t *events, const char *id,
    const char *logs)
{
	struct tracing t = { .id = id, .rows = json_array() };
	json_t *rows;
	size_t i;
	int rc = 0;

	for (i = 0; i < json_array_size(events); i++)
		add_event(&t, json_array_get(events, i));
	if (!read_logs(logs, &t))
		rc = ctl_fail(ctl, "%s: %s", logs, strerror(errno));
	rows = sorted(t.rows);
	ctl_print(ctl, rows);
	json_decref(rows);
	json_decref(t.rows);
	return rc;
}
