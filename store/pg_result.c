/* SPDX-License-Identifier: ISC */
/*
 * pg_result.c - columns of a result, read from the binary form.
 */
#include "store/pg.h"

#include <string.h>

#include <libpq-fe.h>

#include "base/xalloc.h"

#define EPOCH_2000 INT64_C(946684800000000)
#define NO_COLUMN -1

/*
 * PQfnumber() copies and folds its argument; our names are exact. They are
 * asked for in about their order, so each search begins where the last ended.
 */
static int
find(const struct pg_result *res, const char *col)
{
	static _Thread_local int next;
	int left, n = PQnfields(res);
	const char *name;

	for (left = n; left > 0; left--, next++) {
		if (next >= n)
			next = 0;
		name = PQfname(res, next);
		if (name[0] == col[0] && strcmp(name, col) == 0)
			return next++;
	}
	return NO_COLUMN;
}

static struct str
value(const struct pg_result *res, int row, const char *col)
{
	int i = find(res, col);

	BUG_ON(i == NO_COLUMN || row < 0 || row >= PQntuples(res));
	if (PQgetisnull(res, row, i))
		return (struct str){ NULL, 0 };
	return (struct str){ PQgetvalue(res, row, i),
		(size_t)PQgetlength(res, row, i) };
}

static uint64_t
get_be(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *u++;
	return v;
}

void
pg_result_free(struct pg_result *res)
{
	PQclear(res);
}

int
pg_rows(const struct pg_result *res)
{
	return PQntuples(res);
}

bool
pg_has(const struct pg_result *res, const char *col)
{
	return find(res, col) != NO_COLUMN;
}

bool
pg_is_null(const struct pg_result *res, int row, const char *col)
{
	return value(res, row, col).p == NULL;
}

int64_t
pg_item_to_i64(struct str v)
{
	switch (v.n) {
	case 0:
		return 0;
	case 1:
		return v.p[0];
	case 2:
		return (int16_t)get_be(v.p, 2);
	case 4:
		return (int32_t)get_be(v.p, 4);
	case 8:
		return (int64_t)get_be(v.p, 8);
	}
	BUG_ON(v.n != 0); /* not an integer column */
	return 0;
}

int64_t
pg_get_i64(const struct pg_result *res, int row, const char *col)
{
	return pg_item_to_i64(value(res, row, col));
}

int
pg_get_int(const struct pg_result *res, int row, const char *col)
{
	int64_t v = pg_get_i64(res, row, col);

	BUG_ON(v < INT32_MIN || v > INT32_MAX);
	return (int)v;
}

double
pg_get_double(const struct pg_result *res, int row, const char *col)
{
	struct str v = value(res, row, col);
	uint64_t bits;
	double d = 0;

	BUG_ON(v.n != 0 && v.n != sizeof(d));
	if (v.n == sizeof(d)) {
		bits = get_be(v.p, v.n);
		memcpy(&d, &bits, sizeof(d));
	}
	return d;
}

bool
pg_get_bool(const struct pg_result *res, int row, const char *col)
{
	struct str v = value(res, row, col);

	BUG_ON(v.n > 1);
	return v.n == 1 && v.p[0] != 0;
}

const char *
pg_get_text(const struct pg_result *res, int row, const char *col)
{
	struct str v = value(res, row, col);

	return v.p != NULL ? v.p : "";
}

struct str
pg_get_bytes(const struct pg_result *res, int row, const char *col)
{
	struct str v = value(res, row, col);

	return v.p != NULL ? v : (struct str){ "", 0 };
}

struct uuid
pg_get_uuid(const struct pg_result *res, int row, const char *col)
{
	struct str v = value(res, row, col);
	struct uuid u = { { 0 } };

	BUG_ON(v.n != 0 && v.n != sizeof(u.b));
	if (v.n != 0)
		memcpy(u.b, v.p, sizeof(u.b));
	return u;
}

int64_t
pg_item_to_time(struct str v)
{
	int64_t us;

	if (v.n == 0)
		return 0;
	BUG_ON(v.n != 8);
	us = (int64_t)get_be(v.p, 8);
	if (us == INT64_MAX || us == INT64_MIN)
		return us;
	return us + EPOCH_2000;
}

int64_t
pg_get_time(const struct pg_result *res, int row, const char *col)
{
	return pg_item_to_time(value(res, row, col));
}

int
pg_get_array(
    struct pg_array *it, const struct pg_result *res, int row, const char *col)
{
	enum { HEADER = 12, DIMENSION = 8 };
	struct str v = value(res, row, col);

	*it = (struct pg_array){ 0 };
	if (v.n < HEADER + DIMENSION)
		return 0; /* null, or empty: no dimension */
	BUG_ON(get_be(v.p, 4) != 1);
	it->left = (int)get_be(v.p + HEADER, 4);
	it->p = (const unsigned char *)v.p + HEADER + DIMENSION;
	it->end = (const unsigned char *)v.p + v.n;
	return it->left;
}

bool
pg_array_next(struct pg_array *it, struct str *item)
{
	int32_t len;

	if (it->left <= 0 || it->end - it->p < 4)
		return false;
	it->left--;
	len = (int32_t)get_be((const char *)it->p, 4);
	it->p += 4;
	*item = (struct str){ NULL, 0 };
	if (len < 0)
		return true;
	BUG_ON(len > it->end - it->p);
	*item = (struct str){ (const char *)it->p, (size_t)len };
	it->p += len;
	return true;
}

/* Is there no partition for the row? PostgreSQL calls that a failed check. */
static bool
has_no_week(const struct pg_result *res)
{
	return PQresultErrorField(res, PG_DIAG_TABLE_NAME) != NULL &&
	       PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME) == NULL;
}

const char *
pg_sqlstate(const struct pg_result *res)
{
	const char *s =
	    res != NULL ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;

	if (s == NULL)
		return "";
	return strcmp(s, "23514") == 0 && has_no_week(res) ? PG_NO_ROOM : s;
}

const char *
pg_message(const struct pg_result *res)
{
	const char *s = res != NULL
			    ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)
			    : NULL;

	return s != NULL ? s : "";
}
