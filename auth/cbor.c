/* SPDX-License-Identifier: ISC */
#include "auth/cbor.h"

#include <cbor.h>
#include <string.h>

static void
on_uint(struct cbor_item *i, uint64_t v)
{
	if (v <= INT64_MAX)
		*i = (struct cbor_item){ CBOR_INT, (int64_t)v, { 0 } };
}

static void
on_negative(struct cbor_item *i, uint64_t v)
{
	if (v < INT64_MAX)
		*i = (struct cbor_item){ CBOR_INT, -1 - (int64_t)v, { 0 } };
}

#define INTEGER(name, type, to)                                                \
	static void name(void *arg, type v)                                    \
	{                                                                      \
		to(arg, v);                                                    \
	}
INTEGER(uint8, uint8_t, on_uint)
INTEGER(uint16, uint16_t, on_uint)
INTEGER(uint32, uint32_t, on_uint)
INTEGER(uint64, uint64_t, on_uint)
INTEGER(negint8, uint8_t, on_negative)
INTEGER(negint16, uint16_t, on_negative)
INTEGER(negint32, uint32_t, on_negative)
INTEGER(negint64, uint64_t, on_negative)

static void
on_bytes(void *arg, cbor_data p, size_t n)
{
	*(struct cbor_item *)arg =
	    (struct cbor_item){ CBOR_BYTES, 0, { (const char *)p, n } };
}

static void
on_text(void *arg, cbor_data p, size_t n)
{
	*(struct cbor_item *)arg =
	    (struct cbor_item){ CBOR_TEXT, 0, { (const char *)p, n } };
}

static void
on_list(void *arg, size_t n)
{
	if (n <= CBOR_ITEMS_MAX)
		*(struct cbor_item *)arg =
		    (struct cbor_item){ CBOR_LIST, (int64_t)n, { 0 } };
}

static void
on_pairs(void *arg, size_t n)
{
	if (n <= CBOR_ITEMS_MAX)
		*(struct cbor_item *)arg =
		    (struct cbor_item){ CBOR_PAIRS, (int64_t)n, { 0 } };
}

static void
on_boolean(void *arg, bool v)
{
	*(struct cbor_item *)arg = (struct cbor_item){ CBOR_SIMPLE, v, { 0 } };
}

static void
on_null(void *arg)
{
	*(struct cbor_item *)arg = (struct cbor_item){ CBOR_SIMPLE, 0, { 0 } };
}

bool
cbor_next(struct str *rest, struct cbor_item *item)
{
	struct cbor_callbacks calls = cbor_empty_callbacks;
	struct cbor_decoder_result got;

	calls.uint8 = uint8;
	calls.uint16 = uint16;
	calls.uint32 = uint32;
	calls.uint64 = uint64;
	calls.negint8 = negint8;
	calls.negint16 = negint16;
	calls.negint32 = negint32;
	calls.negint64 = negint64;
	calls.byte_string = on_bytes;
	calls.string = on_text;
	calls.array_start = on_list;
	calls.map_start = on_pairs;
	calls.boolean = on_boolean;
	calls.null = on_null;
	memset(item, 0, sizeof(*item));
	if (rest->n == 0)
		return false;
	got = cbor_stream_decode((cbor_data)rest->p, rest->n, &calls, item);
	if (got.status != CBOR_DECODER_FINISHED || got.read == 0 ||
	    got.read > rest->n || item->kind == CBOR_BAD)
		return false;
	rest->p += got.read;
	rest->n -= got.read;
	return true;
}

bool
cbor_skip(struct str *rest)
{
	int64_t left[CBOR_DEPTH_MAX + 1];
	struct cbor_item item;
	int depth = 0, seen = 0;

	left[0] = 1;
	while (depth >= 0) {
		if (left[depth] == 0) {
			depth--;
			continue;
		}
		left[depth]--;
		if (++seen > CBOR_ITEMS_MAX || !cbor_next(rest, &item))
			return false;
		if (item.kind != CBOR_LIST && item.kind != CBOR_PAIRS)
			continue;
		if (++depth > CBOR_DEPTH_MAX)
			return false;
		left[depth] = item.kind == CBOR_LIST ? item.v : item.v * 2;
	}
	return true;
}
