/* SPDX-License-Identifier: ISC */
/*
 * played.h - a filter that is played, and a conversation with it.
 */
#ifndef TESTS_UNIT_MILTER_PLAYED_H
#define TESTS_UNIT_MILTER_PLAYED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/loop.h"
#include "milter/client.h"
#include "milter/gate.h"
#include "milter/wire.h"

#define MAIL                                                                   \
	"From: bot@example.org\r\nSubject: a\r\n folded\r\nX-Empty:\r\n\r\n"   \
	"one\r\n\r\ntwo\r\n"

struct world {
	struct loop *loop;
	struct evconnlistener *listener;
	struct bufferevent *peer, *others[8];
	size_t other_count;
	struct milter_conf conf;
	struct milter *m;
	struct milter_gate *gate;
	unsigned accepted;
	uint32_t steps; /* the filter can do without */
	uint32_t version; /* that it speaks; 0: ours */
	const char *at; /* letters answered by `say` instead of "c" */
	struct str say; /* packets */
	bool mute;
	struct event *drip; /* replies leave an octet at a time */
	struct buf drops; /* what is left of them */
	size_t dripped;
	struct buf told; /* "letter data\n", NUL as '|' */
	unsigned done, rooms;
};

/* One octet, then the loop looks at all sockets before the next one. */
static inline void
on_drip(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;

	(void)fd, (void)what;
	if (w->drops.n == 0)
		return;
	assert_int_equal(
	    send(bufferevent_getfd(w->peer), w->drops.p, 1, MSG_NOSIGNAL), 1);
	buf_drain(&w->drops, 1);
	w->dripped++;
	event_add(w->drip, &(struct timeval){ 0 });
}

static inline void
reply(struct world *w, const void *p, size_t n)
{
	if (w->drip == NULL) {
		bufferevent_write(w->peer, p, n);
		return;
	}
	buf_add(&w->drops, p, n);
	if (!event_pending(w->drip, EV_TIMEOUT, NULL))
		event_add(w->drip, &(struct timeval){ 0 });
}

static inline uint32_t
quiet_bit(char letter)
{
	switch (letter) {
	case 'C':
		return MILTER_QUIET_CONNECT;
	case 'H':
		return MILTER_QUIET_HELO;
	case 'M':
		return MILTER_QUIET_MAIL;
	case 'R':
		return MILTER_QUIET_RCPT;
	case 'T':
		return MILTER_QUIET_DATA;
	case 'L':
		return MILTER_QUIET_HEADER;
	case 'N':
		return MILTER_QUIET_EOH;
	case 'B':
		return MILTER_QUIET_BODY;
	default:
		return 0;
	}
}

static inline void
answer(struct world *w, char letter)
{
	struct buf b = { 0 };
	size_t at;

	if (letter == 'O') {
		at = milter_packet_begin(&b, 'O');
		buf_u32(&b, w->version != 0 ? w->version : 6);
		buf_u32(&b, 0x1ff);
		buf_u32(&b, w->steps);
		milter_packet_end(&b, at);
		reply(w, b.p, b.n);
		buf_free(&b);
	} else if (w->at != NULL && strchr(w->at, letter) != NULL) {
		reply(w, w->say.p, w->say.n);
	} else if (letter != 'D' && (w->steps & quiet_bit(letter)) == 0) {
		reply(w, "\0\0\0\1c", 5);
	}
}

static inline void
note(struct world *w, const struct milter_packet *p)
{
	size_t i;

	buf_putc(&w->told, p->letter);
	for (i = 0; i < p->data.n && p->letter != 'O'; i++)
		buf_putc(&w->told, p->data.p[i] == '\0' ? '|' : p->data.p[i]);
	buf_putc(&w->told, '\n');
}

static inline void
on_read(struct bufferevent *bev, void *arg)
{
	struct world *w = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct milter_packet p;
	long n;

	while ((n = milter_packet_take(
		    &p, (struct str){ (char *)evbuffer_pullup(in, -1),
			    evbuffer_get_length(in) })) > 0) {
		char letter = p.letter;

		note(w, &p);
		evbuffer_drain(in, (size_t)n);
		if (!w->mute)
			answer(w, letter);
	}
	assert_true(n == 0);
}

static inline void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr,
    int len, void *arg)
{
	struct world *w = arg;

	(void)l, (void)addr, (void)len;
	w->accepted++;
	if (w->peer != NULL)
		w->others[w->other_count++] = w->peer;
	w->peer = bufferevent_socket_new(
	    loop_base(w->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(w->peer, on_read, NULL, NULL, w);
	bufferevent_enable(w->peer, EV_READ | EV_WRITE);
}

static inline void
on_done(void *arg)
{
	((struct world *)arg)->done++;
}

static inline void
on_room(void *arg)
{
	((struct world *)arg)->rooms++;
}

static inline int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->loop = loop_new();
	w->listener = evconnlistener_new_bind(loop_base(w->loop), on_accept, w,
	    LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&in, sizeof(in));
	assert_non_null(w->listener);
	assert_int_equal(getsockname(evconnlistener_get_fd(w->listener),
			     (struct sockaddr *)&in, &len),
	    0);
	memcpy(&w->conf.addr, &in, sizeof(in));
	w->conf.addr_len = sizeof(in);
	w->conf.timeout_ms = 5000;
	*state = w;
	return 0;
}

static inline int
teardown(void **state)
{
	struct world *w = *state;

	milter_free(w->m);
	if (w->peer != NULL)
		bufferevent_free(w->peer);
	while (w->other_count > 0)
		bufferevent_free(w->others[--w->other_count]);
	if (w->listener != NULL)
		evconnlistener_free(w->listener);
	loop_free(w->loop);
	buf_free(&w->told);
	buf_free(&w->drops);
	free(w);
	return 0;
}

static inline void
start(struct world *w)
{
	static const struct str rcpt[] = { str_lit("a@example.net"),
		str_lit("b@example.net") };
	const struct milter_mail mail = { "mx.example.org", "msg_1",
		"bot@example.org", rcpt, 2 };

	milter_free(w->m);
	if (w->peer != NULL)
		bufferevent_free(w->peer);
	w->peer = NULL;
	buf_clear(&w->told);
	w->done = 0;
	w->m = milter_start(
	    w->loop, &w->conf, w->gate, &mail, on_done, on_room, w);
}

static inline const struct milter_result *
finish(struct world *w)
{
	milter_finish(w->m);
	while (w->done == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_int_equal(w->done, 1);
	return milter_result(w->m);
}

static inline const struct milter_result *
show(struct world *w)
{
	start(w);
	assert_true(milter_feed(w->m, MAIL, sizeof(MAIL) - 1));
	return finish(w);
}

#endif
