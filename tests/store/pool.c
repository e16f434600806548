/* SPDX-License-Identifier: ISC */
/*
 * pool.c - the database client against a real server: pool DIR USER DB.
 *
 * Prints "ok NAME" or "FAIL NAME ..." for each case and the sum at the end.
 * The server may be any; nothing but one table is made in the database.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "store/pg.h"

static struct loop *loop;
static struct pg_pool *pool;
static struct pg_conf conf;
static unsigned passed, failed;
static bool inside; /* a pg_call() is on the stack */

/* What came back, in order. */
static enum pg_err got[256];
static char state[256][6];
static int64_t value[256];
static unsigned count, expected;

static void
check(bool ok, const char *what)
{
	printf("%s %s\n", ok ? "ok" : "FAIL", what);
	*(ok ? &passed : &failed) += 1;
}

static void
on_done(void *arg, enum pg_err err, const struct pg_result *res)
{
	unsigned ix = (unsigned)(uintptr_t)arg;

	BUG_ON(inside || ix >= 256);
	got[ix] = err;
	snprintf(state[ix], sizeof(state[ix]), "%s",
	    err == PG_REJECTED ? pg_sqlstate(res) : "");
	value[ix] = err == PG_OK && pg_rows(res) == 1 && pg_has(res, "v")
			? pg_get_i64(res, 0, "v")
			: -1;
	if (++count == expected)
		loop_stop(loop);
}

static struct pg_req *
call(unsigned ix, const char *sql, struct pg_args *args)
{
	struct pg_req *req;

	inside = true;
	req = pg_call_move(pool, sql, args, on_done, (void *)(uintptr_t)ix);
	inside = false;
	return req;
}

static struct pg_req *
call_i64(unsigned ix, const char *sql, int64_t v)
{
	struct pg_args a = { 0 };

	pg_i64(&a, v);
	return call(ix, sql, &a);
}

static void
wait_for(unsigned n)
{
	expected = n;
	if (count < expected)
		loop_run(loop);
	count = 0;
}

static void
on_types(void *arg, enum pg_err err, const struct pg_result *res)
{
	static const struct uuid u = { { 1, 2, 3, [15] = 9 } };
	struct uuid back;
	struct pg_array it;
	struct str item;

	(void)arg;
	check(err == PG_OK && pg_rows(res) == 1, "types: one row");
	if (err != PG_OK) {
		printf("# %s %s\n", pg_sqlstate(res), pg_message(res));
		loop_stop(loop);
		return;
	}
	check(pg_get_i64(res, 0, "a") == INT64_MIN &&
		  pg_get_int(res, 0, "b") == -7 &&
		  pg_get_int(res, 0, "c") == 300 && pg_get_bool(res, 0, "d"),
	    "types: numbers");
	check(strcmp(pg_get_text(res, 0, "e"), "h\xc3\xa9") == 0 &&
		  str_eq(
		      pg_get_bytes(res, 0, "f"), (struct str){ "\0\xff\n", 3 }),
	    "types: text and bytes");
	back = pg_get_uuid(res, 0, "g");
	check(uuid_eq(&u, &back) &&
		  pg_get_time(res, 0, "h") == INT64_C(1764300000123456) &&
		  pg_is_null(res, 0, "i"),
	    "types: uuid, time, null");
	check(pg_get_array(&it, res, 0, "j") == 3 &&
		  pg_array_next(&it, &item) && str_eq(item, str_lit("x")) &&
		  pg_array_next(&it, &item) && item.p == NULL &&
		  pg_array_next(&it, &item) && item.n == 0 &&
		  !pg_array_next(&it, &item),
	    "types: array of text with null and empty");
	check(pg_get_array(&it, res, 0, "k") == 0, "types: empty array");
	loop_stop(loop);
}

