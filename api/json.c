/* SPDX-License-Identifier: ISC */
/* json.c - reading agents' JSON strictly, and writing small values. */
#include <string.h>
#include <time.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/clock.h"
#include "mail/header.h"

#define DEPTH_MAX 32

/* Do so many stand there, in strings too, that half the depth is passed? */
static bool
has_many(const char *p, size_t n, char c)
{
	const char *end = p + n;
	int seen = 0;

	while (p < end && seen <= DEPTH_MAX / 2) {
		p = memchr(p, c, (size_t)(end - p));
		if (p == NULL)
			return false;
		seen++;
		p++;
	}
	return seen > DEPTH_MAX / 2;
}

/* jansson's own limit is 2048; ours keeps its stack use small. */
static bool
is_too_deep(const char *p, size_t n)
{
	bool in_string = false;
	int depth = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > DEPTH_MAX)
				return true;
		} else if (p[i] == '}' || p[i] == ']') {
			depth--;
		}
	}
	return false;
}

json_t *
api_json_any(const char *p, size_t n, struct api_fault *fault)
{
	json_error_t err;
	json_t *root;

	if ((has_many(p, n, '{') || has_many(p, n, '[')) && is_too_deep(p, n)) {
		api_fault_set(fault, E_MALFORMED_JSON, NULL,
		    "nested more than %d deep", DEPTH_MAX);
		return NULL;
	}
	root = json_loadb(p, n, JSON_REJECT_DUPLICATES, &err);
	if (root == NULL) {
		api_fault_set(fault, E_MALFORMED_JSON, NULL,
		    "line %d column %d: %s", err.line, err.column, err.text);
		return NULL;
	}
	return root;
}

json_t *
api_json_object(const char *p, size_t n, struct api_fault *fault)
{
	json_t *root = api_json_any(p, n, fault);

	if (root != NULL && !json_is_object(root)) {
		api_fault_set(
		    fault, E_MALFORMED_JSON, NULL, "not a JSON object");
		json_decref(root);
		return NULL;
	}
	return root;
}

/* Who guessed a name reads those that there are. */
static void
no_such_field(
    const char *key, const char *const *names, struct api_fault *fault)
{
	struct buf text = { 0 };
	size_t i;

	for (i = 0; names[i] != NULL; i++)
		buf_printf(&text, "%s%s", i > 0 ? ", " : "", names[i]);
	api_fault_set(fault, E_VALIDATION_ERROR, key,
	    "this request has no such field; it has %s", buf_cstr(&text));
	buf_free(&text);
}

void
api_json_known(json_t *root, const char *const *names, struct api_fault *fault)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(root, key, value)
	{
		for (i = 0; names[i] != NULL && strcmp(names[i], key) != 0; i++)
			;
		if (names[i] == NULL)
			no_such_field(key, names, fault);
	}
}

struct str
api_json_str(
    json_t *root, const char *name, size_t max, struct api_fault *fault)
{
	json_t *v = json_object_get(root, name);
	struct str s = { "", 0 };

	if (v == NULL || json_is_null(v))
		return s;
	if (!json_is_string(v)) {
		api_fault_set(
		    fault, E_VALIDATION_ERROR, name, "must be a string");
	} else if (json_string_length(v) > max) {
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "longer than %zu bytes", max);
	} else {
		s.p = json_string_value(v);
		s.n = json_string_length(v);
	}
	return s;
}

bool
api_json_bool(json_t *root, const char *name, struct api_fault *fault)
{
	json_t *v = json_object_get(root, name);

	if (v == NULL || json_is_null(v))
		return false;
	if (!json_is_boolean(v))
		api_fault_set(
		    fault, E_VALIDATION_ERROR, name, "must be true or false");
	return json_is_true(v);
}

