/* SPDX-License-Identifier: ISC */
/* entry.c - see entry.h. */
#include "store/entry.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "store/message_internal.h"

static void
tell_entries(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = code == E_NONE ? (size_t)pg_rows(res) : 0;
	struct store_entry *e = xcalloc(n + 1, sizeof(*e));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		e[i] = (struct store_entry){
			.id = pg_get_i64(res, row, "entry_id"),
			.entry = pg_get_text(res, row, "entry"),
			.reason = pg_get_text(res, row, "reason"),
			.mine = pg_get_bool(res, row, "mine"),
			.created_at = pg_get_time(res, row, "created_at"),
			.expires_at = pg_get_time(res, row, "expires_at"),
		};
	}
	op->done.entries(op->arg, code, e, n);
	free(e);
}

struct store_op *
store_entries(const struct store_cred *cred, char what, const char *one,
    int64_t after, int limit, store_entries_fn *done, void *arg)
{
	char letter[2] = { what, '\0' };
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_text(&args, letter);
	pg_text(&args, one);
	if (after == 0)
		pg_null(&args);
	else
		pg_i64(&args, after);
	pg_i32(&args, limit);
	op = store_op_ask(cred,
	    "select * from api.my_lists_1($1,$2,$3,$4,$5,$6,$7)", &args,
	    tell_entries, arg);
	op->done.entries = done;
	return op;
}

static void
tell_block(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	int64_t at = 0;
	bool fresh = false;

	if (code == E_NONE) {
		at = pg_get_time(res, 0, "created_at");
		fresh = pg_get_int(res, 0, "status") == 201;
	}
	op->done.block(op->arg, code, at, fresh);
}

struct store_op *
store_block(const struct store_cred *cred, const char *entry, struct str reason,
    store_block_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_text(&args, entry);
	pg_str(&args, reason);
	op = store_op_ask(cred, "select * from api.block_1($1,$2,$3,$4,$5)",
	    &args, tell_block, arg);
	op->done.block = done;
	return op;
}
