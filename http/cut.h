/* SPDX-License-Identifier: ISC */
/*
 * cut.h - JSON with attachments inside, read as it comes. Pure.
 *
 * The string `content` of each object in the array `attachments` of the
 * document is decoded from base64 and handed on; what remains is a small JSON
 * document in which a name stands in its place. Everything else, faults too,
 * is left as it is for the parser.
 */
#ifndef HTTP_CUT_H
#define HTTP_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define HTTP_CUT_TOKEN 32 /* characters that name this document */
#define HTTP_CUT_MAX 101 /* strings cut out; further ones are forgotten */
#define HTTP_CUT_BLOCK 4096 /* of base64, decoded at once */

struct http_cut_part {
	uint64_t at, n; /* among the bytes handed on */
	bool bad; /* not base64 */
};

/* Decoded bytes, in order. False: cannot be kept. */
typedef bool http_cut_fn(void *arg, const void *p, size_t n);

struct http_cut {
	http_cut_fn *out;
	void *arg;
	struct buf rest;
	size_t rest_max;
	bool too_large; /* the rest */
	bool failed; /* `out` was false */
	char token[HTTP_CUT_TOKEN + 1];
	struct http_cut_part part[HTTP_CUT_MAX];
	unsigned part_count;
	uint64_t total;

	/* where it is in the text */
	int state; /* enum state of cut.c */
	int depth;
	char kind[4]; /* '{' or '[' of the depths 1 to 3 */
	bool key_due; /* the next string at this depth is a name */
	bool in_list, in_content; /* the last name at depth 1, at depth 3 */
	char name[16];
	size_t name_n;
	unsigned hex, hex_n;
	char block[HTTP_CUT_BLOCK];
	size_t block_n;
};

/* `token`: what no client can know, HTTP_CUT_TOKEN hexadecimal digits. */
void http_cut_init(struct http_cut *c, const char *token, size_t rest_max,
    http_cut_fn *out, void *arg);
/* False once it is too large or has failed. */
bool http_cut_feed(struct http_cut *c, const char *p, size_t n);
#define HTTP_CUT_NAME (HTTP_CUT_TOKEN + 8)
/*
 * A part that comes from elsewhere, and its bytes as they are; `name` stands
 * for it. False: there are too many, or `out` was false.
 */
bool http_cut_open(struct http_cut *c, char name[HTTP_CUT_NAME]);
bool http_cut_add(struct http_cut *c, const void *p, size_t n);
/* Bytes of the document that hold no part. False once it is too large. */
bool http_cut_keep(struct http_cut *c, const char *p, size_t n);
/* The part that a string of the rest stands for; NULL: it is itself. */
const struct http_cut_part *http_cut_find(
    const struct http_cut *c, struct str text);
void http_cut_free(struct http_cut *c);

#endif
