/* SPDX-License-Identifier: ISC */
/*
 * A session with a peer that falls silent, or drips, at every step: it ends in
 * time, and only silence after the dot leaves a doubt.
 */
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

#include "base/err.h"
#include "base/loop.h"
#include "base/str.h"
#include "deliver/client.h"
#include "net/tls.h"

#define STEPS 6 /* greeting, EHLO, MAIL, RCPT, DATA, the dot */
#define PATIENCE_MS 240 /* more than a busy machine keeps us waiting */

static const char *const replies[STEPS] = { "220 peer\r\n", "250 peer\r\n",
	"250 2.1.0 ok\r\n", "250 2.1.5 ok\r\n", "354 go\r\n",
	"250 2.0.0 taken\r\n" };
static const char *const with_tls[STEPS] = { "220 peer\r\n",
	"250-peer\r\n250 STARTTLS\r\n", "220 go\r\n" };

/* Both sides of one session, on one loop. */
struct world {
	struct loop *loop;
	struct evconnlistener *listener;
	struct bufferevent *peer;
	struct loop_timer *drip;
	struct client *client;
	enum client_end end;
	bool ended, drips, in_data;
	int silent_at, step;
	const char *const *replies;
	struct net_tls *tls; /* NULL: in clear */
};

static void
drip(void *arg)
{
	struct world *w = arg;

	if (w->peer == NULL || w->ended)
		return;
	bufferevent_write(w->peer, "2", 1);
	loop_timer_set(w->drip, PATIENCE_MS / 4);
}

static void
say(struct world *w)
{
	if (w->step < STEPS && w->step != w->silent_at) {
		w->in_data = w->step == 4;
		bufferevent_write(
		    w->peer, w->replies[w->step], strlen(w->replies[w->step]));
	} else if (w->drips) {
		drip(w);
	}
	w->step++;
}

static void
on_peer_read(struct bufferevent *bev, void *arg)
{
	struct world *w = arg;
	char *line;

	/* What comes now is a handshake; nobody will answer. */
	if (w->tls != NULL && w->step == 3) {
		client_abort(w->client, "other mail waits");
		return;
	}
	while ((line = evbuffer_readln(bufferevent_get_input(bev), NULL,
		    EVBUFFER_EOL_CRLF)) != NULL) {
		bool dot = strcmp(line, ".") == 0;

		free(line);
		if (!w->in_data || dot)
			say(w);
	}
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa,
    int len, void *arg)
{
	struct world *w = arg;

	(void)l;
	(void)sa;
	(void)len;
	w->peer = bufferevent_socket_new(
	    loop_base(w->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(w->peer, on_peer_read, NULL, NULL, w);
	bufferevent_enable(w->peer, EV_READ | EV_WRITE);
	say(w);
}

static void
on_ready(void *arg, const char *tls)
{
	struct world *w = arg;

	(void)tls;
	client_mail(w->client);
}

static void
on_body(void *arg)
{
	struct world *w = arg;

	client_body(w->client, "Hello\r\n", 7);
	client_body_end(w->client);
}

static void
on_gate(void *arg)
{
	struct world *w = arg;

	client_dot(w->client, true);
}

static void
on_end(void *arg, enum client_end end)
{
	struct world *w = arg;

	w->ended = true;
	w->end = end;
	loop_stop(w->loop);
}

/* Runs one session; what became of the one recipient. */
static enum client_rcpt
run_with(struct world *w, int silent_at)
{
	static const struct client_events events = { on_ready, on_body, on_gate,
		on_end };
	static const struct str rcpt = { "ann@dest.example", 16 };
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct client_conf conf = { .tls = w->tls,
		.policy = w->tls != NULL ? CLIENT_TLS_MAY : CLIENT_TLS_NONE,
		.helo = "gate.example",
		.host = "peer.example",
		.mail_from = str_lit("bot@acme.example"),
		.rcpt = &rcpt,
		.rcpt_count = 1,
		.size = 7,
		.timeout_ms = silent_at < 0 ? 60000 : PATIENCE_MS };
	const struct reply *reply;
	enum client_rcpt result;
	int i;

	w->silent_at = silent_at;
	w->loop = loop_new();
	w->drip = loop_timer_new(w->loop, drip, w);
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->listener = evconnlistener_new_bind(loop_base(w->loop), on_accept, w,
	    LEV_OPT_CLOSE_ON_FREE, 1, (struct sockaddr *)&sin, sizeof(sin));
	assert_non_null(w->listener);
	conf.addr_len = sizeof(conf.addr);
	assert_int_equal(getsockname(evconnlistener_get_fd(w->listener),
			     (struct sockaddr *)&conf.addr, &conf.addr_len),
	    0);
	w->client = client_start(w->loop, &conf, NULL, &events, w);
	loop_run(w->loop);
	assert_true(w->ended);
	result = client_result(w->client, 0, &reply);
	client_free(w->client);
	/* QUIT leaves, and what is closed late is freed. */
	for (i = 0; i < 4; i++)
		(void)event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	if (w->peer != NULL)
		bufferevent_free(w->peer);
	evconnlistener_free(w->listener);
	loop_timer_free(w->drip);
	loop_free(w->loop);
	return result;
}

static enum client_rcpt
run(struct world *w, int silent_at, bool drips)
{
	*w = (struct world){ .drips = drips, .replies = replies };
	return run_with(w, silent_at);
}

static void
test_silence(void **state)
{
	struct world w;
	int step, drips;

	(void)state;
	for (drips = 0; drips < 2; drips++) {
		for (step = 0; step < STEPS; step++) {
			enum client_rcpt got = run(&w, step, drips != 0);

			if (step < 2) {
				assert_int_equal(w.end, CLIENT_END_NEXT);
				assert_int_equal(got, CLIENT_RCPT_OPEN);
				continue;
			}
			assert_int_equal(w.end, CLIENT_END_DONE);
			assert_int_equal(got, step == 5 ? CLIENT_RCPT_UNCERTAIN
							: CLIENT_RCPT_DEFERRED);
		}
	}
}

static void
test_no_silence(void **state)
{
	struct world w;

	(void)state;
	assert_int_equal(run(&w, -1, false), CLIENT_RCPT_DELIVERED);
	assert_int_equal(w.end, CLIENT_END_DONE);
}

/* Who gives up on a slow handshake does not mean to go on in clear. */
static void
test_given_up_in_a_handshake(void **state)
{
	struct world w = { .replies = with_tls };
	struct err err;

	(void)state;
	w.tls = net_tls_client_new("", &err);
	assert_non_null(w.tls);
	assert_int_equal(run_with(&w, -1), CLIENT_RCPT_OPEN);
	assert_int_equal(w.end, CLIENT_END_NEXT);
	net_tls_free(w.tls);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_silence),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_given_up_in_a_handshake),
	};

	signal(SIGPIPE, SIG_IGN); /* as daemon_init() does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