static void
test_types(void)
{
	static const struct uuid u = { { 1, 2, 3, [15] = 9 } };
	struct pg_args a = { 0 };

	pg_i64(&a, INT64_MIN);
	pg_i32(&a, -7);
	pg_i16(&a, 300);
	pg_bool(&a, true);
	pg_text(&a, "h\xc3\xa9");
	pg_bytes(&a, "\0\xff\n", 3);
	pg_uuid(&a, &u);
	pg_time(&a, INT64_C(1764300000123456));
	pg_null(&a);
	pg_array_begin(&a, PG_ELEM_TEXT);
	pg_item_str(&a, str_lit("x"));
	pg_item_null(&a);
	pg_item_str(&a, str_lit(""));
	pg_array_end(&a);
	pg_array_begin(&a, PG_ELEM_I64);
	pg_array_end(&a);
	pg_call_move(pool,
	    "select $1 a, $2 b, $3 c, $4 d, $5 e, $6 f, $7 g, $8 h, "
	    "$9::int i, $10 j, $11 k",
	    &a, on_types, NULL);
	loop_run(loop);
}

static void
test_isolation(void)
{
	bool ok = true;
	unsigned i;

	for (i = 0; i < 30; i++)
		call_i64(i, "select 12 / $1::bigint as v", i % 3);
	wait_for(30);
	for (i = 0; i < 30; i++) {
		if (i % 3 == 0)
			ok = ok && got[i] == PG_REJECTED &&
			     strcmp(state[i], "22012") == 0;
		else
			ok = ok && got[i] == PG_OK && value[i] == 12 / (i % 3);
	}
	check(ok, "an error spoils no neighbour");
	for (i = 0; i < 4; i++)
		call_i64(i, "select no_such_column + $1::bigint", 1);
	call_i64(4, "select $1::bigint as v", 5);
	wait_for(5);
	check(got[0] == PG_REJECTED && strcmp(state[0], "42703") == 0 &&
		  got[3] == PG_REJECTED && got[4] == PG_OK,
	    "a statement that cannot be prepared is refused");
}

static void
test_commit_error(void)
{
	call(0, "drop table if exists pool_test", NULL);
	wait_for(1);
	call(0,
	    "create table pool_test (v bigint primary key deferrable "
	    "initially deferred)",
	    NULL);
	wait_for(1);
	call_i64(0, "insert into pool_test values ($1) returning v", 1);
	wait_for(1);
	call_i64(1, "insert into pool_test values ($1) returning v", 1);
	call_i64(2, "insert into pool_test values ($1) returning v", 2);
	wait_for(2);
	check(got[0] == PG_OK && got[1] == PG_REJECTED &&
		  strcmp(state[1], "23505") == 0 && got[2] == PG_OK,
	    "an error of the COMMIT itself is a refusal");
}

static void
test_cancel(void)
{
	struct pg_req *flying, *waiting;
	unsigned i;

	flying = call_i64(100, "select pg_sleep(1.5), $1::bigint as v", 1);
	call_i64(0, "select $1::bigint as v", 0);
	wait_for(1);
	got[100] = got[101] = PG_LOST;
	pg_cancel(flying);
	for (i = 0; i < 20; i++)
		call_i64(i, "select $1::bigint as v", i);
	waiting = call_i64(101, "select $1::bigint as v", 1);
	pg_cancel(waiting);
	call_i64(20, "select $1::bigint as v", 20);
	wait_for(21);
	check(got[100] == PG_LOST && got[101] == PG_LOST && value[20] == 20 &&
		  value[0] == 0 && value[19] == 19,
	    "a cancelled call is never told, its answer goes to nobody");
}

struct killer {
	struct pg_sync *s;
	struct loop_timer *again;
};

/* When both connections are asleep in the server, not before. */
static void
kill_sleepers(void *arg)
{
	struct killer *k = arg;
	struct err err;
	struct pg_result *res = pg_sync_call(k->s,
	    "with z as (select pid from pg_stat_activity "
	    "where wait_event = 'PgSleep' and query like '%case when%') "
	    "select pg_terminate_backend(pid) from z "
	    "where (select count(*) from z) = 2",
	    NULL, &err);

	if (pg_rows(res) == 0)
		loop_timer_set(k->again, 10);
	pg_result_free(res);
}

