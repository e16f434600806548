/* SPDX-License-Identifier: ISC */
/* relay_way.c - how a leased message leaves: signed by what, by which host. */
#include <string.h>

#include "store/relay_internal.h"

#define DKIM_MAX 4
#define ROUTE_MAX 2

static void
on_dkim(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct relay_dkim v[DKIM_MAX];
	size_t n = 0;
	int row;

	for (row = 0; st == RELAY_DONE && row < pg_rows(res) && n < DKIM_MAX;
	     row++) {
		v[n].is_ed25519 = pg_get_text(res, row, "algo")[0] == 'e';
		v[n].domain = str_of(pg_get_text(res, row, "domain"));
		v[n].selector = str_of(pg_get_text(res, row, "selector"));
		v[n++].sealed = pg_get_bytes(res, row, "sealed");
	}
	op.fn.dkim(op.arg, st, relay_why_of(err, res), v, n);
}

struct relay_op *
relay_dkim_keys(struct relay *r, const struct store_lease *l,
    relay_dkim_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	op = relay_call(
	    r, "select * from api.dkim_keys_1($1,$2,$3,$4)", &a, on_dkim, arg);
	op->fn.dkim = done;
	return op;
}

static enum relay_route_action
action_of(char letter)
{
	if (letter == 's')
		return RELAY_ROUTE_SUSPEND;
	if (letter == 'b')
		return RELAY_ROUTE_BOUNCE;
	return letter == 't' ? RELAY_ROUTE_TLS : RELAY_ROUTE_VIA;
}

static void
on_routes(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct relay_route v[ROUTE_MAX];
	size_t n = 0;
	int row;

	for (row = 0; st == RELAY_DONE && row < pg_rows(res) && n < ROUTE_MAX;
	     row++) {
		struct relay_route *r = &v[n++];

		r->action = action_of(pg_get_text(res, row, "action")[0]);
		r->id = pg_get_i64(res, row, "route_id");
		r->tenant = pg_get_i64(res, row, "tenant_id");
		r->inbox = pg_get_i64(res, row, "inbox_id");
		r->domain = str_of(pg_get_text(res, row, "domain"));
		r->host = str_of(pg_get_text(res, row, "host"));
		r->login = str_of(pg_get_text(res, row, "login"));
		r->sealed = pg_get_bytes(res, row, "sealed");
		r->port = pg_get_int(res, row, "port");
	}
	op.fn.route(op.arg, st, relay_why_of(err, res), v, n);
}

struct relay_op *
relay_routes(struct relay *r, const struct store_lease *l, relay_route_fn *done,
    void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	op = relay_call(
	    r, "select * from api.route_1($1,$2,$3,$4)", &a, on_routes, arg);
	op->fn.route = done;
	return op;
}

struct relay_op *
relay_ways_changed(struct relay *r, relay_done_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op = relay_call(
	    r, "select * from api.ways_changed_1()", &a, relay_on_done, arg);

	op->fn.done = done;
	return op;
}

static void
on_one_click(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct str token = { "", 0 };

	if (st == RELAY_DONE && pg_rows(res) == 1 &&
	    !pg_is_null(res, 0, "token"))
		token = pg_get_bytes(res, 0, "token");
	op.fn.one_click(op.arg, st, relay_why_of(err, res), token);
}

struct relay_op *
relay_one_click(struct relay *r, const struct store_lease *l, int ix,
    relay_one_click_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	pg_i32(&a, ix);
	op = relay_call(r, "select * from api.one_click_1($1,$2,$3,$4,$5)", &a,
	    on_one_click, arg);
	op->fn.one_click = done;
	return op;
}
