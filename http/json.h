/* SPDX-License-Identifier: ISC */
/*
 * json.h - jansson's values from text and back, for what comes with each
 * request: runs of characters are copied at once, not looked at one by one.
 */
#ifndef HTTP_JSON_H
#define HTTP_JSON_H

#include <jansson.h>

#include "base/buf.h"

/*
 * The object or array that the `n` bytes are, at most `depth` deep: what
 * json_loadb() with JSON_REJECT_DUPLICATES reads. NULL for all that is not
 * valid, and for some that is but is rare (\u, fractions): ask json_loadb()
 * then, which also says what is wrong.
 */
json_t *http_json_read(const char *p, size_t n, unsigned depth);

/* Append the text that json_dumps() with JSON_COMPACT makes. */
void http_json_write(struct buf *out, json_t *v);

#endif
