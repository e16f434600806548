/* SPDX-License-Identifier: ISC */
#include "base/conf_parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/str.h"
#include "base/xalloc.h"

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit duration_units[] = {
	{ "ms", 1 },
	{ "s", 1000 },
	{ "m", 60 * 1000 },
	{ "h", 60 * 60 * 1000 },
	{ "d", 24 * 60 * 60 * 1000 },
	{ NULL, 0 },
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "K", 1024 },
	{ "M", 1024 * 1024 },
	{ "G", 1024 * 1024 * 1024 },
	{ NULL, 0 },
};

static bool
parse_unit(const char *text, const struct unit *units, const char *want,
    int64_t *out, struct err *err)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long long v;

	for (; units->name != NULL; units++) {
		if (strcmp(text + digits, units->name) == 0)
			break;
	}
	if (units->name == NULL ||
	    !str_to_u64((struct str){ text, digits },
		(unsigned long long)(INT64_MAX / units->factor), &v)) {
		err_set(err, EINVAL, "'%.64s' is not %s", text, want);
		return false;
	}
	*out = (int64_t)v * units->factor;
	return true;
}

static bool
parse_bool(const char *text, bool *out, struct err *err)
{
	if (strcmp(text, "yes") == 0 || strcmp(text, "true") == 0) {
		*out = true;
		return true;
	}
	if (strcmp(text, "no") == 0 || strcmp(text, "false") == 0) {
		*out = false;
		return true;
	}
	err_set(err, EINVAL, "'%.64s' is neither yes nor no", text);
	return false;
}

static bool
parse_int(const char *text, int64_t *out, struct err *err)
{
	unsigned long long v;

	if (!str_to_u64(str_of(text), INT32_MAX, &v)) {
		err_set(err, EINVAL, "'%.64s' is not a whole number", text);
		return false;
	}
	*out = (int64_t)v;
	return true;
}

static void
add_to_list(struct conf_list *list, const char *text)
{
	if (*text == '\0')
		return;
	list->v = xreallocarray(list->v, list->n + 1, sizeof(list->v[0]));
	list->v[list->n++] = xstrdup(text);
}

bool
conf_parse(enum conf_type type, const char *text, void *field, struct err *err)
{
	char **s;

	switch (type) {
	case CONF_TYPE_str:
	case CONF_TYPE_path:
		s = field;
		free(*s);
		*s = xstrdup(text);
		return true;
	case CONF_TYPE_list:
		add_to_list(field, text);
		return true;
	case CONF_TYPE_int:
		return parse_int(text, field, err);
	case CONF_TYPE_bool:
		return parse_bool(text, field, err);
	case CONF_TYPE_duration:
		return parse_unit(text, duration_units,
		    "a duration such as 500ms, 30s, 5m, 2h or 7d", field, err);
	case CONF_TYPE_size:
		return parse_unit(text, size_units,
		    "a size such as 4096, 64K, 50M or 1G", field, err);
	}
	return false;
}

void
conf_parse_clear(enum conf_type type, void *field)
{
	struct conf_list *list;
	char **s;
	size_t i;

	switch (type) {
	case CONF_TYPE_str:
	case CONF_TYPE_path:
		s = field;
		free(*s);
		*s = NULL;
		break;
	case CONF_TYPE_list:
		list = field;
		for (i = 0; i < list->n; i++)
			free(list->v[i]);
		free(list->v);
		*list = (struct conf_list){ NULL, 0 };
		break;
	case CONF_TYPE_int:
	case CONF_TYPE_duration:
	case CONF_TYPE_size:
		*(int64_t *)field = 0;
		break;
	case CONF_TYPE_bool:
		*(bool *)field = false;
		break;
	}
}

static void
print_quoted(const char *s, FILE *out)
{
	(void)fputc('"', out);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			(void)fputc('\\', out);
		(void)fputc(*s, out);
	}
	(void)fputc('"', out);
}

static void
print_unit(int64_t v, const struct unit *units, FILE *out)
{
	const struct unit *best = units;

	for (; units->name != NULL; units++) {
		if (v != 0 && v % units->factor == 0)
			best = units;
	}
	(void)fprintf(out, "%lld%s", (long long)(v / best->factor), best->name);
}

void
conf_parse_print(enum conf_type type, const void *field, FILE *out)
{
	const struct conf_list *list;
	size_t i;

	switch (type) {
	case CONF_TYPE_str:
	case CONF_TYPE_path:
		print_quoted(*(char *const *)field, out);
		break;
	case CONF_TYPE_list:
		list = field;
		(void)fputc('{', out);
		for (i = 0; i < list->n; i++) {
			(void)fputs(i == 0 ? " " : ", ", out);
			print_quoted(list->v[i], out);
		}
		(void)fputs(" }", out);
		break;
	case CONF_TYPE_int:
		(void)fprintf(out, "%lld", (long long)*(const int64_t *)field);
		break;
	case CONF_TYPE_bool:
		(void)fputs(*(const bool *)field ? "yes" : "no", out);
		break;
	case CONF_TYPE_duration:
		print_unit(*(const int64_t *)field, duration_units, out);
		break;
	case CONF_TYPE_size:
		print_unit(*(const int64_t *)field, size_units, out);
		break;
	}
}
