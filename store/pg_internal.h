/* SPDX-License-Identifier: ISC */
/*
 * pg_internal.h - what the pool (pg.c) and one connection (pg_conn.c) share.
 */
#ifndef STORE_PG_INTERNAL_H
#define STORE_PG_INTERNAL_H

#include <event2/event.h>
#include <libpq-fe.h>

#include "base/queue.h"
#include "store/pg.h"

#define STATEMENTS_MAX 128

TAILQ_HEAD(pg_reqs, pg_req);

struct pg_req {
	TAILQ_ENTRY(pg_req) link;
	struct pg_reqs *list; /* the list it is on */
	struct pg_pool *pool;
	unsigned stmt;
	struct pg_args args;
	pg_done_fn *done; /* NULL: cancelled */
	void *arg;
	uint64_t deadline; /* clock_mono_ms() */
	bool preparing; /* its first result is that of Prepare */
	enum pg_err err;
	PGresult *res;
};

enum pg_conn_state { CONN_DOWN, CONN_CONNECTING, CONN_READY };

struct pg_conn {
	struct pg_pool *pool;
	enum pg_conn_state state;
	PGconn *pq;
	struct event *io; /* connecting: next poll; ready: readable */
	struct event *writable;
	struct event *retry; /* connect again, or give a connect up */
	unsigned failures; /* in a row */
	struct pg_reqs inflight;
	unsigned load; /* length of inflight */
	bool dirty; /* has unflushed output */
	bool prepared[STATEMENTS_MAX];
};

struct pg_pool {
	struct event_base *base;
	struct pg_conf conf;
	char *conninfo[5]; /* socket, database, user, program, options */
	struct pg_conn *conn;
	struct pg_reqs waiting, finished;
	unsigned waiting_count, load;
	uint64_t lost;
	struct event *kick; /* send what waits, report what is finished */
	struct event *tick; /* deadlines */
	const char *sql[STATEMENTS_MAX];
	unsigned statements;
};

/* Values for PQconnectStartParams(); NULL-terminated, borrowed from conf. */
struct pg_conninfo {
	const char *key[12], *value[12];
	char options[160], port[8], name[64];
};
void pg_conninfo_fill(struct pg_conninfo *ci, const struct pg_conf *conf);
void pg_conf_defaults(struct pg_conf *out, const struct pg_conf *in);
/* Values of `args` as libpq wants them. */
struct pg_params {
	const char *value[PG_ARGS_MAX];
	int format[PG_ARGS_MAX];
};
void pg_params_fill(struct pg_params *p, const struct pg_args *args);

void pg_conn_init(struct pg_conn *c, struct pg_pool *pool);
void pg_conn_start(struct pg_conn *c);
void pg_conn_free(struct pg_conn *c);
/* Hand the request over; it is on c->inflight or finished as lost then. */
void pg_conn_send(struct pg_conn *c, struct pg_req *req);
void pg_conn_flush(struct pg_conn *c);
/* The connection is no good: everything sent is PG_LOST. Reconnects. */
void pg_conn_lost(struct pg_conn *c, const char *why);

/* Unlink, keep for the report from a clean stack. */
void pg_req_finish(struct pg_req *req, enum pg_err err);
/* Report now, free. */
void pg_req_report(struct pg_req *req);
void pg_pool_kick(struct pg_pool *pool);

#endif
