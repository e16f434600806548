/* SPDX-License-Identifier: ISC */
/*
 * relay.c - the worker's calls, as docs/store-api.md has them. Each is one
 * statement; a handle lives from the call to its callback or cancel.
 */
#include "store/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/xalloc.h"
#include "store/pg.h"
#include "store/relay_internal.h"
#include "store/relay_set.h"
#include "store/store.h"

#define POOL_CONNS 4
#define POOL_QUEUE 4096
#define CLAIM_MAX 64
#define CLAIM_MORE 206 /* the status of a row that is no lease */

struct relay *
relay_new(struct loop *loop, const struct conf *conf)
{
	struct relay *r = xcalloc(1, sizeof(*r));
	struct pg_conf pc = { 0 };

	store_pg_conf(&pc, conf, "l_worker", "postern-deliver");
	pc.conns = POOL_CONNS;
	pc.queue = POOL_QUEUE;
	r->loop = loop;
	r->pool = pg_pool_new(loop, &pc);
	LIST_INIT(&r->ops);
	relay_lanes_open(r);
	return r;
}

void
relay_free(struct relay *r)
{
	struct relay_op *op;

	if (r == NULL)
		return;
	pg_pool_free(r->pool);
	while ((op = LIST_FIRST(&r->ops)) != NULL) {
		relay_leave(op);
		LIST_REMOVE(op, link);
		free(op);
	}
	relay_lanes_close(r);
	free(r);
}

bool
relay_ready(const struct relay *r)
{
	return pg_pool_ready(r->pool);
}

void
relay_cancel(struct relay_op *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	relay_leave(op);
	LIST_REMOVE(op, link);
	free(op);
}

struct relay_op *
relay_op_new(struct relay *r, void *arg)
{
	struct relay_op *op = xcalloc(1, sizeof(*op));

	op->relay = r;
	op->arg = arg;
	LIST_INSERT_HEAD(&r->ops, op, link);
	return op;
}

struct relay_op *
relay_call(struct relay *r, const char *sql, struct pg_args *a,
    pg_done_fn *done, void *arg)
{
	struct relay_op *op = relay_op_new(r, arg);

	op->req = pg_call_move(r->pool, sql, a, done, op);
	return op;
}

/* The handle dies here; what it carried is copied out. */
struct relay_op
relay_take(void *arg)
{
	struct relay_op *op = arg, copy = *op;

	relay_leave(op);
	LIST_REMOVE(op, link);
	free(op);
	return copy;
}

enum relay_status
relay_status_of(enum pg_err err, const struct pg_result *res)
{
	if (err == PG_UNSENT || err == PG_LOST)
		return RELAY_LOST;
	if (err == PG_REJECTED)
		return RELAY_REFUSED;
	if (pg_rows(res) > 0 && pg_get_int(res, 0, "status") >= 300)
		return RELAY_REFUSED;
	return RELAY_DONE;
}

const char *
relay_why_of(enum pg_err err, const struct pg_result *res)
{
	if (err == PG_UNSENT || err == PG_LOST)
		return "store_unavailable";
	if (err == PG_REJECTED)
		return pg_message(res);
	return pg_rows(res) > 0 ? pg_get_text(res, 0, "code") : "";
}

void
relay_lease_args(struct pg_args *a, const struct store_lease *l)
{
	pg_i64(a, l->tenant);
	pg_uuid(a, &l->message);
	pg_text(a, l->domain);
	pg_uuid(a, &l->lease);
}

void
relay_on_done(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);

	op.fn.done(op.arg, relay_status_of(err, res), relay_why_of(err, res));
}

static void
on_claim(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct store_lease v[CLAIM_MAX];
	size_t n = 0;
	bool more = false;
	int row;

	for (row = 0; st == RELAY_DONE && row < pg_rows(res); row++) {
		struct store_lease *l = &v[n];
		const char *domain = pg_get_text(res, row, "domain");
		size_t len = strlen(domain);

		if (pg_get_int(res, row, "status") == CLAIM_MORE) {
			more = true;
			continue;
		}
		BUG_ON(n == CLAIM_MAX);
		n++;
		BUG_ON(len > RELAY_DOMAIN_MAX);
		l->tenant = pg_get_i64(res, row, "tenant_id");
		l->message = pg_get_uuid(res, row, "message_id");
		l->lease = pg_get_uuid(res, row, "lease");
		l->attempts = pg_get_int(res, row, "attempts");
		l->test = pg_get_bool(res, row, "test");
		(void)snprintf(
		    l->way, sizeof(l->way), "%s", pg_get_text(res, row, "way"));
		memcpy(l->domain, domain, len + 1);
	}
	op.fn.claim(op.arg, st, v, n, more);
}

