/* SPDX-License-Identifier: ISC */
/*
 * conn.c - the life of a connection: phases, deadlines, back-pressure, end.
 *
 * Reading is switched off above HTTP_INPUT_MAX rather than by a watermark:
 * a TLS bufferevent stopped by a watermark in the middle of a record is not
 * woken again for the rest of it.
 */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "net/tls.h"

#define LINGER_MS 5000
#define BYTES_PER_MS 16 /* slowest peer that is waited for: 16 KiB/s */

static void on_read(struct bufferevent *bev, void *arg);
static void on_write(struct bufferevent *bev, void *arg);
static void on_event(struct bufferevent *bev, short what, void *arg);
static void on_timer(evutil_socket_t fd, short what, void *arg);
static void on_wake(evutil_socket_t fd, short what, void *arg);
static void on_hangup(evutil_socket_t fd, short what, void *arg);
static void on_body(void *arg, const char *p, size_t n);

/* The metric is of the agents' side; operators' pages are not counted. */
static void
count_session(const struct http_conn *c, int64_t n)
{
	if (strcmp(c->server->conf.name, "api") != 0)
		return;
	metrics_add(M_SESSIONS, n, "api", c->tls ? "1" : "0");
	if (n > 0)
		metrics_inc(M_ACCEPTS, NULL, NULL);
}

void
http_conn_start(struct http_server *server, struct bufferevent *bev,
    const struct net_peer *peer, int place)
{
	struct http_conn *c = xcalloc(1, sizeof(*c));

	c->server = server;
	c->bev = bev;
	c->peer = *peer;
	c->place = place;
	c->tls = server->conf.tls != NULL;
	c->timer = event_new(server->base, -1, 0, on_timer, c);
	c->wake = event_new(server->base, -1, 0, on_wake, c);
	c->hangup = event_new(
	    server->base, bufferevent_getfd(bev), EV_CLOSED, on_hangup, c);
	BUG_ON(c->timer == NULL || c->wake == NULL || c->hangup == NULL);
	event_add(c->hangup, NULL); /* needs epoll; without, deadlines do */
	http_parser_init(&c->parser, on_body, c);
	TAILQ_INSERT_TAIL(&server->conns, c, link);
	server->conns_n++;
	count_session(c, 1);
	bufferevent_setcb(bev, on_read, on_write, on_event, c);
	bufferevent_set_max_single_read(bev, HTTP_SLICE);
	http_conn_set_phase(c, HTTP_PHASE_IDLE, server->conf.head_ms);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

void
http_conn_wake(struct http_conn *c)
{
	event_active(c->wake, EV_READ, 0);
}

void
http_conn_set_timer(struct http_conn *c, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000),
		.tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	event_del(c->timer);
	if (ms > 0)
		event_add(c->timer, &tv);
}

void
http_conn_set_phase(struct http_conn *c, enum http_phase phase, unsigned ms)
{
	c->phase = phase;
	c->since_ms = clock_mono_ms();
	c->bytes = 0;
	http_conn_set_timer(c, ms);
}

static struct evbuffer *
output(const struct http_conn *c)
{
	return bufferevent_get_output(c->bev);
}

/* Stop or go on reading, by what lies there unread. */
static void
govern_reading(struct http_conn *c)
{
	size_t n = evbuffer_get_length(bufferevent_get_input(c->bev));
	bool wanted = c->phase != HTTP_PHASE_LAST && n < HTTP_INPUT_MAX;
	bool enabled = bufferevent_get_enabled(c->bev) & EV_READ;

	if (!wanted && c->hung_up && c->phase != HTTP_PHASE_LAST)
		http_conn_close(c, "eof");
	else if (wanted && !enabled)
		bufferevent_enable(c->bev, EV_READ);
	else if (!wanted && enabled)
		bufferevent_disable(c->bev, EV_READ);
}

/* After a reply: wait for the next request, which may be here already. */
static void
next_request(struct http_conn *c)
{
	const struct http_conf *conf = &c->server->conf;

	http_parser_reset(&c->parser);
	http_conn_set_phase(c, HTTP_PHASE_IDLE, conf->idle_ms);
	if (c->server->draining)
		http_conn_close(c, "drain");
}

void
http_conn_replied(struct http_conn *c, bool keep)
{
	c->req = NULL;
	c->paused = c->end_owed = false;
	http_conn_set_phase(c, keep ? HTTP_PHASE_REPLY : HTTP_PHASE_LAST,
	    c->server->conf.write_ms);
	c->bytes = evbuffer_get_length(output(c));
	http_conn_wake(c);
}

/*
 * The last reply has left. Say so and read what the client still sends for a
 * moment: closing with unread input would reset the connection and could
 * destroy the reply on its way.
 */
static void
linger(struct http_conn *c)
{
	net_tls_bye(c->bev);
	shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	http_conn_set_phase(c, HTTP_PHASE_LINGER, LINGER_MS);
}

/* Parse one slice of input. False: nothing more can be done now. */
static bool
feed(struct http_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct evbuffer_iovec v = { 0 };
	enum http_parse_step step;
	size_t used, n;

	if (evbuffer_peek(in, HTTP_SLICE, NULL, &v, 1) < 1)
		v.iov_len = 0;
	n = v.iov_len < HTTP_SLICE ? v.iov_len : HTTP_SLICE;
	if (n == 0 && c->phase != HTTP_PHASE_BODY)
		return false;
	if (c->phase == HTTP_PHASE_IDLE)
		http_conn_set_phase(
		    c, HTTP_PHASE_HEAD, c->server->conf.head_ms);
	step = http_parse(&c->parser, v.iov_base, n, &used);
	evbuffer_drain(in, used);
	switch (step) {
	case HTTP_PARSE_MORE:
		return used > 0;
	case HTTP_PARSE_HEAD:
		http_dispatch_head(c);
		return true;
	case HTTP_PARSE_END:
		http_dispatch_end(c);
		return true;
	case HTTP_PARSE_BAD:
		if (c->phase == HTTP_PHASE_HEAD || c->phase == HTTP_PHASE_BODY)
			http_dispatch_bad(c);
		return true;
	}
	return false;
}

