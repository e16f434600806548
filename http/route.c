/* SPDX-License-Identifier: ISC */
/* route.c - see route.h. */
#include "http/route.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "http/server.h"
#include "http/urlenc.h"

/* Cut the next "/segment" off `p`; its length, or -1 at the end. */
static long
next_segment(const char **p, const char *end, const char **segment)
{
	const char *slash;

	if (*p >= end || **p != '/')
		return -1;
	*segment = *p + 1;
	slash = memchr(*segment, '/', (size_t)(end - *segment));
	*p = slash != NULL ? slash : end;
	return *p - *segment;
}

static bool
path_matches(const char *pattern, const char *path, size_t path_n)
{
	const char *pe = pattern + strlen(pattern), *e = path + path_n;
	const char *ps = NULL, *s = NULL;
	long pn, n;

	for (;;) {
		pn = next_segment(&pattern, pe, &ps);
		n = next_segment(&path, e, &s);
		if (pn < 0 || n < 0)
			return pn < 0 && n < 0;
		if (ps[0] == '{' ? n == 0
				 : pn != n || memcmp(ps, s, (size_t)n) != 0)
			return false;
	}
}

/* Most patterns differ from the path before their first {name}. */
static bool
may_match(const char *pattern, const char *path, size_t path_n)
{
	size_t i;

	for (i = 0; i < path_n && pattern[i] == path[i] && path[i] != '{'; i++)
		;
	return pattern[i] == '{' || (pattern[i] == '\0' && i == path_n);
}

static bool
method_matches(const char *route, const char *method)
{
	return strcmp(route, method) == 0 ||
	       (strcmp(route, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void
add_method(char *allow, const char *method)
{
	size_t n = strlen(allow);

	if (strstr(allow, method) != NULL || n + 10 > HTTP_ALLOW_MAX)
		return;
	if (n > 0)
		strcat(allow, ", ");
	strcat(allow, method);
	if (strcmp(method, "GET") == 0)
		strcat(allow, ", HEAD");
}

/* Decode the segments under {names}. */
static enum http_route_result
take_params(struct http_match *m, const char *path, size_t path_n)
{
	const char *pattern = m->route->path;
	const char *pe = pattern + strlen(pattern), *e = path + path_n;
	const char *ps, *s;
	long pn, n;
	char *value;

	while ((pn = next_segment(&pattern, pe, &ps)) >= 0) {
		n = next_segment(&path, e, &s);
		if (ps[0] != '{' || n < 0)
			continue;
		BUG_ON(m->params_n == HTTP_PARAMS_MAX);
		value = xmalloc((size_t)n + 1);
		m->param[m->params_n].name = ps + 1;
		m->param[m->params_n].name_n = (size_t)pn - 2;
		m->param[m->params_n++].value = value;
		if (http_url_decode(value, s, (size_t)n, false) < 0)
			return HTTP_ROUTE_BAD;
	}
	return HTTP_ROUTE_FOUND;
}

enum http_route_result
http_route_find(struct http_match *match, const struct http_route *routes,
    size_t n, const char *method, const char *path, size_t path_n)
{
	size_t i;

	memset(match, 0, sizeof(*match));
	for (i = 0; i < n; i++) {
		if (!may_match(routes[i].path, path, path_n) ||
		    !path_matches(routes[i].path, path, path_n))
			continue;
		if (method_matches(routes[i].method, method)) {
			match->route = &routes[i];
			return take_params(match, path, path_n);
		}
		add_method(match->allow, routes[i].method);
	}
	return match->allow[0] != '\0' ? HTTP_ROUTE_NO_METHOD
				       : HTTP_ROUTE_NO_PATH;
}

void
http_match_free(struct http_match *match)
{
	size_t i;

	for (i = 0; i < match->params_n; i++)
		free(match->param[i].value);
	match->params_n = 0;
}

const char *
http_match_param(const struct http_match *match, const char *name)
{
	size_t i, n = strlen(name);

	for (i = 0; i < match->params_n; i++)
		if (match->param[i].name_n == n &&
		    memcmp(match->param[i].name, name, n) == 0)
			return match->param[i].value;
	return NULL;
}
