/* SPDX-License-Identifier: ISC */
/* form.c - see form.h. */
#include "http/form.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum state {
	DATA, /* of a part, or before the first */
	MARK, /* behind a delimiter: CRLF or -- */
	MARK_CR,
	MARK_DASH,
	HEAD,
	LAST, /* behind the last delimiter: nothing, or CRLF */
	LAST_CR,
	OVER,
};

static bool
is_boundary_char(char c, bool last)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("'()+_,-./:=?", c) != NULL) ||
	       (c == ' ' && !last);
}

/*
 * The next parameter of `rest`, `; name="value"` or `; name=value`; `value`
 * is unescaped into `room`. False: there is none, or `rest` is no longer
 * empty and it is malformed.
 */
static bool
next_param(struct str *rest, struct str *name, struct str *value, char *room)
{
	const char *p = rest->p, *end = p + rest->n;
	size_t n = 0;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (p == end || *p != ';')
		return false;
	for (p++; p < end && (*p == ' ' || *p == '\t'); p++)
		;
	name->p = p;
	while (p < end && *p != '=' && *p != ';' && *p != '"')
		p++;
	name->n = (size_t)(p - name->p);
	if (p == end || *p != '=' || name->n == 0)
		return false;
	p++;
	if (p < end && *p == '"') {
		for (p++; p < end && *p != '"'; p++) {
			if (*p == '\\' && p + 1 < end &&
			    (p[1] == '"' || p[1] == '\\'))
				p++;
			room[n++] = *p;
		}
		if (p == end)
			return false;
		p++;
	} else {
		while (p < end && *p != ';' && *p != ' ' && *p != '\t' &&
		       *p != '"')
			room[n++] = *p++;
	}
	*value = (struct str){ room, n };
	rest->n = (size_t)(end - p);
	rest->p = p;
	return true;
}

/* What is before the parameters, which are left in `rest`. */
static struct str
main_value(struct str *rest)
{
	struct str value = *rest;

	value.n = 0;
	while (value.n < rest->n && value.p[value.n] != ';')
		value.n++;
	rest->p += value.n;
	rest->n -= value.n;
	return str_trim(value);
}

bool
http_form_boundary(char out[HTTP_FORM_BOUNDARY + 1], const char *content_type)
{
	struct str rest = str_of(content_type), name, value;
	char room[HTTP_FORM_HEAD];
	bool found = false;
	size_t i;

	if (content_type == NULL || rest.n > sizeof(room) ||
	    !str_ieq(main_value(&rest), str_lit("multipart/form-data")))
		return false;
	while (next_param(&rest, &name, &value, room)) {
		if (!str_ieq(name, str_lit("boundary")))
			continue;
		if (found || value.n == 0 || value.n > HTTP_FORM_BOUNDARY)
			return false;
		for (i = 0; i < value.n; i++)
			if (!is_boundary_char(value.p[i], i + 1 == value.n))
				return false;
		memcpy(out, value.p, value.n);
		out[value.n] = '\0';
		found = true;
	}
	return found && str_trim(rest).n == 0;
}

void
http_form_init(struct http_form *f, const char *boundary,
    const struct http_form_calls *calls, void *arg)
{
	memset(f, 0, sizeof(*f));
	f->calls = calls;
	f->arg = arg;
	f->mark_n =
	    (size_t)snprintf(f->mark, sizeof(f->mark), "\r\n--%s", boundary);
	f->match = 2; /* as if a line had ended */
	f->state = DATA;
	f->head_n = SIZE_MAX; /* no part yet */
}

bool
http_form_is_whole(const struct http_form *f)
{
	return f->wrong == NULL && !f->stopped &&
	       (f->state == LAST || f->state == OVER);
}

static void
wrong(struct http_form *f, const char *what)
{
	if (f->wrong == NULL)
		f->wrong = what;
}

/* ---- the header of a part */

struct part {
	struct http_form_part is;
	bool named;
	char name[HTTP_FORM_HEAD], filename[HTTP_FORM_HEAD];
};

