/* SPDX-License-Identifier: ISC */
#include "store/one_click.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "store/store_internal.h"

struct store_one_click {
	struct pg_req *req;
	store_one_click_fn *done;
	void *arg;
};

static void
on_answer(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_one_click *op = arg;
	struct store_one_click copy = *op;

	free(op);
	copy.done(copy.arg, store_row_code(err, res));
}

struct store_one_click *
store_unsubscribe(struct store *st, const void *token, size_t n,
    store_one_click_fn *done, void *arg)
{
	struct store_one_click *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->done = done;
	op->arg = arg;
	pg_bytes(&args, token, n);
	op->req = pg_call_move(st->pool, "select * from api.unsubscribe_1($1)",
	    &args, on_answer, op);
	return op;
}

void
store_unsubscribe_cancel(struct store_one_click *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	free(op);
}
