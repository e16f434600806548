/* SPDX-License-Identifier: ISC */
/*
 * urlenc.h - percent encoding and application/x-www-form-urlencoded.
 */
#ifndef HTTP_URLENC_H
#define HTTP_URLENC_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PAIRS_MAX 64

struct http_pairs {
	char *text; /* owns all names and values */
	size_t n;
	struct {
		const char *name, *value;
	} item[HTTP_PAIRS_MAX];
};

/*
 * Decode `n` bytes to `out` (room for n + 1), NUL-terminated. `plus` turns
 * '+' into a space. -1 for a malformed escape, a NUL or broken UTF-8.
 */
long http_url_decode(char *out, const char *p, size_t n, bool plus);

/*
 * Split "a=1&b=2". False, with nothing to free, when it is malformed or
 * has more than HTTP_PAIRS_MAX pairs.
 */
bool http_pairs_parse(struct http_pairs *pairs, const char *p, size_t n);
void http_pairs_free(struct http_pairs *pairs);
const char *http_pairs_get(
    const struct http_pairs *pairs, const char *name, size_t index);

#endif