struct relay_op *
relay_claim(struct relay *r, const char *worker, int limit, int lease_s,
    const char *const *skip, size_t n, relay_claim_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;
	size_t i;

	pg_text(&a, worker);
	pg_i32(&a, limit < CLAIM_MAX ? limit : CLAIM_MAX);
	pg_i32(&a, lease_s);
	if (n > 0) {
		pg_array_begin(&a, PG_ELEM_TEXT);
		for (i = 0; i < n; i++)
			pg_item_str(&a, str_of(skip[i]));
		pg_array_end(&a);
	}
	op = relay_call(r,
	    n > 0 ? "select * from api.claim_due_1($1,$2,$3,$4)"
		  : "select * from api.claim_due_1($1,$2,$3)",
	    &a, on_claim, arg);
	op->fn.claim = done;
	return op;
}

static void
fill_release(struct relay_message *m, const struct pg_result *res, int row)
{
	m->digest = pg_get_bytes(res, row, "digest");
	m->body_tag = pg_get_bytes(res, row, "body_tag");
	m->relay_box = pg_get_bytes(res, row, "relay_box");
	m->tag = pg_get_bytes(res, row, "tag");
	m->proofs = pg_get_bytes(res, row, "proofs");
	m->by_policy = strcmp(pg_get_text(res, row, "release_by"), "o") != 0;
	m->mode = pg_get_int(res, row, "release_mode");
	m->mode_epoch = pg_get_int(res, row, "release_mode_epoch");
	m->expiry = pg_get_i64(res, row, "expiry");
	m->now_us = pg_get_i64(res, row, "now_us");
}

static void
fill_message(struct relay_message *m, const struct pg_result *res, int row)
{
	m->deployment = pg_get_bytes(res, row, "deployment");
	m->epoch = (uint32_t)pg_get_int(res, row, "epoch");
	m->tenant = pg_get_i64(res, row, "tenant_id");
	m->inbox = pg_get_i64(res, row, "inbox_id");
	m->version = (uint16_t)pg_get_int(res, row, "version");
	m->round = (uint32_t)pg_get_int(res, row, "round");
	m->test = pg_get_bool(res, row, "test");
	m->same_mx = str_of(pg_get_text(res, row, "same_mx"));
	m->mail_from = str_of(pg_get_text(res, row, "mail_from"));
	m->rcpts = str_of(pg_get_text(res, row, "rcpts"));
	m->params = str_of(pg_get_text(res, row, "params"));
	m->due_ix = str_of(pg_get_text(res, row, "due_ix"));
	m->size = pg_get_i64(res, row, "size");
	m->chunks = pg_get_int(res, row, "chunks");
	m->attempts = pg_get_int(res, row, "attempts");
	m->send_at = pg_get_i64(res, row, "send_at");
	m->not_after = pg_get_i64(res, row, "not_after");
	m->routed = pg_get_bool(res, row, "routed");
	m->one_click = pg_get_bool(res, row, "one_click");
	m->released_us = pg_get_i64(res, row, "released_us");
	fill_release(m, res, row);
}

static void
on_fetch(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct relay_message m = { 0 };

	if (st != RELAY_DONE || pg_rows(res) != 1) {
		op.fn.fetch(op.arg, st == RELAY_DONE ? RELAY_REFUSED : st,
		    st == RELAY_DONE ? "no release" : relay_why_of(err, res),
		    NULL);
		return;
	}
	fill_message(&m, res, 0);
	m.came_ms = clock_mono_ms();
	op.fn.fetch(op.arg, RELAY_DONE, "", &m);
}

static void
on_fetched(
    struct relay_op *arg, enum pg_err err, const struct pg_result *res, int row)
{
	struct relay_op op = relay_take(arg);
	struct relay_message m = { 0 };

