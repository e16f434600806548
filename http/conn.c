/* SPDX-License-Identifier: ISC */
/*
 * conn.c - the life of a connection: phases, deadlines, back-pressure, end.
 *
 * Reading is switched off above HTTP_INPUT_MAX.
 */
#include "http/conn.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "net/stream.h"

#define LINGER_MS 5000 /* of silence */
#define LINGER_MAX_MS 60000
#define BYTES_PER_MS 16 /* slowest peer that is waited for: 16 KiB/s */

static void on_read(void *arg);
static void on_drained(void *arg);
static void on_event(void *arg, enum net_stream_event what);
static void on_timer(evutil_socket_t fd, short what, void *arg);
static void on_wake(evutil_socket_t fd, short what, void *arg);
static void on_hangup(evutil_socket_t fd, short what, void *arg);
static void on_body(void *arg, const char *p, size_t n);

static const struct net_stream_fns on_io = { on_read, on_drained, on_event };

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
http_conn_start(struct http_server *server, struct net_stream *io,
    const struct net_peer *peer, int place)
{
	struct http_conn *c = xcalloc(1, sizeof(*c));

	c->server = server;
	c->io = io;
	c->peer = *peer;
	c->place = place;
	c->tls = server->conf.tls != NULL;
	c->timer = event_new(server->base, -1, 0, on_timer, c);
	c->wake = event_new(server->base, -1, 0, on_wake, c);
	c->hangup =
	    event_new(server->base, net_stream_fd(io), EV_CLOSED, on_hangup, c);
	BUG_ON(c->timer == NULL || c->wake == NULL || c->hangup == NULL);
	event_add(c->hangup, NULL); /* needs epoll; without, deadlines do */
	http_parser_init(&c->parser, on_body, c);
	TAILQ_INSERT_TAIL(&server->conns, c, link);
	server->conns_n++;
	count_session(c, 1);
	net_stream_tell(io, &on_io, c);
	http_conn_set_phase(c, HTTP_PHASE_IDLE, server->conf.head_ms);
	net_stream_read(io, true);
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

/* Stop or go on reading, by what lies there unread. */
static void
govern_reading(struct http_conn *c)
{
	size_t n = evbuffer_get_length(net_stream_input(c->io));
	bool wanted = c->phase != HTTP_PHASE_LAST && n < HTTP_INPUT_MAX;
	bool enabled = net_stream_reads(c->io);

	if (!wanted && c->hung_up && c->phase != HTTP_PHASE_LAST)
		http_conn_close(c, "eof");
	else if (wanted && !enabled)
		net_stream_read(c->io, true);
	else if (!wanted && enabled)
		net_stream_read(c->io, false);
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
	c->bytes = net_stream_output_size(c->io);
	http_conn_wake(c);
}

/*
 * The last reply has left. Say so and read what the client still sends for a
 * moment: closing with unread input would reset the connection and could
 * destroy the reply on its way (RFC 9112 section 9.6). Who still sends a large
 * body looks for a reply only after it.
 */
static void
linger(struct http_conn *c)
{
	net_stream_bye(c->io);
	http_conn_set_phase(c, HTTP_PHASE_LINGER, LINGER_MS);
}

static void
discard(struct http_conn *c)
{
	struct evbuffer *in = net_stream_input(c->io);
	uint64_t spent = clock_mono_ms() - c->since_ms;

	if (evbuffer_get_length(in) > 0 && spent + LINGER_MS < LINGER_MAX_MS)
		http_conn_set_timer(c, LINGER_MS);
	evbuffer_drain(in, SIZE_MAX);
}

/* Parse one slice of input. False: nothing more can be done now. */
static bool
feed(struct http_conn *c)
{
	struct evbuffer *in = net_stream_input(c->io);
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
		if (c->stream != NULL || net_stream_output_size(c->io) > 0)
			return false;
		next_request(c);
		return true;
	case HTTP_PHASE_LAST:
		if (c->stream != NULL || net_stream_output_size(c->io) > 0)
			return false;
		linger(c);
		return true;
	case HTTP_PHASE_LINGER:
		discard(c);
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
on_read(void *arg)
{
	run(arg);
}

static void
on_drained(void *arg)
{
	struct http_conn *c = arg;
	struct http_stream *stream = c->stream;

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
on_event(void *arg, enum net_stream_event what)
{
	if (what != NET_STREAM_CONNECTED)
		http_conn_close(arg, what == NET_STREAM_EOF ? "eof" : "error");
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
			c->bytes - net_stream_output_size(c->io)))
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
	net_stream_tell(c->io, NULL, NULL);
	net_stream_read(c->io, false);
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
	net_stream_free(c->io);
	http_parser_free(&c->parser);
	free(c);
}
