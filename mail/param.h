/* SPDX-License-Identifier: ISC */
/*
 * param.h - Content-Type and Content-Disposition: a head and parameters.
 *
 * Strict RFC 2045 without comments, with the continuations and charsets of
 * RFC 2231. What programs read in two ways is refused: a parameter given
 * twice, gaps in continuations, unquoted specials.
 */
#ifndef MAIL_PARAM_H
#define MAIL_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "mail/header.h"

#define PARAM_MAX 64
#define PARAM_HEAD_MAX 256 /* RFC 6838: 127 + "/" + 127, and the NUL */

struct param {
	struct str name; /* lower case, without "*..." */
	int section; /* number behind '*', -1 = none */
	bool is_extended; /* a '*' at the end: %XX and charset */
	struct str value; /* in `text` */
};

struct param_list {
	char head[PARAM_HEAD_MAX]; /* lower case: "text/plain", "attachment" */
	struct param param[PARAM_MAX];
	size_t count;
	char *text; /* what the views above are in */
};

/* `is_type`: the head is type "/" subtype, else one token. */
bool param_parse(
    struct param_list *l, struct str value, bool is_type, const char **why);
void param_free(struct param_list *l);

enum param_form {
	PARAM_ABSENT,
	PARAM_PRESENT,
	PARAM_BAD, /* gaps, a broken escape, or no name of a charset */
};
/* `name="value"`: bytes as they are. */
enum param_form param_plain(
    const struct param_list *l, const char *name, struct str *out);
/*
 * `name*=utf-8''...` and `name*0=...`: as UTF-8 text appended to `out`; in a
 * charset that header_decode() leaves alone, as an encoded word in it.
 */
enum param_form param_extended(
    const struct param_list *l, const char *name, struct buf *out);
/* With help for other charsets, see header_decode_with(). */
enum param_form param_extended_with(const struct param_list *l,
    const char *name, struct buf *out, header_word_fn *fn, void *arg);

#endif
