/* SPDX-License-Identifier: ISC */
/*
 * pg.h - calling the functions of the database from an event loop.
 *
 * A pool of pipelined connections. Each call is one statement followed by
 * one Sync, so it is its own transaction and cannot spoil its neighbours.
 * Statements are prepared once a connection, by their text: `sql` must be a
 * string that lives as long as the pool (a literal). Values and results
 * travel in binary. Only files of store/ include this header.
 *
 *	struct pg_args a = { 0 };
 *	pg_i64(&a, tenant);
 *	pg_bytes(&a, auth.b, auth.n);
 *	req = pg_call(pool, "select * from api.my_state_1($1,$2)", &a,
 *	    on_state, s);
 *	pg_args_free(&a);
 */
#ifndef STORE_PG_H
#define STORE_PG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"

struct loop;
struct pg_pool;
struct pg_req;
struct pg_result; /* libpq's PGresult */

enum pg_err {
	PG_OK,
	PG_REJECTED, /* the server refused the statement: see pg_sqlstate() */
	PG_UNSENT, /* never sent: queue full, no server; nothing happened */
	PG_LOST, /* the connection went; a write MAY have happened */
};

/*
 * Runs exactly once, later, never from inside pg_call(). `res` is borrowed
 * and NULL unless PG_OK or PG_REJECTED. The first line of a `done` clears the
 * caller's handle: the request is gone when it returns.
 */
typedef void pg_done_fn(
    void *arg, enum pg_err err, const struct pg_result *res);

/* Zero means the default named behind the field. */
struct pg_conf {
	const char *socket; /* directory of the socket, or host address */
	unsigned port; /* 5432; also names the socket's file */
	const char *database; /* "postern" */
	const char *user; /* the login role, e.g. "l_gateway" */
	const char *program; /* application_name */
	unsigned conns; /* 2 */
	unsigned inflight; /* statements sent ahead on one connection: 4 */
	unsigned queue; /* calls that may wait for a connection: 1000 */
	unsigned deadline_ms; /* of one call, waiting included: 5000 */
};

/* Connects at once in the background; copies `conf`. */
struct pg_pool *pg_pool_new(struct loop *loop, const struct pg_conf *conf);
/*
 * Calls still open are dropped without their `done`. Not from inside a
 * `done`. NULL is fine.
 */
void pg_pool_free(struct pg_pool *pool);
/* Is at least one connection ready? For readiness only. */
bool pg_pool_ready(const struct pg_pool *pool);
/* Calls sent or waiting. */
unsigned pg_pool_load(const struct pg_pool *pool);
/* How often a connection was lost with calls in flight. */
uint64_t pg_pool_lost(const struct pg_pool *pool);

/* Arguments $1, $2, ... in the order added. Starts as {0}. */
#define PG_ARGS_MAX 48

struct pg_args {
	int n;
	unsigned type[PG_ARGS_MAX];
	int len[PG_ARGS_MAX]; /* -1 = null */
	size_t at[PG_ARGS_MAX];
	struct buf data;
	size_t array; /* place of the open array's header, plus one */
};

void pg_i64(struct pg_args *a, int64_t v);
void pg_i32(struct pg_args *a, int32_t v);
void pg_i16(struct pg_args *a, int v);
void pg_bool(struct pg_args *a, bool v);
/* Text must be UTF-8 without NUL: the server refuses other bytes. */
void pg_text(struct pg_args *a, const char *s); /* NULL is null */
void pg_str(struct pg_args *a, struct str s); /* p == NULL is null */
void pg_bytes(struct pg_args *a, const void *p, size_t n); /* NULL is null */
void pg_uuid(struct pg_args *a, const struct uuid *u); /* NULL is null */
/* timestamptz from microseconds since 1970; 0 is null. */
void pg_time(struct pg_args *a, int64_t us);
/* A null of the type the statement asks for. */
void pg_null(struct pg_args *a);

/*
 * Arrays: begin with the element's type, append elements, end. An element
 * that is null is written with pg_item_null().
 */
enum pg_elem {
	PG_ELEM_I64,
	PG_ELEM_I32,
	PG_ELEM_I16,
	PG_ELEM_BOOL,
	PG_ELEM_TEXT,
	PG_ELEM_BYTES,
	PG_ELEM_UUID,
	PG_ELEM_TIME,
};

