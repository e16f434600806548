/* SPDX-License-Identifier: ISC */
/* relay_set.c - the lanes: who waits, who goes together, who goes alone. */
#include "store/relay_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/xalloc.h"

#define SET_MAX 64
#define BUSY_MAX 2 /* lanes with a call under way, beside that of the dots */
#define SENT_MANY 48 /* results that need no more company */
#define SENT_MS 20 /* nor after this */
#define LATER_MS 100 /* what was fetched waits no longer for an idle moment */
#define SMALL_BODY 65536 /* bytes that are read together with the message */

/* One call for several; a place is NULL once its op was cancelled. */
struct relay_set {
	STAILQ_ENTRY(relay_set) link; /* in relay->fetched */
	struct relay_lane *lane;
	struct pg_req *req;
	struct pg_result *res; /* of what was fetched */
	int row; /* of it, that comes next */
	uint64_t came_ms;
	size_t n;
	struct relay_op *op[SET_MAX];
};

static const char *const set_sql[RELAY_LANES] = {
	[RELAY_LANE_FETCH] = "select * from api.fetches_1($1,$2,$3,$4,$5)",
	[RELAY_LANE_ATTEMPT] =
	    "select * from api.attempts_1($1,$2,$3,$4,$5,$6,$7)",
	[RELAY_LANE_DOT] = "select * from api.dots_1($1,$2,$3,$4,$5,$6,$7,$8)",
	[RELAY_LANE_SENT] =
	    "select * from api.sents_1($1,$2,$3,$4,$5,$6,$7,$8)",
	[RELAY_LANE_RELEASE] = "select * from api.releases_1($1,$2,$3,$4,$5)",
};

void
relay_item_host(struct relay_item *item, const char *mx, const char *tls)
{
	(void)snprintf(item->mx, sizeof(item->mx), "%s", mx);
	(void)snprintf(item->tls, sizeof(item->tls), "%s", tls);
}

void
relay_item_ix(struct relay_item *item, const int *ix, size_t n)
{
	size_t i, at = 0;

	BUG_ON(n > RELAY_SET_RCPTS);
	item->ix[at++] = '{';
	for (i = 0; i < n; i++)
		at += (size_t)snprintf(item->ix + at, sizeof(item->ix) - at,
		    "%s%d", i > 0 ? "," : "", ix[i]);
	(void)snprintf(item->ix + at, sizeof(item->ix) - at, "}");
}

static void
text_arg(struct pg_args *a, const struct relay_set *set, size_t offset)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_TEXT);
	for (i = 0; i < set->n; i++)
		pg_item_str(
		    a, str_of((const char *)&set->op[i]->item + offset));
	pg_array_end(a);
}

static void
lease_args(struct pg_args *a, const struct relay_set *set)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I64);
	for (i = 0; i < set->n; i++)
		pg_item_i64(a, set->op[i]->item.lease.tenant);
	pg_array_end(a);
	pg_array_begin(a, PG_ELEM_UUID);
	for (i = 0; i < set->n; i++)
		pg_item_uuid(a, &set->op[i]->item.lease.message);
	pg_array_end(a);
	text_arg(a, set, offsetof(struct relay_item, lease.domain));
	pg_array_begin(a, PG_ELEM_UUID);
	for (i = 0; i < set->n; i++)
		pg_item_uuid(a, &set->op[i]->item.lease.lease);
	pg_array_end(a);
}

static void
inbox_arg(struct pg_args *a, const struct relay_set *set)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I64);
	for (i = 0; i < set->n; i++)
		pg_item_i64(a, set->op[i]->item.inbox);
	pg_array_end(a);
}

static void
code_arg(struct pg_args *a, const struct relay_set *set)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_I32);
	for (i = 0; i < set->n; i++)
		pg_item_i32(a, set->op[i]->item.code);
	pg_array_end(a);
}

