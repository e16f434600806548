/* SPDX-License-Identifier: ISC */
/*
 * text.h - one leaf or encoded word to UTF-8
 *
 * Memory in, memory out, no descriptor: the sandbox is around it, and a
 * fuzzer drives it. The layout of requests is in base/helper/wire.h.
 */
#ifndef DECODE_TEXT_H
#define DECODE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/helper/wire.h"

struct text_request {
	enum helper_kind kind;
	enum helper_encoding encoding;
	bool more; /* the leaf goes on: an open end is no mistake */
	const char *charset;
	size_t charset_n;
	const char *type;
	size_t type_n;
	const unsigned char *bytes;
	size_t n;
};

/*
 * How long a request with this head is, all of it; 0 when the head is not
 * one. `head` has HELPER_REQUEST_HEAD bytes.
 */
size_t text_request_size(const unsigned char *head);
/* Views into `p`. False: not a request. */
bool text_request_parse(
    struct text_request *r, const unsigned char *p, size_t n);

/*
 * The whole reply, head and text, in a buffer of its own that the caller
 * frees; NULL when the request makes no sense, or memory ran out. Needs
 * charset_open_all().
 */
unsigned char *text_reply(const struct text_request *r, size_t *n);

#endif