	if (err != PG_OK) {
		op.fn.fetch(op.arg, RELAY_LOST, relay_why_of(err, res), NULL);
		return;
	}
	fill_message(&m, res, row);
	if (!pg_is_null(res, row, "data"))
		m.body = pg_get_bytes(res, row, "data");
	m.passed = pg_get_bool(res, row, "passed");
	m.came_ms = op.came_ms;
	op.fn.fetch(op.arg, RELAY_DONE, "", &m);
}

struct relay_op *
relay_fetch(struct relay *r, const struct store_lease *l, relay_fetch_fn *done,
    void *arg)
{
	struct relay_item item = { .lease = *l };
	struct pg_args a = { 0 };
	struct relay_op *op = relay_op_new(r, arg);

	relay_lease_args(&a, l);
	op->fn.fetch = done;
	op->set_done = on_fetched;
	relay_join(op, RELAY_LANE_FETCH, &item,
	    "select * from api.fetch_1($1,$2,$3,$4)", &a, on_fetch);
	return op;
}

static void
on_body(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	int rows = st == RELAY_DONE ? pg_rows(res) : 0, row;

	/* The consumer must not free its state between rows: see relay.h. */
	for (row = 0; row < rows; row++) {
		op.fn.body(op.arg, RELAY_DONE, pg_get_int(res, row, "seq"),
		    pg_get_bytes(res, row, "data"));
	}
	op.fn.body(op.arg, st, -1, (struct str){ NULL, 0 });
}

struct relay_op *
relay_body(struct relay *r, const struct store_lease *l, int from, int limit,
    relay_body_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	pg_i32(&a, from);
	pg_i32(&a, limit);
	op = relay_call(r, "select * from api.fetch_body_1($1,$2,$3,$4,$5,$6)",
	    &a, on_body, arg);
	op->fn.body = done;
	return op;
}

static void
on_beat(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);

	if (st == RELAY_DONE && (size_t)pg_rows(res) < op.n)
		st = RELAY_REFUSED;
	op.fn.done(op.arg, st, st == RELAY_DONE ? "" : "lease lost");
}

struct relay_op *
relay_beat(struct relay *r, const struct store_lease *const *v, size_t n,
    int lease_s, relay_done_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;
	size_t i;

	pg_array_begin(&a, PG_ELEM_UUID);
	for (i = 0; i < n; i++)
		pg_item_uuid(&a, &v[i]->lease);
	pg_array_end(&a);
	pg_i32(&a, lease_s);
	op = relay_call(r, "select * from api.beat_1($1,$2)", &a, on_beat, arg);
	op->fn.done = done;
	op->n = n;
	return op;
}

static void
ix_args(struct pg_args *a, const int *ix, size_t n)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < n; i++)
		pg_item_i32(a, ix[i]);
	pg_array_end(a);
}

/* Go, or the reason why not. */
static void
on_gate(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	const char *why = relay_why_of(err, res);

	if (st == RELAY_DONE &&
	    (pg_rows(res) != 1 || !pg_get_bool(res, 0, "go"))) {
		st = RELAY_REFUSED;
		why = pg_rows(res) == 1 ? pg_get_text(res, 0, "reason") : "";
	}
	op.fn.done(op.arg, st, why);
}

/* Of a set: go. */
static void
on_went(
    struct relay_op *arg, enum pg_err err, const struct pg_result *res, int row)
{
	struct relay_op op = relay_take(arg);

	(void)row;
	op.fn.done(op.arg, err == PG_OK ? RELAY_DONE : RELAY_LOST,
	    err == PG_OK ? "" : relay_why_of(err, res));
}

/* Together with others, if there are not too many recipients. */
static struct relay_op *
gate_call(struct relay *r, enum relay_lane_kind kind, struct relay_item *item,
    const int *ix, size_t n, const char *sql, struct pg_args *a,
    relay_done_fn *done, void *arg)
{
	struct relay_op *op;

	if (n > RELAY_SET_RCPTS) {
		op = relay_call(r, sql, a, on_gate, arg);
		op->fn.done = done;
		return op;
	}
	op = relay_op_new(r, arg);
	op->fn.done = done;
	op->set_done = on_went;
	relay_item_ix(item, ix, n);
	relay_join(op, kind, item, sql, a, on_gate);
	return op;
}

