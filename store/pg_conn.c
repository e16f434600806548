/* SPDX-License-Identifier: ISC */
/*
 * pg_conn.c - one pipelined connection of a pool.
 *
 * Each request is [Prepare] Execute Sync. Answers come in order, so the first
 * request in flight owns every result up to the next Sync. A request counts
 * as done only when that Sync arrived, since the COMMIT is part of it.
 */
#include "store/pg_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"

#define CONNECT_TIMEOUT_MS 5000
#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 5000

static void on_poll(evutil_socket_t fd, short what, void *arg);
static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);
static void on_retry(evutil_socket_t fd, short what, void *arg);
static void drain(struct pg_conn *c);

static void
arm(struct event *ev, unsigned ms)
{
	struct timeval tv = { (time_t)(ms / 1000), (ms % 1000) * 1000 };

	event_add(ev, &tv);
}

/* Notices of the server are not ours to print. */
static void
drop_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

void
pg_conn_init(struct pg_conn *c, struct pg_pool *pool)
{
	c->pool = pool;
	TAILQ_INIT(&c->inflight);
	c->retry = evtimer_new(pool->base, on_retry, c);
	BUG_ON(c->retry == NULL);
}

static void
free_event(struct event **ev)
{
	if (*ev != NULL)
		event_free(*ev);
	*ev = NULL;
}

static void
disconnect(struct pg_conn *c)
{
	free_event(&c->io);
	free_event(&c->writable);
	PQfinish(c->pq);
	c->pq = NULL;
	c->state = CONN_DOWN;
	c->dirty = false;
	memset(c->prepared, 0, sizeof(c->prepared));
}

void
pg_conn_free(struct pg_conn *c)
{
	disconnect(c);
	free_event(&c->retry);
}

/* Twice as long after each failure, and never all at the same moment. */
static void
retry_later(struct pg_conn *c)
{
	unsigned ms = RETRY_MIN_MS, i;
	unsigned char r = 0;

	for (i = 0; i < c->failures && ms < RETRY_MAX_MS; i++)
		ms *= 2;
	RAND_bytes(&r, 1);
	ms = ms / 2 + ms * r / 255;
	if (c->failures < 32)
		c->failures++;
	arm(c->retry, ms);
}

static void
connect_failed(struct pg_conn *c)
{
	char why[200];

	snprintf(why, sizeof(why), "%s",
	    c->pq != NULL ? PQerrorMessage(c->pq) : "out of memory");
	log_warn("store.lost", KV("why", why), KV("connected", false));
	disconnect(c);
	retry_later(c);
}

static void
wait_poll(struct pg_conn *c, short what)
{
	/* The socket may be another one after each step. */
	free_event(&c->io);
	c->io = event_new(c->pool->base, PQsocket(c->pq), what, on_poll, c);
	BUG_ON(c->io == NULL);
	event_add(c->io, NULL);
}

void
pg_conn_start(struct pg_conn *c)
{
	struct pg_conninfo ci;

	pg_conninfo_fill(&ci, &c->pool->conf);
	c->pq = PQconnectStartParams(ci.key, ci.value, 0);
	if (c->pq == NULL || PQstatus(c->pq) == CONNECTION_BAD) {
		connect_failed(c);
		return;
	}
	PQsetNoticeReceiver(c->pq, drop_notice, NULL);
	c->state = CONN_CONNECTING;
	arm(c->retry, CONNECT_TIMEOUT_MS);
	wait_poll(c, EV_WRITE);
}

static void
connected(struct pg_conn *c)
{
	struct event_base *base = c->pool->base;
	int fd = PQsocket(c->pq);

	event_del(c->retry);
	free_event(&c->io);
	if (PQsetnonblocking(c->pq, 1) != 0 ||
	    PQenterPipelineMode(c->pq) != 1) {
		connect_failed(c);
		return;
	}
	c->io = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->writable = event_new(base, fd, EV_WRITE, on_writable, c);
	BUG_ON(c->io == NULL || c->writable == NULL ||
	       event_priority_set(c->io, LOOP_URGENT) != 0 ||
	       event_priority_set(c->writable, LOOP_URGENT) != 0);
	event_add(c->io, NULL);
	c->state = CONN_READY;
	pg_pool_kick(c->pool);
}

void
pg_conn_lost(struct pg_conn *c, const char *why)
{
	struct pg_req *req;
	unsigned n = 0;

	while ((req = TAILQ_FIRST(&c->inflight)) != NULL) {
		pg_req_finish(req, PG_LOST);
		n++;
	}
	c->load = 0;
	c->pool->lost += n > 0;
	if (n > 0)
		metrics_inc(M_STORE_LOST, NULL, NULL);
	log_warn("store.lost", KV("why", why), KV("calls", n));
	disconnect(c);
	retry_later(c);
}