static void
set_args(struct pg_args *a, const struct relay_set *set)
{
	lease_args(a, set);
	switch (set->lane->kind) {
	case RELAY_LANE_FETCH:
		pg_i32(a, SMALL_BODY);
		return;
	case RELAY_LANE_ATTEMPT:
		text_arg(a, set, offsetof(struct relay_item, mx));
		text_arg(a, set, offsetof(struct relay_item, tls));
		text_arg(a, set, offsetof(struct relay_item, ix));
		return;
	case RELAY_LANE_DOT:
		text_arg(a, set, offsetof(struct relay_item, ix));
		text_arg(a, set, offsetof(struct relay_item, mx));
		text_arg(a, set, offsetof(struct relay_item, tls));
		inbox_arg(a, set);
		return;
	case RELAY_LANE_SENT:
		text_arg(a, set, offsetof(struct relay_item, ix));
		code_arg(a, set);
		text_arg(a, set, offsetof(struct relay_item, enhanced));
		text_arg(a, set, offsetof(struct relay_item, text));
		return;
	case RELAY_LANE_RELEASE:
		code_arg(a, set);
		return;
	case RELAY_LANES:
		break;
	}
	BUG_ON(true);
}

static void lanes_kick(struct relay *r);

/* Its call is back. */
static void
lane_rests(struct relay_lane *lane)
{
	lane->set = NULL;
	lane->relay->lanes_busy -= lane->kind != RELAY_LANE_DOT;
	lanes_kick(lane->relay);
}

static void
go_alone(struct relay_op *op)
{
	op->req = pg_call_move(
	    op->relay->pool, op->sql, &op->single, op->single_done, op);
}

static void
wait_again(struct relay_op *op)
{
	op->again = true;
	op->waits = true;
	if (op->lane->waits++ == 0)
		op->lane->since_ms = clock_mono_ms();
	TAILQ_INSERT_HEAD(&op->lane->waiting, op, queued);
	lanes_kick(op->relay);
}

/* The one that its lane waits for. */
static void
on_first(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_set *set = arg;
	struct relay_op *op = set->op[0];

	lane_rests(set->lane);
	free(set);
	if (op != NULL) {
		op->set = NULL;
		op->single_done(op, err, res);
	}
}

static void
answer_row(struct relay_set *set, const struct pg_result *res, int row)
{
	int i = pg_get_int(res, row, "i");
	struct relay_op *op;

	if (i < 1 || (size_t)i > set->n || set->op[i - 1] == NULL)
		return;
	op = set->op[i - 1];
	set->op[i - 1] = NULL;
	op->set = NULL;
	op->came_ms = set->came_ms;
	op->set_done(op, PG_OK, res, row);
}

/* Who had no row may have been locked: once more, and then alone. */
static void
set_end(struct relay_set *set, enum pg_err err)
{
	size_t i;

	for (i = 0; i < set->n; i++) {
		struct relay_op *op = set->op[i];

		if (op == NULL)
			continue;
		set->op[i] = NULL;
		op->set = NULL;
		if (err == PG_UNSENT || err == PG_LOST)
			op->set_done(op, err, NULL, 0);
		else if (err == PG_OK && set->lane->kind != RELAY_LANE_FETCH &&
			 !op->again)
			wait_again(op);
		else
			go_alone(op);
	}
	pg_result_free(set->res);
	free(set);
}

/* An answer may cancel others of the set. */
static void
on_set(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_set *set = arg;
	int row;

	lane_rests(set->lane);
	for (row = 0; err == PG_OK && row < pg_rows(res); row++)
		answer_row(set, res, row);
	set_end(set, err);
}

/* The first set, if there is one, is handed on from now on. */
static void
fetched_next(struct relay *r)
{
	loop_timer_stop(r->later);
	loop_timer_stop(r->latest);
	if (STAILQ_EMPTY(&r->fetched))
		return;
	loop_timer_set(r->later, 0);
	loop_timer_set(r->latest, LATER_MS);
}

static void
fetched_end(struct relay *r, struct relay_set *set)
{
	STAILQ_REMOVE_HEAD(&r->fetched, link);
	set_end(set, PG_OK);
	fetched_next(r);
}

