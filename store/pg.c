/* SPDX-License-Identifier: ISC */
/*
 * pg.c - the pool: who waits, who sends, who is told.
 *
 * A call waits in the pool until a connection has room, is in flight on one
 * connection until its Sync came, and is then on the finished list. Callbacks
 * run only from the kick event, when no connection is being looked at, so
 * they may make and cancel calls freely.
 */
#include "store/pg_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "store/store.h"

#define TICK_MS 50
/* The server stops a statement itself; after this we stop believing it. */
#define GRACE_MS 1000

static void on_kick(evutil_socket_t fd, short what, void *arg);
static void on_tick(evutil_socket_t fd, short what, void *arg);

void
pg_conf_defaults(struct pg_conf *out, const struct pg_conf *in)
{
	*out = *in;
	if (out->database == NULL)
		out->database = "postern";
	if (out->program == NULL)
		out->program = "postern";
	if (out->port == 0)
		out->port = 5432;
	if (out->conns == 0)
		out->conns = 2;
	if (out->inflight == 0)
		out->inflight = 4;
	if (out->queue == 0)
		out->queue = 1000;
	if (out->deadline_ms == 0)
		out->deadline_ms = 5000;
}

void
pg_conninfo_fill(struct pg_conninfo *ci, const struct pg_conf *conf)
{
	bool local = conf->socket != NULL && conf->socket[0] == '/';
	int n = 0;

	snprintf(ci->options, sizeof(ci->options),
	    "-c statement_timeout=%u -c jit=off -c TimeZone=UTC "
	    "-c idle_in_transaction_session_timeout=5000",
	    conf->deadline_ms);
	snprintf(ci->port, sizeof(ci->port), "%u", conf->port % 65536);
	snprintf(ci->name, sizeof(ci->name), "%.30s" STORE_KNOWS "%d",
	    conf->program != NULL ? conf->program : "postern", STORE_SCHEMA);
#define PUT(k, v) (ci->key[n] = (k), ci->value[n] = (v), n++)
	PUT("host", conf->socket);
	PUT("port", ci->port);
	PUT("dbname", conf->database);
	PUT("user", conf->user);
	PUT("application_name", ci->name);
	PUT("client_encoding", "UTF8");
	PUT("options", ci->options);
	PUT("connect_timeout", "5");
	/* A server elsewhere has to prove who it is (decision A20). */
	PUT("sslmode", local ? "disable" : "verify-full");
	PUT(NULL, NULL);
#undef PUT
}

void
pg_params_fill(struct pg_params *p, const struct pg_args *args)
{
	int i;

	for (i = 0; i < args->n; i++) {
		p->value[i] = NULL;
		if (args->len[i] > 0)
			p->value[i] = (const char *)args->data.p + args->at[i];
		else if (args->len[i] == 0)
			p->value[i] = "";
		p->format[i] = 1;
	}
}

struct pg_pool *
pg_pool_new(struct loop *loop, const struct pg_conf *conf)
{
	struct pg_pool *pool = xcalloc(1, sizeof(*pool));
	unsigned i;

	pool->base = loop_base(loop);
	pg_conf_defaults(&pool->conf, conf);
	pool->conf.socket = pool->conninfo[0] =
	    xstrdup(conf->socket != NULL ? conf->socket : "");
	pool->conf.database = pool->conninfo[1] = xstrdup(pool->conf.database);
	pool->conf.user = pool->conninfo[2] = xstrdup(conf->user);
	pool->conf.program = pool->conninfo[3] = xstrdup(pool->conf.program);
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->finished);
	pool->kick = event_new(pool->base, -1, 0, on_kick, pool);
	pool->tick = evtimer_new(pool->base, on_tick, pool);
	BUG_ON(pool->kick == NULL || pool->tick == NULL ||
	       event_priority_set(pool->kick, LOOP_URGENT) != 0);
	pool->conn = xcalloc(pool->conf.conns, sizeof(*pool->conn));
	for (i = 0; i < pool->conf.conns; i++) {
		pg_conn_init(&pool->conn[i], pool);
		pg_conn_start(&pool->conn[i]);
	}
	return pool;
}

static void
free_req(struct pg_req *req)
{
	TAILQ_REMOVE(req->list, req, link);
	req->pool->load--;
	PQclear(req->res);
	pg_args_free(&req->args);
	free(req);
}

static void
free_reqs(struct pg_reqs *list)
{
	struct pg_req *req, *next;

	TAILQ_FOREACH_SAFE(req, list, link, next)
		free_req(req);
}

void
pg_pool_free(struct pg_pool *pool)
{
	unsigned i;

	if (pool == NULL)
		return;
	for (i = 0; i < pool->conf.conns; i++) {
		free_reqs(&pool->conn[i].inflight);
		pg_conn_free(&pool->conn[i]);
	}
	free_reqs(&pool->waiting);
	free_reqs(&pool->finished);
	free(pool->conn);
	event_free(pool->kick);
	event_free(pool->tick);
	for (i = 0; i < sizeof(pool->conninfo) / sizeof(*pool->conninfo); i++)
		free(pool->conninfo[i]);
	free(pool);
}

bool
pg_pool_ready(const struct pg_pool *pool)
{
	unsigned i;

	for (i = 0; i < pool->conf.conns; i++) {
		if (pool->conn[i].state == CONN_READY)
			return true;
	}
	return false;
}

unsigned
pg_pool_load(const struct pg_pool *pool)
{
	return pool->load;
}

uint64_t
pg_pool_lost(const struct pg_pool *pool)
{
	return pool->lost;
}

