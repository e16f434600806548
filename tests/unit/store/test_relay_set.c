/* SPDX-License-Identifier: ISC */
/*
 * test_relay_set.c - which calls go together, which wait for each other, and
 * what becomes of one that a set was not done for. The database is this file:
 * it keeps what was asked, and answers when told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/relay_set.h"

#define CALLS_MAX 16

/* The numbers of the leases a set was done for. */
struct pg_result {
	int n, i[8];
};

struct pg_req {
	const char *sql;
	pg_done_fn *done;
	void *arg;
	const struct pg_result *res;
	bool open;
};

static struct pg_req call[CALLS_MAX];
static size_t calls;
static struct relay relay;
static int went[CALLS_MAX]; /* by the op's number: its answers */

struct pg_req *
pg_call_move(struct pg_pool *pool, const char *sql, struct pg_args *args,
    pg_done_fn *done, void *arg)
{
	(void)pool;
	pg_args_free(args);
	assert_true(calls < CALLS_MAX);
	call[calls] = (struct pg_req){
		.sql = sql, .done = done, .arg = arg, .open = true
	};
	return &call[calls++];
}

struct pg_result *
pg_keep(struct pg_req *req)
{
	struct pg_result *kept = xcalloc(1, sizeof(*kept));

	*kept = *req->res;
	return kept;
}

void
pg_result_free(struct pg_result *res)
{
	free(res);
}

int
pg_rows(const struct pg_result *res)
{
	return res->n;
}

int
pg_get_int(const struct pg_result *res, int row, const char *col)
{
	assert_string_equal(col, "i");
	return res->i[row];
}

static void
stop(void *arg)
{
	loop_stop(arg);
}

/* What is due now, happens. */
static void
turn(void)
{
	loop_defer(relay.loop, stop, relay.loop);
	loop_run(relay.loop);
}

/* Results wait for company for a moment; now it is over. */
static void
wait_for_company(void)
{
	struct loop_timer *timer = loop_timer_new(relay.loop, stop, relay.loop);

	loop_timer_set(timer, 50);
	loop_run(relay.loop);
	loop_timer_free(timer);
}

/* Was call `n` a set, and not one alone? */
static bool
is_set(size_t n)
{
	assert_true(n < calls);
	return strncmp(call[n].sql, "select * from api.", 18) == 0;
}

static void
answer(size_t n, const struct pg_result *res)
{
	assert_true(n < calls && call[n].open);
	call[n].open = false;
	call[n].res = res;
	call[n].done(call[n].arg, PG_OK, res);
	turn();
}

static void
on_single(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct relay_op *op = arg;

	(void)res;
	assert_int_equal(err, PG_OK);
	went[(intptr_t)op->arg]++;
	pg_args_free(&op->single);
	free(op);
}

static void
on_row(
    struct relay_op *op, enum pg_err err, const struct pg_result *res, int row)
{
	(void)row;
	on_single(op, err, res);
}

/* Op `n` of the message `m`. */
static struct relay_op *
ask(int n, unsigned char m, enum relay_lane_kind kind)
{
	struct relay_op *op = xcalloc(1, sizeof(*op));
	struct relay_item item = { .ix = "{1}" };
	struct pg_args a = { 0 };

	item.lease.message.b[15] = m;
	item.lease.tenant = 1;
	op->relay = &relay;
	op->arg = (void *)(intptr_t)n;
	op->set_done = on_row;
	pg_i64(&a, n);
	relay_join(op, kind, &item, "alone", &a, on_single);
	turn();
	return op;
}

static int
set_up(void **state)
{
	(void)state;
	calls = 0;
	memset(went, 0, sizeof(went));
	relay = (struct relay){ .loop = loop_new() };
	LIST_INIT(&relay.ops);
	relay_lanes_open(&relay);
	return 0;
}

static int
tear_down(void **state)
{
	struct loop *loop = relay.loop;

	(void)state;
	relay_lanes_close(&relay);
	loop_free(loop);
	return 0;
}

static const struct pg_result none = { 0 };

static void
test_rows_of_one_message_wait(void **state)
{
	(void)state;
	(void)ask(1, 7, RELAY_LANE_ATTEMPT);
	assert_int_equal(calls, 1);
	assert_false(is_set(0));
	/* The same message: it would find its state locked. */
	(void)ask(2, 7, RELAY_LANE_DOT);
	assert_int_equal(calls, 1);
	/* Another does not wait behind it. */
	(void)ask(3, 8, RELAY_LANE_DOT);
	assert_int_equal(calls, 2);
	answer(0, &none);
	assert_int_equal(calls, 2); /* its lane has a call under way */
	answer(1, &none);
	assert_int_equal(calls, 3);
	answer(2, &none);
	assert_int_equal(went[1] + went[2] + went[3], 3);
}

