/* SPDX-License-Identifier: ISC */
/* relay_result.c - how a delivery ended, and what the sender is told of it. */
#include <stdio.h>
#include <string.h>

#include "store/relay_set.h"

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

/* Whose result speaks of its address. */
static void
own_args(struct pg_args *a, const struct relay_rcpt *v, size_t n)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < n; i++) {
		if (v[i].is_own)
			pg_item_i32(a, v[i].ix);
	}
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

/* All were taken with one reply, and there is nothing to tell. */
static bool
is_sent(struct relay_item *item, const struct relay_rcpt *v, size_t n,
    const struct relay_reports *reports)
{
	int ix[RELAY_SET_RCPTS];
	size_t i;

	if (n == 0 || n > RELAY_SET_RCPTS || v[0].code == 0 ||
	    (reports != NULL && reports->n > 0))
		return false;
	for (i = 0; i < n; i++) {
		if (v[i].result != RELAY_DELIVERED || v[i].code != v[0].code ||
		    strcmp(v[i].enhanced, v[0].enhanced) != 0 ||
		    strcmp(v[i].text, v[0].text) != 0)
			return false;
		ix[i] = v[i].ix;
	}
	relay_item_ix(item, ix, n);
	item->code = v[0].code;
	(void)snprintf(
	    item->enhanced, sizeof(item->enhanced), "%s", v[0].enhanced);
	(void)snprintf(item->text, sizeof(item->text), "%s", v[0].text);
	return true;
}

/* Of a set: the results are stored. */
static void
on_stored(
    struct relay_op *arg, enum pg_err err, const struct pg_result *res, int row)
{
	struct relay_op op = relay_take(arg);

	(void)row;
	op.fn.done(op.arg, err == PG_OK ? RELAY_DONE : RELAY_LOST,
	    err == PG_OK ? "" : relay_why_of(err, res));
}

struct relay_op *
relay_finish(struct relay *r, const struct store_lease *l, const char *mx,
    const char *tls, const struct relay_rcpt *v, size_t n, int retry_s,
    const struct relay_reports *reports, relay_done_fn *done, void *arg)
{
	const char *sql = "select * from api.done_1($1,$2,$3,$4,$5,$6,$7,$8,$9,"
			  "$10,$11,host=>$12,safety=>$13,own=>$14)";
	struct relay_item item = { .lease = *l };
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	result_args(&a, v, n);
	pg_i32(&a, retry_s);
	pg_text(&a, n > 0 ? v[0].text : "");
	pg_text(&a, mx);
	pg_text(&a, tls);
	own_args(&a, v, n);
	if (reports != NULL && reports->n > 0) {
		report_args(&a, reports);
		sql = "select * from api.done_1($1,$2,$3,$4,$5,$6,$7,$8,$9,"
		      "$10,$11,$15,$16,$17,$18,$12,$13,$14)";
	}
	op = relay_op_new(r, arg);
	op->fn.done = done;
	op->set_done = on_stored;
	if (is_sent(&item, v, n, reports))
		relay_join(op, RELAY_LANE_SENT, &item, sql, &a, relay_on_done);
	else
		op->req = pg_call_move(r->pool, sql, &a, relay_on_done, op);
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