void
pg_pool_kick(struct pg_pool *pool)
{
	event_active(pool->kick, 0, 0);
}

/* One number for each text; a handful of texts, so a walk is enough. */
static unsigned
find_statement(struct pg_pool *pool, const char *sql)
{
	unsigned i;

	for (i = 0; i < pool->statements; i++) {
		if (pool->sql[i] == sql)
			return i;
	}
	for (i = 0; i < pool->statements; i++) {
		if (strcmp(pool->sql[i], sql) == 0)
			return i;
	}
	BUG_ON(pool->statements == STATEMENTS_MAX);
	pool->sql[pool->statements] = sql;
	return pool->statements++;
}

struct pg_req *
pg_call_move(struct pg_pool *pool, const char *sql, struct pg_args *args,
    pg_done_fn *done, void *arg)
{
	struct pg_req *req = xcalloc(1, sizeof(*req));

	req->pool = pool;
	req->stmt = find_statement(pool, sql);
	if (args != NULL) {
		BUG_ON(args->array != 0);
		req->args = *args;
		*args = (struct pg_args){ 0 };
	}
	req->done = done;
	req->arg = arg;
	req->deadline = clock_mono_ms() + pool->conf.deadline_ms;
	pool->load++;
	req->list = &pool->waiting;
	TAILQ_INSERT_TAIL(&pool->waiting, req, link);
	if (++pool->waiting_count > pool->conf.queue)
		pg_req_finish(req, PG_UNSENT);
	pg_pool_kick(pool);
	if (!event_pending(pool->tick, EV_TIMEOUT, NULL)) {
		struct timeval tv = { 0, TICK_MS * 1000 };

		event_add(pool->tick, &tv);
	}
	return req;
}

struct pg_req *
pg_call(struct pg_pool *pool, const char *sql, const struct pg_args *args,
    pg_done_fn *done, void *arg)
{
	struct pg_args copy = { 0 };

	if (args != NULL) {
		copy = *args;
		copy.data = (struct buf){ 0 };
		buf_add(&copy.data, args->data.p, args->data.n);
	}
	return pg_call_move(pool, sql, &copy, done, arg);
}

void
pg_deadline(struct pg_req *req, unsigned ms)
{
	req->deadline = clock_mono_ms() + ms;
}

struct pg_result *
pg_keep(struct pg_req *req)
{
	PGresult *res = req->res;

	req->res = NULL;
	return res;
}

void
pg_cancel(struct pg_req *req)
{
	if (req == NULL)
		return;
	req->done = NULL;
	if (req->list == &req->pool->waiting) {
		req->pool->waiting_count--;
		free_req(req);
	}
}

void
pg_req_finish(struct pg_req *req, enum pg_err err)
{
	struct pg_pool *pool = req->pool;

	if (req->list == &pool->waiting)
		pool->waiting_count--;
	TAILQ_REMOVE(req->list, req, link);
	req->list = &pool->finished;
	TAILQ_INSERT_TAIL(&pool->finished, req, link);
	req->err = err;
	if (err == PG_LOST || err == PG_UNSENT) {
		PQclear(req->res);
		req->res = NULL;
	}
	pg_pool_kick(pool);
}

static struct pg_conn *
least_loaded(struct pg_pool *pool)
{
	struct pg_conn *best = NULL, *c;
	unsigned i;

	for (i = 0; i < pool->conf.conns; i++) {
		c = &pool->conn[i];
		if (c->state != CONN_READY || c->load >= pool->conf.inflight)
			continue;
		if (best == NULL || c->load < best->load)
			best = c;
	}
	return best;
}

static void
send_waiting(struct pg_pool *pool)
{
	struct pg_req *req;
	struct pg_conn *c;
	unsigned i;

	while ((req = TAILQ_FIRST(&pool->waiting)) != NULL) {
		c = least_loaded(pool);
		if (c == NULL)
			break;
		pool->waiting_count--;
		pg_conn_send(c, req);
	}
	for (i = 0; i < pool->conf.conns; i++)
		pg_conn_flush(&pool->conn[i]);
}

/* Those that were finished when we began; later ones get another turn. */
static void
report_finished(struct pg_pool *pool)
{
	struct pg_req *last = TAILQ_LAST(&pool->finished, pg_reqs);
	struct pg_req *req, *next;

	for (req = TAILQ_FIRST(&pool->finished); req != NULL; req = next) {
		if (req->done != NULL)
			req->done(req->arg, req->err, req->res);
		next = req != last ? TAILQ_NEXT(req, link) : NULL;
		free_req(req);
	}
}

static void
on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct pg_pool *pool = arg;

	(void)fd;
	(void)what;
	report_finished(pool);
	send_waiting(pool);
}

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct pg_pool *pool = arg;
	struct timeval tv = { 0, TICK_MS * 1000 };
	uint64_t now = clock_mono_ms();
	struct pg_req *req, *next;
	unsigned i;

	(void)fd;
	(void)what;
	for (req = TAILQ_FIRST(&pool->waiting); req != NULL; req = next) {
		next = TAILQ_NEXT(req, link);
		if (req->deadline <= now)
			pg_req_finish(req, PG_UNSENT);
	}
	for (i = 0; i < pool->conf.conns; i++) {
		req = TAILQ_FIRST(&pool->conn[i].inflight);
		if (req != NULL && req->deadline + GRACE_MS <= now)
			pg_conn_lost(&pool->conn[i], "no answer in time");
	}
	if (pool->load > 0)
		event_add(pool->tick, &tv);
}