static bool
send_all(struct pg_conn *c, struct pg_req *req)
{
	const struct pg_args *a = &req->args;
	struct pg_params params;
	char name[16];

	snprintf(name, sizeof(name), "s%u", req->stmt);
	pg_params_fill(&params, a);
	if (!c->prepared[req->stmt]) {
		req->preparing = true;
		c->prepared[req->stmt] = true;
		if (PQsendPrepare(c->pq, name, c->pool->sql[req->stmt], a->n,
			a->type) != 1)
			return false;
	}
	return PQsendQueryPrepared(c->pq, name, a->n, params.value, a->len,
		   params.format, 1) == 1 &&
	       PQpipelineSync(c->pq) == 1;
}

void
pg_conn_send(struct pg_conn *c, struct pg_req *req)
{
	bool sent;

	TAILQ_REMOVE(req->list, req, link);
	req->list = &c->inflight;
	TAILQ_INSERT_TAIL(&c->inflight, req, link);
	c->load++;
	sent = send_all(c, req);
	pg_args_free(&req->args); /* libpq has its own copy */
	if (!sent)
		pg_conn_lost(c, PQerrorMessage(c->pq));
	else
		c->dirty = true;
}

void
pg_conn_flush(struct pg_conn *c)
{
	int r;

	if (!c->dirty || c->state != CONN_READY)
		return;
	r = PQflush(c->pq);
	if (r < 0 || PQstatus(c->pq) == CONNECTION_BAD) {
		/* A failed send makes no read event: notice it here. */
		pg_conn_lost(c, PQerrorMessage(c->pq));
		return;
	}
	c->dirty = r == 1;
	if (c->dirty)
		event_add(c->writable, NULL);
}

static void
on_poll(evutil_socket_t fd, short what, void *arg)
{
	struct pg_conn *c = arg;

	(void)fd;
	(void)what;
	switch (PQconnectPoll(c->pq)) {
	case PGRES_POLLING_OK:
		connected(c);
		break;
	case PGRES_POLLING_READING:
		wait_poll(c, EV_READ);
		break;
	case PGRES_POLLING_WRITING:
	case PGRES_POLLING_ACTIVE:
		wait_poll(c, EV_WRITE);
		break;
	case PGRES_POLLING_FAILED:
		connect_failed(c);
		break;
	}
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct pg_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->state == CONN_CONNECTING)
		connect_failed(c); /* took too long */
	else
		pg_conn_start(c);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct pg_conn *c = arg;

	(void)fd;
	(void)what;
	/* Errors show in drain(), after the answers that still arrived. */
	(void)PQconsumeInput(c->pq);
	drain(c);
	if (c->state == CONN_READY)
		pg_conn_flush(c);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct pg_conn *c = arg;

	(void)fd;
	(void)what;
	/* Both buffers may be full: read while writing. */
	(void)PQconsumeInput(c->pq);
	drain(c);
	if (c->state == CONN_READY)
		pg_conn_flush(c);
}

/* The first error of a request is its answer; else the last result is. */
static void
keep_result(struct pg_conn *c, struct pg_req *req, PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);
	bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;

	if (req->preparing) {
		req->preparing = false;
		c->prepared[req->stmt] = good;
		if (good) {
			PQclear(res);
			return;
		}
	}
	if (req->err == PG_REJECTED) {
		PQclear(res);
		return;
	}
	PQclear(req->res);
	req->res = res;
	if (!good)
		req->err = PG_REJECTED;
}

/* Take every answer that has fully arrived. Runs no callback. */
static void
drain(struct pg_conn *c)
{
	struct pg_req *req;
	PGresult *res;

	while ((req = TAILQ_FIRST(&c->inflight)) != NULL) {
		if (PQisBusy(c->pq))
			break;
		res = PQgetResult(c->pq);
		if (PQstatus(c->pq) == CONNECTION_BAD) {
			PQclear(res);
			break;
		}
		if (res == NULL)
			continue; /* end of one statement */
		if (PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
			PQclear(res);
			c->load--;
			c->failures = 0;
			pg_req_finish(req, req->err);
		} else {
			keep_result(c, req, res);
		}
	}
	if (PQstatus(c->pq) == CONNECTION_BAD)
		pg_conn_lost(c, PQerrorMessage(c->pq));
}
