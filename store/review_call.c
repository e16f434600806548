/* SPDX-License-Identifier: ISC */
/*
 * review_call.c - one call for a person, from arguments to filled struct
 */
#include "store/review_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "store/store.h"

/* Freezing 50,000 items of a job takes seconds on a busy disk. */
#define REVIEW_DEADLINE_MS 10000

struct review_db {
	struct pg_pool *pool;
};

struct pending {
	struct review_call call;
};

struct review_db *
review_db_open(struct loop *loop, const struct conf *conf, const char *login,
    const char *program)
{
	struct review_db *db = xcalloc(1, sizeof(*db));
	struct pg_conf pg = { 0 };

	store_pg_conf(&pg, conf, login, program);
	pg.deadline_ms = REVIEW_DEADLINE_MS;
	db->pool = pg_pool_new(loop, &pg);
	return db;
}

struct review_db *
review_db_new(struct loop *loop, const struct conf *conf)
{
	return review_db_open(loop, conf, "l_review", "postern-admin");
}

void
review_db_free(struct review_db *db)
{
	if (db == NULL)
		return;
	pg_pool_free(db->pool);
	free(db);
}

bool
review_db_ready(const struct review_db *db)
{
	return pg_pool_ready(db->pool);
}

static void
set_lost(struct review_answer *is, enum pg_err err, const struct pg_result *res)
{
	is->status = error_get(E_STORE_UNAVAILABLE)->http;
	is->code = E_STORE_UNAVAILABLE;
	is->lost = err == PG_LOST;
	snprintf(is->text, sizeof(is->text), "%s",
	    error_get(E_STORE_UNAVAILABLE)->code);
	if (err == PG_REJECTED)
		log_error("store.lost", KV("why", pg_message(res)),
		    KV("code", pg_sqlstate(res)));
}

static void
on_done(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct pending *pending = arg;
	struct review_call call = pending->call;
	struct review_answer *is = call.out;

	free(pending);
	if (err != PG_OK) {
		set_lost(is, err, res);
		call.done(call.arg);
		return;
	}
	if (pg_rows(res) == 0) { /* an empty list */
		is->status = 200;
		is->code = E_NONE;
	} else {
		is->status = pg_get_int(res, 0, "status");
		snprintf(is->text, sizeof(is->text), "%s",
		    pg_get_text(res, 0, "code"));
		is->code =
		    is->status < 300 ? E_NONE : error_find(str_of(is->text));
		if (call.fill != NULL && (is->status < 300 || call.fill_always))
			call.fill(call.out, call.mem, res);
	}
	call.done(call.arg);
}

void
review_call(struct review_db *db, struct review_call *call)
{
	struct pending *pending = xcalloc(1, sizeof(*pending));

	pending->call = *call;
	pg_call(db->pool, call->sql, &call->args, on_done, pending);
	pg_args_free(&call->args);
}

struct review_call
review_begin(const struct store_operator *who, const char *sql, void *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = sql,
		.out = out,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	return call;
}

void
review_session_arg(struct pg_args *a, const struct store_operator *who)
{
	pg_bytes(a, who->session.b, who->session.n);
}

void
review_id_arg(struct pg_args *a, int64_t id)
{
	if (id == 0)
		pg_null(a);
	else
		pg_i64(a, id);
}

char *
review_text(
    struct arena *mem, const struct pg_result *res, int row, const char *col)
{
	return arena_strdup(mem, pg_get_text(res, row, col));
}