static void
test_killed(void)
{
	unsigned i, lost = 0, ok = 0;
	struct err err;
	struct killer k = { .s = pg_sync_open(&conf, &err) };

	k.again = loop_timer_new(loop, kill_sleepers, &k);
	loop_timer_set(k.again, 10);
	for (i = 0; i < 9; i++)
		call_i64(i,
		    "select pg_sleep(case when $1::bigint < 8 then 4 else 0 "
		    "end), $1::bigint as v",
		    i);
	wait_for(9);
	for (i = 0; i < 9; i++) {
		lost += got[i] == PG_LOST;
		ok += got[i] == PG_OK;
	}
	check(lost == 8 && ok == 1,
	    "a killed backend loses what was sent and nothing else");
	check(pg_pool_lost(pool) == 2, "and is counted");
	for (i = 0; i < 8; i++)
		call_i64(i, "select $1::bigint as v", i);
	wait_for(8);
	for (i = ok = 0; i < 8; i++)
		ok += got[i] == PG_OK && value[i] == i;
	check(ok == 8, "and the pool works on");
	loop_timer_free(k.again);
	pg_sync_close(k.s);
}

static void
test_big(void)
{
	static unsigned char data[4 * 1024 * 1024];
	struct pg_args a;
	bool ok = true;
	unsigned i;

	for (i = 0; i < 20; i++) {
		a = (struct pg_args){ 0 };
		pg_bytes(&a, data, sizeof(data));
		call(i, "select length($1::bytea)::bigint as v", &a);
	}
	wait_for(20);
	for (i = 0; i < 20; i++)
		ok = ok && got[i] == PG_OK && value[i] == (int)sizeof(data);
	check(ok, "20 parameters of 4 MB");
}

static void
test_bounds(void)
{
	struct pg_conf small = conf;
	unsigned i, unsent = 0;

	pg_pool_free(pool);
	small.conns = 1;
	small.inflight = 1;
	small.queue = 5;
	small.deadline_ms = 1500; /* for 20 calls, on a slow machine too */
	pool = pg_pool_new(loop, &small);
	for (i = 0; i < 20; i++)
		call_i64(i, "select $1::bigint as v", i);
	wait_for(20);
	for (i = 0; i < 20; i++)
		unsent += got[i] == PG_UNSENT;
	check(unsent == 15 && got[0] == PG_OK, "a full queue refuses at once");
	call_i64(0, "select pg_sleep(9), $1::bigint as v", 1);
	call_i64(1, "select $1::bigint as v", 1);
	wait_for(2);
	check(got[0] == PG_REJECTED && strcmp(state[0], "57014") == 0 &&
		  got[1] != PG_LOST,
	    "the server stops a statement at the deadline");
	pg_pool_free(pool);
	small.socket = "/nonexistent";
	pool = pg_pool_new(loop, &small);
	call_i64(0, "select $1::bigint as v", 1);
	wait_for(1);
	check(got[0] == PG_UNSENT && !pg_pool_ready(pool),
	    "no server: not sent, at the deadline");
}

int
main(int argc, char **argv)
{
	struct err err;
	struct pg_sync *s;

	if (argc != 4) {
		fprintf(stderr, "usage: pool DIR USER DATABASE\n");
		return 2;
	}
	log_init("pool", LOG_LEVEL_ERROR);
	conf = (struct pg_conf){
		.socket = argv[1], .user = argv[2], .database = argv[3]
	};
	loop = loop_new();
	pool = pg_pool_new(loop, &conf);
	test_types();
	test_isolation();
	test_commit_error();
	test_cancel();
	test_killed();
	test_big();
	test_bounds();
	s = pg_sync_open(&conf, &err);
	check(s != NULL && !pg_sync_script(s, "select 1/0", &err) &&
		  strcmp(pg_sync_state(s), "22012") == 0,
	    "blocking calls name the SQLSTATE");
	pg_sync_close(s);
	pg_pool_free(pool);
	loop_free(loop);
	printf("%u passed, %u failed\n", passed, failed);
	return failed > 0;
}