/* %22, %0D and %0A are how browsers write what would end the value. */
static struct str
unescape(char *p, size_t n)
{
	static const struct {
		const char *is;
		char c;
	} all[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' } };
	size_t from = 0, to = 0, i;

	while (from < n) {
		char c = p[from++];

		for (i = 0; c == '%' && n - from >= 2 && i < 3; i++)
			if (strncasecmp(p + from, all[i].is + 1, 2) == 0) {
				c = all[i].c;
				from += 2;
				break;
			}
		p[to++] = c;
	}
	return (struct str){ p, to };
}

static const char *
take_disposition(struct part *part, struct str rest)
{
	struct str name, value;
	char room[HTTP_FORM_HEAD];

	if (part->named)
		return "Content-Disposition stands twice in a part";
	if (!str_ieq(main_value(&rest), str_lit("form-data")))
		return "the Content-Disposition of a part is not form-data";
	while (next_param(&rest, &name, &value, room)) {
		if (str_ieq(name, str_lit("name")) && !part->named) {
			memcpy(part->name, value.p, value.n);
			part->is.name = unescape(part->name, value.n);
			part->named = true;
		} else if (str_ieq(name, str_lit("filename")) &&
			   part->is.filename.p == NULL) {
			memcpy(part->filename, value.p, value.n);
			part->is.filename = unescape(part->filename, value.n);
		} else {
			return "a part has a parameter twice, or one that is "
			       "not taken (name and filename are)";
		}
	}
	if (str_trim(rest).n > 0)
		return "the Content-Disposition of a part is malformed";
	return part->named ? NULL : "a part has no name";
}

static const char *
take_encoding(struct str value)
{
	if (str_ieq(value, str_lit("binary")) ||
	    str_ieq(value, str_lit("8bit")) || str_ieq(value, str_lit("7bit")))
		return NULL;
	return "parts are taken as they are, without a transfer encoding";
}

static const char *
take_line(struct part *part, struct str line)
{
	struct str name = line, value;

	name.n = 0;
	while (name.n < line.n && line.p[name.n] != ':')
		name.n++;
	if (name.n == 0 || name.n == line.n || line.p[0] == ' ' ||
	    line.p[0] == '\t' || line.p[name.n - 1] == ' ')
		return "a header line of a part is malformed";
	value =
	    str_trim((struct str){ line.p + name.n + 1, line.n - name.n - 1 });
	if (str_ieq(name, str_lit("Content-Disposition")))
		return take_disposition(part, value);
	if (str_ieq(name, str_lit("Content-Transfer-Encoding")))
		return take_encoding(value);
	if (str_ieq(name, str_lit("Content-Type"))) {
		if (part->is.type.n > 0)
			return "Content-Type stands twice in a part";
		part->is.type = value;
	} else if (str_ieq(name, str_lit("Content-ID"))) {
		if (part->is.id.n > 0)
			return "Content-ID stands twice in a part";
		if (value.n >= 2 && value.p[0] == '<' &&
		    value.p[value.n - 1] == '>')
			value = (struct str){ value.p + 1, value.n - 2 };
		part->is.id = value;
	}
	return NULL; /* others mean nothing here (RFC 7578 4.8) */
}

/* The header is here, with the empty line. */
static void
begin_part(struct http_form *f)
{
	struct part part = { .named = false };
	struct str rest = { f->head, f->head_n - 2 }, line;
	const char *why = NULL;

	part.is.type = part.is.id = (struct str){ "", 0 };
	while (rest.n > 0 && why == NULL) {
		line = str_split(&rest, '\n');
		if (line.n == 0 || line.p[line.n - 1] != '\r' ||
		    memchr(line.p, '\r', line.n - 1) != NULL ||
		    memchr(line.p, '\0', line.n) != NULL)
			why = "a header line of a part is malformed";
		else
			why = take_line(
			    &part, (struct str){ line.p, line.n - 1 });
	}
	if (why == NULL && !part.named)
		why = "a part has no name";
	f->head_n = 0;
	f->match = 0;
	f->state = DATA;
	if (why != NULL)
		wrong(f, why);
	else
		f->stopped = !f->calls->begin(f->arg, &part.is);
}

static void
head_char(struct http_form *f, char c)
{
	if (f->head_n == sizeof(f->head)) {
		wrong(f, "the header of a part is too long");
		return;
	}
	f->head[f->head_n++] = c;
	if (c == '\n' && f->head_n >= 2 && f->head[f->head_n - 2] == '\r' &&
	    (f->head_n == 2 || f->head[f->head_n - 3] == '\n'))
		begin_part(f);
}

/* ---- the parts */

static void
give(struct http_form *f, const char *p, size_t n)
{
	if (n == 0 || f->stopped)
		return;
	if (f->head_n == SIZE_MAX)
		wrong(f, "it does not begin with its boundary");
	else
		f->stopped = !f->calls->data(f->arg, p, n);
}

static void
end_part(struct http_form *f)
{
	bool is_first = f->head_n == SIZE_MAX;

	f->state = MARK;
	f->match = 0;
	f->head_n = 0;
	if (!is_first)
		f->stopped = !f->calls->end(f->arg);
}

/* Bytes of a part, until something that may be a delimiter; how many. */
static size_t
data(struct http_form *f, const char *p, size_t n)
{
	const char *cr;
	size_t had;

	if (f->match == 0) {
		cr = memchr(p, '\r', n);
		if (cr == NULL || cr > p) {
			n = cr != NULL ? (size_t)(cr - p) : n;
			give(f, p, n);
			return n;
		}
	}
	if (*p == f->mark[f->match]) {
		if (++f->match == f->mark_n)
			end_part(f);
		return 1;
	}
	/* It was none. A CR stands only where it begins, so `p` may. */
	had = f->match;
	f->match = 0;
	give(f, f->mark, had);
	return 0;
}

/* One byte of what stands around the parts. */
static void
around(struct http_form *f, char c)
{
	switch ((enum state)f->state) {
	case MARK:
		f->state = c == '\r' ? MARK_CR : MARK_DASH;
		if (c != '\r' && c != '-')
			wrong(f, "a line begins like the boundary");
		break;
	case MARK_CR:
		f->state = HEAD;
		if (c != '\n')
			wrong(f, "a boundary ends without CRLF");
		break;
	case MARK_DASH:
		f->state = LAST;
		if (c != '-')
			wrong(f, "a line begins like the boundary");
		break;
	case HEAD:
		head_char(f, c);
		break;
	case LAST:
		f->state = LAST_CR;
		if (c != '\r')
			wrong(f, "something follows the last boundary");
		break;
	case LAST_CR:
		f->state = OVER;
		if (c != '\n')
			wrong(f, "something follows the last boundary");
		break;
	case OVER:
		wrong(f, "something follows the last boundary");
		break;
	case DATA:
		break;
	}
}

bool
http_form_feed(struct http_form *f, const char *p, size_t n)
{
	size_t used;

	while (n > 0 && f->wrong == NULL && !f->stopped) {
		used = 1;
		if (f->state == DATA)
			used = data(f, p, n);
		else
			around(f, *p);
		p += used;
		n -= used;
	}
	return f->wrong == NULL && !f->stopped;
}
