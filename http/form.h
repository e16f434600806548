/* SPDX-License-Identifier: ISC */
/*
 * form.h - multipart/form-data, read as it comes (RFC 7578, RFC 2046 5.1.1).
 * Pure.
 *
 * Strict where two readers could disagree: nothing stands before the first
 * delimiter or behind the last, a line that begins like a delimiter is one,
 * headers are not folded, lines end with CRLF, a part is named once.
 */
#ifndef HTTP_FORM_H
#define HTTP_FORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define HTTP_FORM_BOUNDARY 70 /* RFC 2046 5.1.1 */
#define HTTP_FORM_HEAD 4096 /* bytes of a part's header */

/* What a part says of itself: views, for the time of a call. */
struct http_form_part {
	struct str name;
	struct str filename; /* `p` is NULL without one */
	struct str type; /* Content-Type, as given; empty without one */
	struct str id; /* Content-ID, without <>; empty without one */
};

/* False stops the parser: there will be no further call. */
struct http_form_calls {
	bool (*begin)(void *arg, const struct http_form_part *part);
	bool (*data)(void *arg, const void *p, size_t n);
	bool (*end)(void *arg);
};

struct http_form {
	const struct http_form_calls *calls;
	void *arg;
	char mark[HTTP_FORM_BOUNDARY + 5]; /* CRLF -- boundary */
	size_t mark_n;
	size_t match; /* bytes of `mark` seen */
	char head[HTTP_FORM_HEAD];
	size_t head_n;
	int state; /* enum state of form.c */
	const char *wrong; /* what is, in words; NULL: nothing */
	bool stopped; /* by a call */
};

/*
 * The boundary of a Content-Type. False: it is not multipart/form-data, or
 * has none that is allowed.
 */
bool http_form_boundary(
    char out[HTTP_FORM_BOUNDARY + 1], const char *content_type);

void http_form_init(struct http_form *f, const char *boundary,
    const struct http_form_calls *calls, void *arg);
/* False once it is wrong or stopped. */
bool http_form_feed(struct http_form *f, const char *p, size_t n);
/* The last delimiter was there: it may end. */
bool http_form_is_whole(const struct http_form *f);

#endif
