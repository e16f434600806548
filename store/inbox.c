/* SPDX-License-Identifier: ISC */
/* inbox.c - see inbox.h. */
#include "store/inbox.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "store/message_internal.h"

static void
tell_inbox(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	struct store_inbox inbox = { .display_name = "", .metadata = "" };

	if (code == E_NONE && pg_rows(res) == 1) {
		if (pg_has(res, "mode"))
			inbox.mode = pg_get_int(res, 0, "mode");
		inbox.created_at = pg_get_time(res, 0, "created_at");
		inbox.display_name = pg_get_text(res, 0, "display_name");
		inbox.metadata = pg_get_text(res, 0, "metadata");
		inbox.one_click = pg_get_bool(res, 0, "one_click");
	}
	op->done.inbox(op->arg, code, &inbox);
}

struct store_op *
store_inbox_get(const struct store_cred *cred, store_inbox_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	op = store_op_ask(cred, "select * from api.my_inbox_1($1,$2,$3)", &args,
	    tell_inbox, arg);
	op->done.inbox = done;
	return op;
}

struct store_op *
store_inbox_set(const struct store_cred *cred,
    const struct store_inbox_set *set, store_inbox_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	if (set->mode < 0)
		pg_null(&args);
	else
		pg_i16(&args, set->mode);
	pg_text(&args, set->display_name);
	pg_text(&args, set->metadata);
	op = store_op_ask(cred,
	    "select * from api.inbox_set_1($1,$2,$3,$4,$5,$6)", &args,
	    tell_inbox, arg);
	op->done.inbox = done;
	return op;
}

static void
put_list(struct pg_args *args, const struct str *v, size_t n)
{
	size_t i;

	pg_array_begin(args, PG_ELEM_TEXT);
	for (i = 0; i < n; i++)
		pg_item_str(args, v[i]);
	pg_array_end(args);
}

static void
tell_labels(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	op->done.labels(
	    op->arg, code, code == E_NONE ? pg_get_text(res, 0, "labels") : "");
}

struct store_op *
store_message_label(const struct store_cred *cred, const struct uuid *id,
    const struct str *add, size_t add_count, const struct str *away,
    size_t away_count, store_labels_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	put_list(&args, add, add_count);
	put_list(&args, away, away_count);
	op = store_op_ask(cred, "select * from api.label_1($1,$2,$3,$4,$5,$6)",
	    &args, tell_labels, arg);
	op->done.labels = done;
	return op;
}

static void
tell_usage(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = code == E_NONE ? (size_t)pg_rows(res) : 0;
	struct store_usage *u = xcalloc(n + 1, sizeof(*u));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		u[i] = (struct store_usage){
			.day = pg_get_text(res, row, "day"),
			.state = pg_get_int(res, row, "state"),
			.messages = pg_get_i64(res, row, "messages"),
			.recipients = pg_get_i64(res, row, "recipients"),
			.bytes = pg_get_i64(res, row, "bytes"),
			.cut = pg_get_time(res, row, "cut"),
		};
	}
	op->done.usage(op->arg, code, u, n);
	free(u);
}

struct store_op *
store_usage(const struct store_cred *cred, int64_t since, int64_t until,
    store_usage_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_time(&args, since);
	pg_time(&args, until);
	op = store_op_ask(cred, "select * from api.usage_1($1,$2,$3,$4,$5)",
	    &args, tell_usage, arg);
	op->done.usage = done;
	return op;
}