void pg_array_begin(struct pg_args *a, enum pg_elem type);
void pg_item_i64(struct pg_args *a, int64_t v);
void pg_item_i32(struct pg_args *a, int32_t v);
void pg_item_i16(struct pg_args *a, int v);
void pg_item_bool(struct pg_args *a, bool v);
void pg_item_str(struct pg_args *a, struct str s);
void pg_item_bytes(struct pg_args *a, const void *p, size_t n);
void pg_item_uuid(struct pg_args *a, const struct uuid *u);
void pg_item_time(struct pg_args *a, int64_t us);
void pg_item_null(struct pg_args *a);
void pg_array_end(struct pg_args *a);

/* Wipes the values, which may be secrets, and gives the memory back. */
void pg_args_free(struct pg_args *a);

/*
 * Call. Copies the values of `args` (NULL: none). Also a call that cannot be
 * sent comes back through `done`, later, as PG_UNSENT. The handle is valid
 * until `done` runs or pg_cancel().
 */
struct pg_req *pg_call(struct pg_pool *pool, const char *sql,
    const struct pg_args *args, pg_done_fn *done, void *arg);
/* The same, but takes the values over and leaves `args` empty. */
struct pg_req *pg_call_move(struct pg_pool *pool, const char *sql,
    struct pg_args *args, pg_done_fn *done, void *arg);
/* Another deadline for this call, from now. */
void pg_deadline(struct pg_req *req, unsigned ms);
/*
 * From inside the `done` of `req`: its result is the caller's from now on,
 * until pg_result_free().
 */
MUST_CHECK struct pg_result *pg_keep(struct pg_req *req);
void pg_result_free(struct pg_result *res);
/* Never call `done`. The statement itself may still run. NULL is fine. */
void pg_cancel(struct pg_req *req);

/*
 * Results. A column is named; a name that is not there is a bug and aborts.
 * A null reads as 0, false, "" or the empty run.
 */
int pg_rows(const struct pg_result *res);
bool pg_has(const struct pg_result *res, const char *col);
bool pg_is_null(const struct pg_result *res, int row, const char *col);
int64_t pg_get_i64(const struct pg_result *res, int row, const char *col);
int pg_get_int(const struct pg_result *res, int row, const char *col);
double pg_get_double(const struct pg_result *res, int row, const char *col);
bool pg_get_bool(const struct pg_result *res, int row, const char *col);
/* NUL-terminated, borrowed from `res`. */
const char *pg_get_text(const struct pg_result *res, int row, const char *col);
struct str pg_get_bytes(const struct pg_result *res, int row, const char *col);
struct uuid pg_get_uuid(const struct pg_result *res, int row, const char *col);
/* Microseconds since 1970; 0 for null, INT64_MAX for infinity. */
int64_t pg_get_time(const struct pg_result *res, int row, const char *col);

/* Walk a one-dimensional array: each item's bytes; p == NULL is null. */
struct pg_array {
	const unsigned char *p, *end;
	int left;
};
/* Number of elements. */
int pg_get_array(
    struct pg_array *it, const struct pg_result *res, int row, const char *col);
bool pg_array_next(struct pg_array *it, struct str *item);
/* The item of an integer array, of any width. */
int64_t pg_item_to_i64(struct str item);
int64_t pg_item_to_time(struct str item);

/*
 * "23505" of a PG_REJECTED; "" when the server gave none. A week without
 * partitions is no room either: it needs somebody, then the same may be tried.
 */
#define PG_NO_ROOM "53100"
const char *pg_sqlstate(const struct pg_result *res);
/* The server's words, for the log; one line, never values. */
const char *pg_message(const struct pg_result *res);

/*
 * The same calls for programs without a loop and for checks at start: they
 * block. NULL and `err` on failure, with the SQLSTATE in pg_sync_state().
 */
struct pg_sync;

MUST_CHECK struct pg_sync *pg_sync_open(
    const struct pg_conf *conf, struct err *err);
void pg_sync_close(struct pg_sync *s);
/* The caller frees the result with pg_result_free(). */
MUST_CHECK struct pg_result *pg_sync_call(struct pg_sync *s, const char *sql,
    const struct pg_args *args, struct err *err);
/* SQLSTATE of the last failure, "" if it had none. */
const char *pg_sync_state(const struct pg_sync *s);
/* Several statements of a migration file, as written, in one go. */
MUST_CHECK bool pg_sync_script(
    struct pg_sync *s, const char *sql, struct err *err);

#endif
