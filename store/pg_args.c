/* SPDX-License-Identifier: ISC */
/*
 * pg_args.c - values of a statement in PostgreSQL's binary form.
 */
#include "store/pg.h"

#include <string.h>

#include "base/xalloc.h"

/* Object ids of the types, fixed for ever in pg_type.dat. */
enum {
	OID_BOOL = 16,
	OID_BYTEA = 17,
	OID_INT8 = 20,
	OID_INT2 = 21,
	OID_INT4 = 23,
	OID_TEXT = 25,
	OID_TIMESTAMPTZ = 1184,
	OID_UUID = 2950,
};

/* Microseconds from 1970 to 2000, where PostgreSQL's clock begins. */
#define EPOCH_2000 INT64_C(946684800000000)

static const struct elem {
	unsigned item, array;
} elems[] = {
	[PG_ELEM_I64] = { OID_INT8, 1016 },
	[PG_ELEM_I32] = { OID_INT4, 1007 },
	[PG_ELEM_I16] = { OID_INT2, 1005 },
	[PG_ELEM_BOOL] = { OID_BOOL, 1000 },
	[PG_ELEM_TEXT] = { OID_TEXT, 1009 },
	[PG_ELEM_BYTES] = { OID_BYTEA, 1001 },
	[PG_ELEM_UUID] = { OID_UUID, 2951 },
	[PG_ELEM_TIME] = { OID_TIMESTAMPTZ, 1185 },
};

/* Header of an array: dimensions, has-nulls flag, type, count, first index. */
enum { ARRAY_NDIM = 0, ARRAY_NULLS = 4, ARRAY_COUNT = 12, ARRAY_HEADER = 20 };

static void
add_arg(struct pg_args *a, unsigned type, int len)
{
	BUG_ON(a->n >= PG_ARGS_MAX || a->array != 0);
	a->type[a->n] = type;
	a->len[a->n] = len;
	a->at[a->n] = a->data.n;
	a->n++;
}

void
pg_null(struct pg_args *a)
{
	add_arg(a, 0, -1);
}

void
pg_i64(struct pg_args *a, int64_t v)
{
	add_arg(a, OID_INT8, 8);
	buf_u64(&a->data, (uint64_t)v);
}

void
pg_i32(struct pg_args *a, int32_t v)
{
	add_arg(a, OID_INT4, 4);
	buf_u32(&a->data, (uint32_t)v);
}

void
pg_i16(struct pg_args *a, int v)
{
	add_arg(a, OID_INT2, 2);
	buf_u16(&a->data, (uint16_t)v);
}

void
pg_bool(struct pg_args *a, bool v)
{
	add_arg(a, OID_BOOL, 1);
	buf_u8(&a->data, v);
}

static void
add_run(struct pg_args *a, unsigned type, const void *p, size_t n)
{
	BUG_ON(n > INT32_MAX);
	add_arg(a, type, p != NULL ? (int)n : -1);
	if (p != NULL)
		buf_add(&a->data, p, n);
}

void
pg_text(struct pg_args *a, const char *s)
{
	add_run(a, OID_TEXT, s, s != NULL ? strlen(s) : 0);
}

void
pg_str(struct pg_args *a, struct str s)
{
	add_run(a, OID_TEXT, s.p, s.n);
}

void
pg_bytes(struct pg_args *a, const void *p, size_t n)
{
	add_run(a, OID_BYTEA, p, n);
}

void
pg_uuid(struct pg_args *a, const struct uuid *u)
{
	add_run(a, OID_UUID, u != NULL ? u->b : NULL, sizeof(u->b));
}

void
pg_time(struct pg_args *a, int64_t us)
{
	add_arg(a, OID_TIMESTAMPTZ, us != 0 ? 8 : -1);
	if (us != 0)
		buf_u64(&a->data, (uint64_t)(us - EPOCH_2000));
}

void
pg_array_begin(struct pg_args *a, enum pg_elem type)
{
	add_arg(a, elems[type].array, 0);
	a->array = a->data.n + 1;
	buf_u32(&a->data, 1);
	buf_u32(&a->data, 0);
	buf_u32(&a->data, elems[type].item);
	buf_u32(&a->data, 0);
	buf_u32(&a->data, 1);
}

static void
put_u32(unsigned char *p, uint32_t v)
{
	p[0] = (unsigned char)(v >> 24);
	p[1] = (unsigned char)(v >> 16);
	p[2] = (unsigned char)(v >> 8);
	p[3] = (unsigned char)v;
}

static uint32_t
get_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void
add_item(struct pg_args *a, const void *p, size_t n)
{
	unsigned char *count;

	BUG_ON(a->array == 0 || n > INT32_MAX);
	count = a->data.p + a->array - 1 + ARRAY_COUNT;
	put_u32(count, get_u32(count) + 1);
	buf_u32(&a->data, (uint32_t)n);
	buf_add(&a->data, p, n);
}

void
pg_item_null(struct pg_args *a)
{
	unsigned char *header;

	BUG_ON(a->array == 0);
	header = a->data.p + a->array - 1;
	put_u32(header + ARRAY_NULLS, 1);
	put_u32(header + ARRAY_COUNT, get_u32(header + ARRAY_COUNT) + 1);
	buf_u32(&a->data, UINT32_MAX);
}

static void
add_number(struct pg_args *a, uint64_t v, size_t n)
{
	unsigned char b[8];

	put_u32(b, (uint32_t)(v >> 32));
	put_u32(b + 4, (uint32_t)v);
	add_item(a, b + 8 - n, n);
}

void
pg_item_i64(struct pg_args *a, int64_t v)
{
	add_number(a, (uint64_t)v, 8);
}

void
pg_item_i32(struct pg_args *a, int32_t v)
{
	add_number(a, (uint32_t)v, 4);
}

void
pg_item_i16(struct pg_args *a, int v)
{
	add_number(a, (uint16_t)v, 2);
}

void
pg_item_bool(struct pg_args *a, bool v)
{
	add_number(a, v, 1);
}

void
pg_item_str(struct pg_args *a, struct str s)
{
	if (s.p == NULL)
		pg_item_null(a);
	else
		add_item(a, s.p, s.n);
}

void
pg_item_bytes(struct pg_args *a, const void *p, size_t n)
{
	if (p == NULL)
		pg_item_null(a);
	else
		add_item(a, p, n);
}

void
pg_item_uuid(struct pg_args *a, const struct uuid *u)
{
	pg_item_bytes(a, u != NULL ? u->b : NULL, sizeof(u->b));
}

void
pg_item_time(struct pg_args *a, int64_t us)
{
	if (us == 0)
		pg_item_null(a);
	else
		add_number(a, (uint64_t)(us - EPOCH_2000), 8);
}

void
pg_array_end(struct pg_args *a)
{
	unsigned char *header;

	BUG_ON(a->array == 0);
	header = a->data.p + a->array - 1;
	/* An array without elements has no dimension either. */
	if (get_u32(header + ARRAY_COUNT) == 0) {
		put_u32(header + ARRAY_NDIM, 0);
		a->data.n = a->array - 1 + ARRAY_COUNT;
	}
	a->len[a->n - 1] = (int)(a->data.n - a->at[a->n - 1]);
	a->array = 0;
}

void
pg_args_free(struct pg_args *a)
{
	if (a->data.p != NULL)
		explicit_bzero(a->data.p, a->data.n);
	buf_free(&a->data);
	a->n = 0;
	a->array = 0;
}