/* One step of whatever the phase allows. False: wait for an event. */
static bool
step_once(struct http_conn *c)
{
	switch (c->phase) {
	case HTTP_PHASE_IDLE:
	case HTTP_PHASE_HEAD:
		return feed(c);
	case HTTP_PHASE_BODY:
		return !c->paused && feed(c);
	case HTTP_PHASE_APP:
		if (c->req == NULL || c->req->todo == HTTP_TODO_NOTHING)
			return false;
		http_dispatch_todo(c);
		return true;
	case HTTP_PHASE_REPLY:
		if (c->stream != NULL || evbuffer_get_length(output(c)) > 0)
			return false;
		next_request(c);
		return true;
	case HTTP_PHASE_LAST:
		if (c->stream != NULL || evbuffer_get_length(output(c)) > 0)
			return false;
		linger(c);
		return true;
	case HTTP_PHASE_LINGER:
		evbuffer_drain(bufferevent_get_input(c->bev), SIZE_MAX);
		return false;
	case HTTP_PHASE_CLOSED:
		return false;
	}
	return false;
}

static void
run(struct http_conn *c)
{
	while (step_once(c))
		;
	if (c->phase != HTTP_PHASE_CLOSED)
		govern_reading(c);
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct http_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->phase == HTTP_PHASE_CLOSED) {
		http_conn_free(c);
		return;
	}
	if (c->end_owed && !c->paused) {
		c->end_owed = false;
		http_dispatch_end(c);
	}
	run(c);
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	(void)bev;
	run(arg);
}

static void
on_write(struct bufferevent *bev, void *arg)
{
	struct http_conn *c = arg;
	struct http_stream *stream = c->stream;

	(void)bev;
	if (stream != NULL) {
		http_conn_set_timer(c, 0); /* the application's turn again */
		if (stream->full) {
			stream->full = false;
			if (stream->fns->drained != NULL)
				stream->fns->drained(stream->arg);
		}
	}
	run(c);
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
		http_conn_close(arg, what & BEV_EVENT_EOF ? "eof" : "error");
}

/*
 * The client closed its side. While reading is on, the end comes in its
 * place behind the bytes before it; while it is off, nothing else tells.
 */
static void
on_hangup(evutil_socket_t fd, short what, void *arg)
{
	struct http_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->phase == HTTP_PHASE_CLOSED)
		return;
	c->hung_up = true;
	govern_reading(c);
}

static void
on_body(void *arg, const char *p, size_t n)
{
	struct http_conn *c = arg;

	c->bytes += n;
	http_dispatch_body(c, p, n);
}

/*
 * A peer that moves at least 16 KiB/s after a first `grace` is in time. True
 * and the timer set anew if it is.
 */
static bool
is_in_time(struct http_conn *c, uint64_t grace, uint64_t bytes)
{
	uint64_t spent = clock_mono_ms() - c->since_ms;
	uint64_t allowed = grace + bytes / BYTES_PER_MS;

	if (spent >= allowed)
		return false;
	http_conn_set_timer(c, allowed - spent);
	return true;
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct http_conn *c = arg;
	const struct http_conf *conf = &c->server->conf;

	(void)fd;
	(void)what;
	switch (c->phase) {
	case HTTP_PHASE_HEAD:
	case HTTP_PHASE_APP:
		http_dispatch_late(c);
		break;
	case HTTP_PHASE_BODY:
		if (c->paused || !is_in_time(c, conf->body_ms, c->bytes))
			http_dispatch_late(c);
		break;
	case HTTP_PHASE_REPLY:
	case HTTP_PHASE_LAST:
		if (!is_in_time(c, conf->write_ms,
			c->bytes - evbuffer_get_length(output(c))))
			http_conn_close(c, "slow reader");
		break;
	case HTTP_PHASE_IDLE:
	case HTTP_PHASE_LINGER:
		http_conn_close(c, "idle");
		break;
	case HTTP_PHASE_CLOSED:
		break;
	}
}

void
http_conn_close(struct http_conn *c, const char *why)
{
	struct http_request *req = c->req;
	struct http_stream *stream = c->stream;

	if (c->phase == HTTP_PHASE_CLOSED)
		return;
	http_conn_set_phase(c, HTTP_PHASE_CLOSED, 0);
	bufferevent_setcb(c->bev, NULL, NULL, NULL, NULL);
	bufferevent_disable(c->bev, EV_READ | EV_WRITE);
	c->req = NULL;
	c->stream = NULL;
	if (req != NULL) {
		log_debug(
		    "api.request", KV("request", req->id), KV("why", why));
		http_request_abandon(req);
	}
	if (stream != NULL) {
		if (stream->fns->gone != NULL)
			stream->fns->gone(stream->arg);
		free(stream);
	}
	http_conn_wake(c);
}

void
http_conn_free(struct http_conn *c)
{
	count_session(c, -1);
	http_server_forget(c);
	event_free(c->timer);
	event_free(c->wake);
	event_free(c->hangup);
	bufferevent_free(c->bev);
	http_parser_free(&c->parser);
	free(c);
}