/*
 * Each message that was fetched is opened, checked and hashed when it is handed
 * on. Nobody waits for it yet, as jobs are made ready ahead of a place, but
 * sessions do for dots meanwhile: one at a time, when there is nothing else.
 */
static void
on_later(void *arg)
{
	struct relay *r = arg;
	struct relay_set *set = STAILQ_FIRST(&r->fetched);

	if (set->row < pg_rows(set->res)) {
		answer_row(set, set->res, set->row++);
		loop_timer_set(r->later, 0);
	} else {
		fetched_end(r, set);
	}
}

/* There was something else all the time: a set in one go. */
static void
on_latest(void *arg)
{
	struct relay *r = arg;
	struct relay_set *set = STAILQ_FIRST(&r->fetched);

	while (set->row < pg_rows(set->res))
		answer_row(set, set->res, set->row++);
	fetched_end(r, set);
}

static void
on_fetched(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_set *set = arg;
	struct relay *r = set->lane->relay;

	(void)res;
	lane_rests(set->lane);
	if (err != PG_OK) {
		set_end(set, err);
		return;
	}
	set->res = pg_keep(set->req);
	set->came_ms = clock_mono_ms();
	STAILQ_INSERT_TAIL(&r->fetched, set, link);
	if (STAILQ_FIRST(&r->fetched) == set)
		fetched_next(r);
}

/*
 * Does another lane's call change the same message? Both lock its state, and
 * this one would do without it.
 */
static bool
is_being_changed(const struct relay_op *op)
{
	const struct uuid *id = &op->item.lease.message;
	int k;
	size_t i;

	for (k = 0; k < RELAY_LANES; k++) {
		const struct relay_set *set = op->relay->lane[k].set;

		if (k == RELAY_LANE_FETCH || set == NULL)
			continue;
		for (i = 0; i < set->n; i++)
			if (set->op[i] != NULL &&
			    uuid_eq(&set->op[i]->item.lease.message, id))
				return true;
	}
	return false;
}

static struct relay_set *
set_of(struct relay_lane *lane)
{
	struct relay_set *set = xcalloc(1, sizeof(*set));
	struct relay_op *op, *next;
	bool passed = false;

	set->lane = lane;
	for (op = TAILQ_FIRST(&lane->waiting); op != NULL && set->n < SET_MAX;
	     op = next) {
		next = TAILQ_NEXT(op, queued);
		if (lane->kind != RELAY_LANE_FETCH && is_being_changed(op)) {
			passed = true;
			continue;
		}
		TAILQ_REMOVE(&lane->waiting, op, queued);
		lane->waits--;
		op->waits = false;
		op->set = set;
		op->place = set->n;
		set->op[set->n++] = op;
	}
	if (lane->waits > 0)
		lane->since_ms = clock_mono_ms();
	if (!passed)
		lane->passed = 0;
	else if (lane->passed == 0 || set->n > 0)
		lane->passed = ++lane->relay->passes;
	return set;
}

static void
lane_run(struct relay_lane *lane)
{
	struct relay_set *set = set_of(lane);
	struct pg_args a = { 0 };

	if (set->n == 0) {
		free(set);
		return;
	}
	lane->set = set;
	lane->relay->lanes_busy += lane->kind != RELAY_LANE_DOT;
	/* Of one alone a set saves nothing, but the call before MAIL FROM. */
	if (set->n == 1 && lane->kind != RELAY_LANE_FETCH) {
		(void)pg_call_move(lane->relay->pool, set->op[0]->sql,
		    &set->op[0]->single, on_first, set);
		return;
	}
	set_args(&a, set);
	set->req = pg_call_move(lane->relay->pool, set_sql[lane->kind], &a,
	    lane->kind == RELAY_LANE_FETCH ? on_fetched : on_set, set);
}

/*
 * No session waits for a result to be stored. While there is other work it
 * may wait for a moment itself: a set of them costs little more than one.
 */
