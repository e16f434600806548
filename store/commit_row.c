/* SPDX-License-Identifier: ISC */
/*
 * commit_row.c - one table says what the arguments of api.submit_1 and
 * api.submit_batch_1 are, so that both always take the same.
 */
#include "store/commit_row.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum column_rule {
	ALWAYS,
	WITH_TAG, /* null unless the row carries a release tag */
};

static const struct column {
	enum pg_elem type;
	size_t at;
	enum column_rule rule;
} columns[] = {
#define COLUMN(type, field, rule)                                              \
	{                                                                      \
		PG_ELEM_##type, offsetof(struct commit_row, field), rule       \
	}
	COLUMN(I64, tenant, ALWAYS),
	COLUMN(I64, key, ALWAYS),
	COLUMN(BYTES, proof, ALWAYS),
	COLUMN(UUID, message, ALWAYS),
	COLUMN(TEXT, rcpts, ALWAYS),
	COLUMN(TEXT, kinds, ALWAYS),
	COLUMN(TEXT, params, ALWAYS),
	COLUMN(I64, size, ALWAYS),
	COLUMN(BYTES, body_tag, ALWAYS),
	COLUMN(I64, send_at, ALWAYS),
	COLUMN(I64, not_after, ALWAYS),
	COLUMN(BYTES, digest, ALWAYS),
	COLUMN(TEXT, door, ALWAYS),
	COLUMN(TEXT, subject, ALWAYS),
	COLUMN(TEXT, header_from, ALWAYS),
	COLUMN(TEXT, rfc_id, ALWAYS),
	COLUMN(TEXT, in_reply_to, ALWAYS),
	COLUMN(TEXT, references, ALWAYS),
	COLUMN(UUID, thread, ALWAYS),
	COLUMN(TEXT, labels, ALWAYS),
	COLUMN(TEXT, context, ALWAYS),
	COLUMN(I16, risk, ALWAYS),
	COLUMN(I16, findings_set, ALWAYS),
	COLUMN(I16, finding_max, ALWAYS),
	COLUMN(I32, attachments, ALWAYS),
	COLUMN(BOOL, links, ALWAYS),
	COLUMN(I32, tenant_epoch, ALWAYS),
	COLUMN(BYTES, tenant_box, ALWAYS),
	COLUMN(I32, inbox_epoch, ALWAYS),
	COLUMN(BYTES, inbox_box, ALWAYS),
	COLUMN(I32, chunks, ALWAYS),
	COLUMN(BYTES, body, ALWAYS),
	COLUMN(BYTES, idem, ALWAYS),
	COLUMN(BYTES, request, ALWAYS),
	COLUMN(BOOL, duplicate, ALWAYS),
	COLUMN(UUID, revises, ALWAYS),
	COLUMN(BOOL, limiter, ALWAYS),
	COLUMN(BYTES, relay_box, ALWAYS),
	COLUMN(BYTES, tag, ALWAYS),
	COLUMN(I64, expiry, WITH_TAG),
	COLUMN(I16, tag_mode, WITH_TAG),
	COLUMN(I32, tag_mode_epoch, WITH_TAG),
#undef COLUMN
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
_Static_assert(COLUMNS == 42, "the statements below name 42 arguments");

#define PLACES                                                                 \
	"$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,"      \
	"$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31,$32,$33,$34,"     \
	"$35,$36,$37,$38,$39,$40,$41,$42"

const char commit_sql_one[] = "select * from api.submit_1(" PLACES ")";
const char commit_sql_batch[] = "select * from api.submit_batch_1(" PLACES ")"
				" order by ord";

static bool
is_zero(const struct uuid *u)
{
	static const struct uuid zero;

	return memcmp(u, &zero, sizeof(zero)) == 0;
}

/* Each value as an element: absent ones as null. */
static void
put_item(
    struct pg_args *a, const struct column *col, const struct commit_row *row)
{
	const char *field = (const char *)row + col->at;
	struct str s = { NULL, 0 };
	struct uuid u;
	int64_t i64;
	int i;

	if (col->rule == WITH_TAG && row->tag.p == NULL) {
		pg_item_null(a);
		return;
	}
	switch (col->type) {
	case PG_ELEM_I64:
	case PG_ELEM_TIME:
		memcpy(&i64, field, sizeof(i64));
		pg_item_i64(a, i64);
		break;
	case PG_ELEM_I32:
		memcpy(&i, field, sizeof(i));
		pg_item_i32(a, i);
		break;
	case PG_ELEM_I16:
		memcpy(&i, field, sizeof(i));
		pg_item_i16(a, i);
		break;
	case PG_ELEM_BOOL:
		pg_item_bool(a, *(const bool *)field);
		break;
	case PG_ELEM_TEXT:
	case PG_ELEM_BYTES:
		memcpy(&s, field, sizeof(s));
		pg_item_str(a, s);
		break;
	case PG_ELEM_UUID:
		memcpy(&u, field, sizeof(u));
		pg_item_uuid(a, is_zero(&u) ? NULL : &u);
		break;
	}
}

static void
put_value(
    struct pg_args *a, const struct column *col, const struct commit_row *row)
{
	const char *field = (const char *)row + col->at;
	struct str s = { NULL, 0 };
	struct uuid u;
	int64_t i64;
	int i;

	if (col->rule == WITH_TAG && row->tag.p == NULL) {
		pg_null(a);
		return;
	}
	switch (col->type) {
	case PG_ELEM_I64:
	case PG_ELEM_TIME:
		memcpy(&i64, field, sizeof(i64));
		pg_i64(a, i64);
		break;
	case PG_ELEM_I32:
		memcpy(&i, field, sizeof(i));
		pg_i32(a, i);
		break;
	case PG_ELEM_I16:
		memcpy(&i, field, sizeof(i));
		pg_i16(a, i);
		break;
	case PG_ELEM_BOOL:
		pg_bool(a, *(const bool *)field);
		break;
	case PG_ELEM_TEXT:
		memcpy(&s, field, sizeof(s));
		pg_str(a, s);
		break;
	case PG_ELEM_BYTES:
		memcpy(&s, field, sizeof(s));
		pg_bytes(a, s.p, s.n);
		break;
	case PG_ELEM_UUID:
		memcpy(&u, field, sizeof(u));
		pg_uuid(a, is_zero(&u) ? NULL : &u);
		break;
	}
}

void
commit_row_args(struct pg_args *a, const struct commit_row *row)
{
	size_t i;

	for (i = 0; i < COLUMNS; i++)
		put_value(a, &columns[i], row);
}

void
commit_rows_args(
    struct pg_args *a, const struct commit_row *const *row, size_t count)
{
	size_t i, k, bytes = 0;

	for (k = 0; k < count; k++)
		bytes += commit_row_size(row[k]);
	(void)buf_reserve(
	    &a->data, bytes); /* bodies are not moved as it grows */
	for (i = 0; i < COLUMNS; i++) {
		pg_array_begin(a, columns[i].type);
		for (k = 0; k < count; k++)
			put_item(a, &columns[i], row[k]);
		pg_array_end(a);
	}
}

void
commit_row_result(
    struct commit_result *out, const struct pg_result *res, int ix)
{
	int status = pg_get_int(res, ix, "status");
	struct str digest = pg_get_bytes(res, ix, "digest");

	*out = (struct commit_result){ 0 };
	if (status >= 300) {
		out->code = error_find(str_of(pg_get_text(res, ix, "code")));
		out->wait = (unsigned)pg_get_int(res, ix, "wait");
		return;
	}
	out->message = pg_get_uuid(res, ix, "message_id");
	out->thread = pg_get_uuid(res, ix, "thread_id");
	out->state = pg_get_int(res, ix, "state");
	out->version = pg_get_int(res, ix, "version");
	out->round = pg_get_int(res, ix, "round");
	if (digest.n == sizeof(out->digest))
		memcpy(out->digest, digest.p, digest.n);
	if (pg_has(res, "reasons"))
		snprintf(out->reasons, sizeof(out->reasons), "%s",
		    pg_get_text(res, ix, "reasons"));
	out->hold_until = pg_get_time(res, ix, "hold_until");
	if (pg_has(res, "replay")) {
		out->replay = pg_get_bool(res, ix, "replay");
		out->already_held = pg_get_bool(res, ix, "already_held");
	}
}

size_t
commit_row_size(const struct commit_row *row)
{
	return row->body.n + row->rcpts.n + row->subject.n + row->references.n +
	       row->context.n + row->labels.n + 1024;
}
