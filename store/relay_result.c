/* SPDX-License-Identifier: ISC */
/* relay_result.c - how a delivery ended, and what the sender is told of it. */
#include <string.h>

#include "store/relay_internal.h"

static void
result_args(struct pg_args *a, const struct relay_rcpt *v, size_t n)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < n; i++)
		pg_item_i32(a, v[i].ix);
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < n; i++)
		pg_item_i32(a, (int)v[i].result);
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < n; i++) {
		if (v[i].code != 0)
			pg_item_i32(a, v[i].code);
		else
			pg_item_null(a);
	}
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_TEXT);
	for (i = 0; i < n; i++)
		pg_item_str(a, str_of(v[i].enhanced));
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_TEXT);
	for (i = 0; i < n; i++)
		pg_item_str(a, str_of(v[i].text));
	pg_array_end(a);
}

static void
report_args(struct pg_args *a, const struct relay_reports *r)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_TEXT);
	for (i = 0; i < r->n; i++)
		pg_item_str(a, str_of(r->v[i].kind));
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_TEXT);
	for (i = 0; i < r->n; i++)
		pg_item_str(a, r->v[i].ix);
	pg_array_end(a);
	pg_i32(a, r->epoch);
	pg_array_begin(a, PG_ELEM_BYTES);
	for (i = 0; i < r->n; i++)
		pg_item_bytes(a, r->v[i].box.p, r->v[i].box.n);
	pg_array_end(a);
}

struct relay_op *
relay_finish(struct relay *r, const struct store_lease *l,
    const struct relay_rcpt *v, size_t n, int retry_s,
    const struct relay_reports *reports, relay_done_fn *done, void *arg)
{
	const char *sql =
	    "select * from api.done_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)";
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	result_args(&a, v, n);
	pg_i32(&a, retry_s);
	pg_text(&a, n > 0 ? v[0].text : "");
	if (reports != NULL && reports->n > 0) {
		report_args(&a, reports);
		sql = "select * from api.done_1($1,$2,$3,$4,$5,$6,$7,$8,$9,"
		      "$10,$11,$12,$13,$14,$15)";
	}
	op = relay_call(r, sql, &a, relay_on_done, arg);
	op->fn.done = done;
	return op;
}

static void
on_key(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct str pub = { NULL, 0 };

	if (st == RELAY_DONE && pg_rows(res) != 1)
		st = RELAY_REFUSED;
	if (st != RELAY_DONE) {
		op.fn.key(op.arg, st, relay_why_of(err, res), pub, 0, false);
		return;
	}
	if (!pg_is_null(res, 0, "inbox_pub"))
		pub = pg_get_bytes(res, 0, "inbox_pub");
	op.fn.key(op.arg, st, "", pub,
	    pub.n > 0 ? pg_get_int(res, 0, "inbox_epoch") : 0,
	    pg_get_bool(res, 0, "delay_told"));
}

struct relay_op *
relay_report_key(
    struct relay *r, const struct store_lease *l, relay_key_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	op = relay_call(
	    r, "select * from api.dsn_key_1($1,$2,$3,$4)", &a, on_key, arg);
	op->fn.key = done;
	return op;
}