static bool
is_worth_it(struct relay *r, const struct relay_lane *lane)
{
	uint64_t now;

	if (lane->kind != RELAY_LANE_SENT || lane->waits >= SENT_MANY ||
	    (r->lanes_busy == 0 && r->lane[RELAY_LANE_DOT].set == NULL))
		return true;
	now = clock_mono_ms();
	if (now >= lane->since_ms + SENT_MS)
		return true;
	loop_timer_set(r->lanes_timer, lane->since_ms + SENT_MS - now);
	return false;
}

static void
lane_try(struct relay_lane *lane)
{
	if (lane->set == NULL && lane->waits > 0 &&
	    (lane->passed != 0 || is_worth_it(lane->relay, lane)))
		lane_run(lane);
}

/*
 * Lanes that had to wait for another, the longest first: or results of a
 * message would wait for the last of its dots.
 */
static void
lanes_passed(struct relay *r)
{
	struct relay_lane *next;
	uint64_t last = 0;
	int k;

	do {
		next = NULL;
		for (k = 0; k < RELAY_LANES; k++)
			if (r->lane[k].passed > last &&
			    (next == NULL || r->lane[k].passed < next->passed))
				next = &r->lane[k];
		if (next != NULL) {
			last = next->passed;
			lane_try(next);
		}
	} while (next != NULL);
}

/* Dots first, as sessions wait for them; the others in turn, none for ever. */
static void
lanes_run(void *arg)
{
	struct relay *r = arg;
	int n;

	r->kicked = false;
	lanes_passed(r);
	lane_try(&r->lane[RELAY_LANE_DOT]);
	for (n = 0; n < RELAY_LANES && r->lanes_busy < BUSY_MAX; n++) {
		struct relay_lane *lane = &r->lane[r->lane_next];

		r->lane_next = (r->lane_next + 1) % RELAY_LANES;
		lane_try(lane);
	}
}

static void
lanes_kick(struct relay *r)
{
	if (r->kicked)
		return;
	r->kicked = true;
	loop_defer(r->loop, lanes_run, r);
}

void
relay_join(struct relay_op *op, enum relay_lane_kind kind,
    const struct relay_item *item, const char *sql, struct pg_args *single,
    pg_done_fn *done)
{
	struct relay_lane *lane = &op->relay->lane[kind];

	op->lane = lane;
	op->item = *item;
	op->sql = sql;
	op->single = *single;
	*single = (struct pg_args){ 0 };
	op->single_done = done;
	op->waits = true;
	if (lane->waits++ == 0)
		lane->since_ms = clock_mono_ms();
	TAILQ_INSERT_TAIL(&lane->waiting, op, queued);
	lanes_kick(op->relay);
}

void
relay_leave(struct relay_op *op)
{
	if (op->waits) {
		TAILQ_REMOVE(&op->lane->waiting, op, queued);
		op->lane->waits--;
	}
	if (op->set != NULL)
		op->set->op[op->place] = NULL;
	pg_args_free(&op->single);
}

void
relay_lanes_open(struct relay *r)
{
	int i;

	r->lanes_timer = loop_timer_new(r->loop, lanes_run, r);
	r->later = loop_timer_new(r->loop, on_later, r);
	loop_timer_yields(r->later);
	r->latest = loop_timer_new(r->loop, on_latest, r);
	STAILQ_INIT(&r->fetched);
	for (i = 0; i < RELAY_LANES; i++) {
		r->lane[i].relay = r;
		r->lane[i].kind = (enum relay_lane_kind)i;
		TAILQ_INIT(&r->lane[i].waiting);
	}
}

void
relay_lanes_close(struct relay *r)
{
	struct relay_set *set;
	int i;

	loop_undefer(r->loop, lanes_run, r);
	loop_timer_free(r->lanes_timer);
	loop_timer_free(r->later);
	loop_timer_free(r->latest);
	while ((set = STAILQ_FIRST(&r->fetched)) != NULL) {
		STAILQ_REMOVE_HEAD(&r->fetched, link);
		pg_result_free(set->res);
		free(set);
	}
	for (i = 0; i < RELAY_LANES; i++)
		free(r->lane[i].set);
}