static void
test_rows_of_one_message_go_together(void **state)
{
	const struct pg_result all = { 3, { 1, 2, 3 } };

	(void)state;
	(void)ask(1, 7, RELAY_LANE_DOT);
	(void)ask(2, 7, RELAY_LANE_DOT);
	(void)ask(3, 7, RELAY_LANE_DOT);
	(void)ask(4, 7, RELAY_LANE_DOT);
	assert_int_equal(calls, 1);
	answer(0, &none);
	assert_int_equal(calls, 2);
	assert_true(is_set(1));
	answer(1, &all);
	assert_int_equal(went[1] + went[2] + went[3] + went[4], 4);
}

/* However many dots of a message come, its results are stored between them. */
static void
test_no_lane_starves(void **state)
{
	const struct pg_result all = { 1, { 1 } };
	int n;

	(void)state;
	(void)ask(1, 7, RELAY_LANE_DOT);
	(void)ask(2, 7, RELAY_LANE_SENT);
	wait_for_company();
	(void)ask(3, 7, RELAY_LANE_ATTEMPT);
	for (n = 4; n < 8; n++) {
		(void)ask(n, 7, RELAY_LANE_DOT);
		answer(calls - 1, is_set(calls - 1) ? &all : &none);
	}
	/* One call of each in turn: who had come first waited for one other. */
	assert_int_equal(went[1] + went[2] + went[3] + went[4], 4);
	answer(calls - 1, &(const struct pg_result){ 3, { 1, 2, 3 } });
	assert_int_equal(went[5] + went[6] + went[7], 3);
}

/* What is read locks nothing. */
static void
test_who_reads_waits_for_nobody(void **state)
{
	const struct pg_result all = { 1, { 1 } };

	(void)state;
	(void)ask(1, 7, RELAY_LANE_ATTEMPT);
	(void)ask(2, 7, RELAY_LANE_FETCH);
	assert_int_equal(calls, 2);
	answer(0, &none);
	(void)ask(3, 7, RELAY_LANE_DOT);
	assert_int_equal(calls, 3);
	answer(2, &none);
	answer(1, &all);
	while (went[2] == 0)
		turn();
	assert_int_equal(went[1] + went[2] + went[3], 3);
}

/* Another may have locked it: once more with others, and then alone. */
static void
test_left_out(void **state)
{
	const struct pg_result but_second = { 2, { 1, 3 } };

	(void)state;
	(void)ask(1, 1, RELAY_LANE_DOT);
	(void)ask(2, 2, RELAY_LANE_DOT);
	(void)ask(3, 3, RELAY_LANE_DOT);
	(void)ask(4, 4, RELAY_LANE_DOT);
	answer(0, &none);
	assert_true(is_set(1));
	(void)ask(5, 5, RELAY_LANE_DOT);
	answer(1, &but_second);
	assert_int_equal(went[2] + went[4], 2);
	assert_int_equal(went[3], 0);
	assert_int_equal(calls, 3);
	assert_true(is_set(2));
	answer(2, &none);
	/* The third alone, and the fifth, which has nobody to go with. */
	assert_int_equal(calls, 5);
	assert_false(is_set(3));
	assert_false(is_set(4));
	answer(3, &none);
	answer(4, &none);
	assert_int_equal(went[3] + went[5], 2);
}

/* A gate that says no would say so again: who reads asks at once why. */
static void
test_left_out_of_a_fetch(void **state)
{
	(void)state;
	(void)ask(1, 1, RELAY_LANE_FETCH);
	assert_true(is_set(0));
	answer(0, &none);
	while (calls == 1)
		turn();
	assert_int_equal(calls, 2);
	assert_false(is_set(1));
	answer(1, &none);
	assert_int_equal(went[1], 1);
}

/* One that was cancelled while it waited leaves its place to the next. */
static void
test_cancelled(void **state)
{
	struct relay_op *op;

	(void)state;
	(void)ask(1, 7, RELAY_LANE_ATTEMPT);
	op = ask(2, 7, RELAY_LANE_DOT);
	relay_leave(op);
	free(op);
	(void)ask(3, 7, RELAY_LANE_DOT);
	assert_int_equal(calls, 1);
	answer(0, &none);
	assert_int_equal(calls, 2);
	answer(1, &none);
	assert_int_equal(went[1] + went[3], 2);
	assert_int_equal(went[2], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		T(test_rows_of_one_message_wait),
		T(test_rows_of_one_message_go_together),
		T(test_no_lane_starves),
		T(test_who_reads_waits_for_nobody),
		T(test_left_out),
		T(test_left_out_of_a_fetch),
		T(test_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
