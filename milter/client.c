/* SPDX-License-Identifier: ISC */
/*
 * client.c - the life of a conversation: connect, negotiate, tell, hear.
 *
 * Steps are sent without waiting for each other's replies; filters take them
 * in order. The clock runs while a reply is owed, so a slow agent costs a
 * filter nothing and a slow filter is noticed.
 */
#include "milter/client.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "milter/gate.h"
#include "milter/internal.h"
#include "net/stream.h"

#define FULL_BYTES (256 * 1024) /* waiting for the filter to read */
#define PATIENCE 30

static void on_readable(void *arg);
static void on_drained(void *arg);
static void on_event(void *arg, enum net_stream_event what);
static void on_timer(void *arg);
static void tell_done(void *arg);

static const struct net_stream_fns on_stream = { on_readable, on_drained,
	on_event };

static void
keep_text(struct buf *b, struct str s)
{
	milter_text_put(b, s);
}

/* Once, however often. */
static void
tell_later(struct milter *m)
{
	loop_undefer(m->loop, tell_done, m);
	loop_defer(m->loop, tell_done, m);
}

/* There is a verdict: nothing more is said, and the owner hears of it. */
static void
end(struct milter *m)
{
	loop_timer_stop(m->timer);
	net_stream_free(m->stream);
	m->stream = NULL;
	m->over = true;
	milter_gate_leave(m);
	tell_later(m);
}

static void
fail(struct milter *m, const char *why)
{
	if (m->result.verdict != MILTER_PENDING)
		return;
	m->result.verdict = MILTER_FAILED;
	(void)snprintf(m->result.note, sizeof(m->result.note), "%s", why);
	end(m);
}

static void
tell_done(void *arg)
{
	struct milter *m = arg;

	if (m->finished) {
		if (m->over)
			m->done(m->arg);
	} else if (m->full) {
		m->full = false;
		m->room(m->arg); /* which may finish or free it */
	}
}

/* It owes a reply, or has not read what it was told. */
static void
start_clock(struct milter *m)
{
	if (m->expected > 0 || !m->ready ||
	    net_stream_output_size(m->stream) > 0)
		loop_timer_set(m->timer, m->conf.timeout_ms);
	else
		loop_timer_stop(m->timer);
}

static void
flush(struct milter *m)
{
	if (m->out.n > 0) {
		net_stream_write(m->stream, m->out.p, m->out.n);
		buf_clear(&m->out);
		start_clock(m);
	}
}

struct milter *
milter_start(struct loop *loop, const struct milter_conf *conf,
    struct milter_gate *gate, const struct milter_mail *mail,
    void (*done)(void *arg), void (*room)(void *arg), void *arg)
{
	struct milter *m = xcalloc(1, sizeof(*m));
	size_t i;

	m->loop = loop;
	m->conf = *conf;
	m->done = done;
	m->room = room;
	m->arg = arg;
	m->patience = PATIENCE;
	keep_text(&m->hostname, str_of(mail->hostname));
	keep_text(&m->id, str_of(mail->id));
	keep_text(&m->from, str_of(mail->from));
	for (i = 0; i < mail->rcpt_count; i++)
		keep_text(&m->rcpts, mail->rcpt[i]);
	m->timer = loop_timer_new(loop, on_timer, m);
	if (gate != NULL)
		milter_gate_join(gate, m);
	else
		milter_connect(m);
	return m;
}

/* There is something to show: line up, unless that was done. */
static void
line_up(struct milter *m)
{
	if (m->gate == NULL || m->place != MILTER_OUTSIDE)
		return;
	start_clock(m);
	milter_gate_enter(m);
}

void
milter_connect(struct milter *m)
{
	m->stream = net_stream_connect(loop_base(m->loop),
	    (const struct sockaddr *)&m->conf.addr, m->conf.addr_len);
	if (m->stream == NULL) {
		fail(m, "it cannot be reached");
		return;
	}
	net_stream_tell(m->stream, &on_stream, m);
	start_clock(m);
}

bool
milter_feed(struct milter *m, const void *p, size_t n)
{
	size_t waiting;

	if (m->over)
		return true;
	if (!m->ready) {
		buf_add(&m->early, p, n);
		waiting = m->early.n;
	} else {
		milter_say_bytes(m, p, n);
		flush(m);
		waiting = net_stream_output_size(m->stream);
	}
	m->full = waiting > FULL_BYTES;
	if (m->full)
		line_up(m);
	return !m->full;
}

void
milter_finish(struct milter *m)
{
	m->finished = true;
	line_up(m);
	if (m->over) {
		tell_later(m);
	} else if (m->ready) {
		milter_say_end(m);
		flush(m);
	}
}

const struct milter_result *
milter_result(const struct milter *m)
{
	return &m->result;
}

void
milter_free(struct milter *m)
{
	if (m == NULL)
		return;
	milter_gate_leave(m);
	loop_undefer(m->loop, tell_done, m);
	loop_timer_free(m->timer);
	net_stream_free(m->stream);
	buf_free(&m->hostname);
	buf_free(&m->id);
	buf_free(&m->from);
	buf_free(&m->rcpts);
	buf_free(&m->early);
	buf_free(&m->head);
	buf_free(&m->chunk);
	buf_free(&m->out);
	free(m);
}

/* Negotiated: all that waited for it is said now. */
static void
catch_up(struct milter *m)
{
	milter_say_envelope(m);
	if (m->early.n > 0)
		milter_say_bytes(m, (char *)m->early.p, m->early.n);
	buf_free(&m->early);
	if (m->finished)
		milter_say_end(m);
	flush(m);
	/* It wants to hear nothing of that: so nothing will be drained. */
	if (m->full && net_stream_output_size(m->stream) == 0)
		tell_later(m);
}

static void
on_readable(void *arg)
{
	struct milter *m = arg;
	struct evbuffer *in = net_stream_input(m->stream);
	size_t have = evbuffer_get_length(in);
	struct milter_packet packet;
	bool was_ready = m->ready;
	long n = 0;

	while (have > 0 && m->result.verdict == MILTER_PENDING) {
		n = milter_packet_take(&packet,
		    (struct str){ (char *)evbuffer_pullup(in, -1), have });
		if (n <= 0)
			break;
		if (!milter_hear(m, &packet)) {
			n = -1;
			break;
		}
		evbuffer_drain(in, (size_t)n);
		have -= (size_t)n;
	}
	if (m->result.verdict != MILTER_PENDING) {
		end(m);
		return;
	}
	if (n < 0) {
		fail(m, "it does not speak the milter protocol");
		return;
	}
	if (m->ready && !was_ready)
		catch_up(m);
	start_clock(m);
}

static void
on_drained(void *arg)
{
	struct milter *m = arg;

	start_clock(m);
	if (!m->full || m->early.n > 0)
		return;
	m->full = false;
	m->room(m->arg);
}

static void
on_event(void *arg, enum net_stream_event what)
{
	struct milter *m = arg;
	char why[160];

	if (what == NET_STREAM_CONNECTED) {
		net_stream_read(m->stream, true);
		milter_say_offer(m);
		flush(m);
	} else if (what == NET_STREAM_EOF) {
		fail(m, "it closed the connection");
	} else {
		net_stream_why(m->stream, why, sizeof(why));
		fail(m, why);
	}
}

static void
on_timer(void *arg)
{
	struct milter *m = arg;

	fail(m, m->stream == NULL ? "it had too many messages at once"
				  : "it did not answer in time");
}
