/* SPDX-License-Identifier: ISC */
/*
 * route.h - which route answers a target? Pure.
 */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include <stddef.h>

struct http_route;

#define HTTP_PARAMS_MAX 6
#define HTTP_ALLOW_MAX 64

enum http_route_result {
	HTTP_ROUTE_FOUND,
	HTTP_ROUTE_NO_PATH,
	HTTP_ROUTE_NO_METHOD, /* `allow` lists what the path has */
	HTTP_ROUTE_BAD, /* a segment is not decodable */
};

struct http_match {
	const struct http_route *route;
	size_t params_n;
	struct {
		const char *name; /* inside the route's path */
		size_t name_n;
		char *value; /* decoded, owned */
	} param[HTTP_PARAMS_MAX];
	char allow[HTTP_ALLOW_MAX];
};

/*
 * The first route of the table whose pattern matches `path` (without query)
 * and whose method matches; GET stands for HEAD too.
 */
enum http_route_result http_route_find(struct http_match *match,
    const struct http_route *routes, size_t n, const char *method,
    const char *path, size_t path_n);
void http_match_free(struct http_match *match);
const char *http_match_param(const struct http_match *match, const char *name);

#endif