json_t *
api_json_array(
    json_t *root, const char *name, size_t max, struct api_fault *fault)
{
	json_t *v = json_object_get(root, name);

	if (v == NULL || json_is_null(v))
		return NULL;
	if (!json_is_array(v)) {
		api_fault_set(
		    fault, E_VALIDATION_ERROR, name, "must be an array");
		return NULL;
	}
	if (json_array_size(v) > max) {
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "more than %zu of them", max);
		return NULL;
	}
	return v;
}

/* `n` digits at *p, which moves on; -1 if they are not there. */
static int
digits(const char **p, int n)
{
	int v = 0;

	for (; n > 0; n--, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		v = v * 10 + (**p - '0');
	}
	return v;
}

static bool
skip(const char **p, const char *set)
{
	if (**p == '\0' || strchr(set, **p) == NULL)
		return false;
	(*p)++;
	return true;
}

/* "Z" or "+hh:mm" to seconds east; false unless it ends the text. */
static bool
parse_zone(const char *p, long *east)
{
	int sign = *p == '-' ? -1 : 1, h, m;

	*east = 0;
	if (skip(&p, "Zz"))
		return *p == '\0';
	if (!skip(&p, "+-"))
		return false;
	h = digits(&p, 2);
	if (h < 0 || h > 23 || !skip(&p, ":"))
		return false;
	m = digits(&p, 2);
	*east = sign * (h * 3600L + m * 60L);
	return m >= 0 && m <= 59 && *p == '\0';
}

bool
api_time_parse(struct str s, int64_t *us)
{
	char text[40];
	const char *p = text;
	struct tm tm = { 0 }, back;
	int64_t fraction = 0, unit = 100000;
	long east;
	time_t t;

	if (s.n >= sizeof(text) || memchr(s.p, '\0', s.n) != NULL)
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	tm.tm_year = digits(&p, 4) - 1900;
	if (!skip(&p, "-") || (tm.tm_mon = digits(&p, 2) - 1) < 0 ||
	    !skip(&p, "-") || (tm.tm_mday = digits(&p, 2)) < 1 ||
	    !skip(&p, "Tt ") || (tm.tm_hour = digits(&p, 2)) < 0 ||
	    !skip(&p, ":") || (tm.tm_min = digits(&p, 2)) < 0 ||
	    !skip(&p, ":") || (tm.tm_sec = digits(&p, 2)) < 0)
		return false;
	if (skip(&p, "."))
		for (; *p >= '0' && *p <= '9'; p++, unit /= 10)
			fraction += (*p - '0') * unit;
	if (tm.tm_year < 70 || !parse_zone(p, &east))
		return false;
	back = tm;
	t = timegm(&back);
	if (back.tm_mon != tm.tm_mon || back.tm_mday != tm.tm_mday ||
	    back.tm_hour != tm.tm_hour || back.tm_min != tm.tm_min)
		return false;
	*us = ((int64_t)t - east) * 1000000 + fraction;
	return *us > 0;
}

json_t *
api_json_time(int64_t us)
{
	char text[CLOCK_RFC3339_MAX];

	if (us == 0)
		return json_null();
	clock_rfc3339(text, us);
	return json_string(text);
}

json_t *
api_json_strn(const char *p, size_t n)
{
	struct buf clean = { 0 };
	json_t *v;

	v = json_stringn(p, n);
	if (v != NULL)
		return v;
	utf8_clean(&clean, (struct str){ p, n });
	v = json_stringn((const char *)clean.p, clean.n);
	buf_free(&clean);
	return v != NULL ? v : json_string("");
}

json_t *
api_json_text(const char *s)
{
	if (s == NULL || s[0] == '\0')
		return json_null();
	return api_json_strn(s, strlen(s));
}

json_t *
api_json_lines(const char *s, char sep)
{
	json_t *list = json_array();
	struct str rest = str_of(s), item;

	while (rest.n > 0) {
		item = str_split(&rest, sep);
		json_array_append_new(list, api_json_strn(item.p, item.n));
	}
	return list;
}
