/* SPDX-License-Identifier: ISC */
/*
 * cbor.h - one item of CBOR after the other, by libcbor's decoder that
 * allocates nothing. Only what CTAP2 uses: definite lengths, integers below
 * 2^63, no tags, no floats.
 */
#ifndef AUTH_CBOR_H
#define AUTH_CBOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum cbor_kind {
	CBOR_BAD,
	CBOR_INT,
	CBOR_BYTES,
	CBOR_TEXT,
	CBOR_LIST,
	CBOR_PAIRS,
	CBOR_SIMPLE
};

struct cbor_item {
	enum cbor_kind kind;
	int64_t v; /* an integer; how many items or pairs follow */
	struct str s; /* bytes or text, borrowed */
};

/* Cut the next item off; of a list or map only its head. */
MUST_CHECK bool cbor_next(struct str *rest, struct cbor_item *item);
/* Cut one whole item off, at most so deep and with so many inside. */
#define CBOR_DEPTH_MAX 4
#define CBOR_ITEMS_MAX 64
MUST_CHECK bool cbor_skip(struct str *rest);

#endif