struct relay_op *
relay_attempt(struct relay *r, const struct store_lease *l, const char *mx,
    const char *tls, const int *ix, size_t n, relay_done_fn *done, void *arg)
{
	struct relay_item item = { .lease = *l };
	struct pg_args a = { 0 };

	relay_item_host(&item, mx, tls);
	relay_lease_args(&a, l);
	pg_text(&a, mx);
	pg_text(&a, tls);
	ix_args(&a, ix, n);
	return gate_call(r, RELAY_LANE_ATTEMPT, &item, ix, n,
	    "select * from api.attempt_1($1,$2,$3,$4,$5,$6,$7)", &a, done, arg);
}

struct relay_op *
relay_dot(struct relay *r, const struct store_lease *l, int64_t inbox,
    const char *mx, const char *tls, const int *ix, size_t n,
    relay_done_fn *done, void *arg)
{
	struct relay_item item = { .lease = *l, .inbox = inbox };
	struct pg_args a = { 0 };

	relay_item_host(&item, mx, tls);
	relay_lease_args(&a, l);
	ix_args(&a, ix, n);
	pg_text(&a, mx);
	pg_text(&a, tls);
	return gate_call(r, RELAY_LANE_DOT, &item, ix, n,
	    "select * from api.dot_1($1,$2,$3,$4,$5,$6,$7)", &a, done, arg);
}

struct relay_op *
relay_capture(struct relay *r, const struct store_lease *l, const int *ix,
    size_t n, struct str mail_from, int key_epoch, struct str sealed,
    relay_done_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	ix_args(&a, ix, n);
	pg_str(&a, mail_from);
	pg_i32(&a, key_epoch);
	pg_bytes(&a, sealed.p, sealed.n);
	op = relay_call(r,
	    "select * from api.capture_1($1,$2,$3,$4,$5,$6,$7,$8)", &a, on_gate,
	    arg);
	op->fn.done = done;
	return op;
}

struct relay_op *
relay_release(struct relay *r, const struct store_lease *l, int retry_s,
    relay_done_fn *done, void *arg)
{
	struct relay_item item = { .lease = *l, .code = retry_s };
	struct pg_args a = { 0 };
	struct relay_op *op = relay_op_new(r, arg);

	relay_lease_args(&a, l);
	pg_i32(&a, retry_s);
	op->fn.done = done;
	op->set_done = on_went;
	relay_join(op, RELAY_LANE_RELEASE, &item,
	    "select * from api.release_lease_1($1,$2,$3,$4,$5)", &a,
	    relay_on_done);
	return op;
}

struct relay_op *
relay_integrity(struct relay *r, const struct store_lease *l, const char *why,
    relay_done_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	relay_lease_args(&a, l);
	pg_text(&a, why);
	op = relay_call(r, "select * from api.integrity_1($1,$2,$3,$4,$5)", &a,
	    relay_on_done, arg);
	op->fn.done = done;
	return op;
}

static void
on_sweep(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	bool more = false;
	int row;

	for (row = 0; st == RELAY_DONE && row < pg_rows(res); row++)
		more |= pg_get_bool(res, row, "more");
	op.fn.done(op.arg, st, more ? "more" : "");
}

struct relay_op *
relay_sweep(struct relay *r, int limit, relay_done_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op;

	pg_i32(&a, limit);
	op = relay_call(r, "select * from api.sweep_1($1)", &a, on_sweep, arg);
	op->fn.done = done;
	return op;
}

static void
on_stats(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op op = relay_take(arg);
	enum relay_status st = relay_status_of(err, res);
	struct relay_stats s = { 0 };

	if (st == RELAY_DONE && pg_rows(res) == 1) {
		s.due = pg_get_int(res, 0, "due");
		s.uncertain = pg_get_int(res, 0, "uncertain");
		s.held = pg_get_int(res, 0, "held");
		s.oldest_held_us = pg_get_time(res, 0, "oldest_held");
	}
	op.fn.stats(op.arg, st, &s);
}

struct relay_op *
relay_stats(struct relay *r, relay_stats_fn *done, void *arg)
{
	struct pg_args a = { 0 };
	struct relay_op *op = relay_call(
	    r, "select * from api.queue_stats_1()", &a, on_stats, arg);

	op->fn.stats = done;
	return op;
}
