/* SPDX-License-Identifier: ISC */
/*
 * client.c - the life of a session: connecting, TLS, bytes in and out, time,
 * and its one end. What a reply means is in client_step.c.
 */
#include "deliver/client.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/client_internal.h"
#include "net/tls.h"

#define LINE_MAX_BYTES 2048
#define COMMAND_MAX 1200
#define BODY_HIGH 262144
#define CONNECT_MS 30000
#define LINGER_SECONDS 2
#define QUIT_LINE "QUIT\r\n"

/* RFC 5321 4.5.3.2, in milliseconds. 0: the owner's turn has no clock. */
static const unsigned timeout_ms[CS_COUNT] = {
	[CS_CONNECT] = CONNECT_MS,
	[CS_HANDSHAKE] = CONNECT_MS,
	[CS_GREETING] = 300000,
	[CS_EHLO] = 300000,
	[CS_HELO] = 300000,
	[CS_STARTTLS] = 120000,
	[CS_AUTH_PLAIN] = 120000,
	[CS_AUTH_LOGIN] = 120000,
	[CS_AUTH_USER] = 120000,
	[CS_AUTH_PASSWORD] = 120000,
	[CS_MAIL] = 300000,
	[CS_RCPT] = 300000,
	[CS_DATA] = 120000,
	[CS_BODY] = 180000,
	[CS_DOT] = 600000,
};

static void set_callbacks(struct client *c);

static unsigned
patience(const struct client *c, enum client_state state)
{
	return c->conf.timeout_ms != 0 ? c->conf.timeout_ms : timeout_ms[state];
}

void
client_enter(struct client *c, enum client_state state)
{
	c->state = state;
	if (timeout_ms[state] != 0)
		loop_timer_set(c->timer, patience(c, state));
	else
		loop_timer_stop(c->timer);
}

void
client_say(struct client *c, const char *fmt, ...)
{
	char line[COMMAND_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 2, fmt, ap);
	va_end(ap);
	BUG_ON(n < 0 || (size_t)n >= sizeof(line) - 2);
	BUG_ON(strpbrk(line, "\r\n") != NULL);
	memcpy(line + n, "\r\n", 2);
	reply_reset(&c->parser);
	evbuffer_add(bufferevent_get_output(c->bev), line, (size_t)n + 2);
}

void
client_say_secret(struct client *c, struct str s)
{
	reply_reset(&c->parser);
	evbuffer_add(bufferevent_get_output(c->bev), s.p, s.n);
	evbuffer_add(bufferevent_get_output(c->bev), "\r\n", 2);
}

static void
tell_end(void *arg)
{
	struct client *c = arg;

	c->ev.on_end(c->arg, c->end);
}

void
client_finish(struct client *c, enum client_end end)
{
	if (c->state == CS_END)
		return;
	if (c->bev != NULL) {
		bufferevent_disable(c->bev, EV_READ);
		/* Polite where it is legal; the answer is not awaited. */
		c->quits = (c->state > CS_STARTTLS && c->state < CS_DATA) ||
			   (c->state == CS_DOT && c->last.code != 0);
		if (c->quits)
			bufferevent_write(c->bev, QUIT_LINE, 6);
	}
	client_enter(c, CS_END);
	c->end = end;
	loop_defer(c->loop, tell_end, c);
}

/* What is still open when the connection is gone. */
static void
settle(struct client *c, bool dot_left)
{
	size_t i;

	for (i = 0; i < c->conf.rcpt_count; i++) {
		struct client_row *row = &c->rows[i];

		if (row->result == CLIENT_RCPT_TAKEN && dot_left)
			row->result = CLIENT_RCPT_UNCERTAIN;
		else if (row->result == CLIENT_RCPT_TAKEN ||
			 row->result == CLIENT_RCPT_OPEN)
			row->result = CLIENT_RCPT_DEFERRED;
		else
			continue;
		row->reply = c->last;
	}
}

void
client_broke(struct client *c, const char *why)
{
	enum client_state state = c->state;

	if (state == CS_END)
		return;
	/* With 421 the peer has said it itself. */
	if (why != c->last.text) {
		c->last = (struct reply){ .code = 0 };
		(void)snprintf(c->last.text, sizeof(c->last.text), "%s", why);
	}
	if (state == CS_HANDSHAKE && c->conf.policy == CLIENT_TLS_MAY) {
		client_finish(c, CLIENT_END_TLS);
	} else if (state < CS_MAIL) {
		client_finish(c, CLIENT_END_NEXT);
	} else {
		settle(c, state == CS_DOT);
		client_finish(c, CLIENT_END_DONE);
	}
}

static void
on_timeout(void *arg)
{
	client_broke(arg, "the next hop did not answer in time");
}

/*
 * One command, one reply: more than that would be taken for the answer to what
 * is said next. What follows STARTTLS goes with the clear connection; what
 * follows the dot's reply matters to nobody.
 */
static bool
is_ahead(const struct client *c, struct evbuffer *in)
{
	return c->state != CS_STARTTLS && c->state != CS_DOT &&
	       evbuffer_get_length(in) > 0;
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct client *c = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	enum reply_step step;
	size_t len;
	char *line;

	/* After STARTTLS `bev` is gone, with what was said in clear. */
	while (c->bev == bev && c->state != CS_END &&
	       (line = evbuffer_readln(in, &len, EVBUFFER_EOL_CRLF)) != NULL) {
		if (c->state == CS_READY || c->state == CS_GATE ||
		    c->state == CS_BODY) {
			/* Nobody asked: 421 or worse; the dot has not left. */
			free(line);
			client_broke(c, "the next hop spoke out of turn");
			return;
		}
		step = reply_line(&c->parser, (struct str){ line, len });
		free(line);
		if (step == REPLY_MALFORMED) {
			client_broke(c, "the next hop sent no SMTP reply");
		} else if (step == REPLY_READY) {
			c->last = c->parser.reply;
			reply_reset(&c->parser);
			if (is_ahead(c, in))
				client_broke(
				    c, "the next hop spoke out of turn");
			else
				client_on_reply(c);
		}
	}
	if (c->bev == bev && c->state != CS_END &&
	    evbuffer_get_length(in) > LINE_MAX_BYTES)
		client_broke(c, "the next hop sent too long a line");
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client *c = arg;
	char why[REPLY_TEXT_MAX] = "connection lost";

	(void)bev;
	if (what & BEV_EVENT_CONNECTED) {
		if (c->state == CS_CONNECT &&
		    c->conf.policy == CLIENT_TLS_WRAP) {
			client_upgrade(c);
		} else if (c->state == CS_HANDSHAKE) {
			c->is_tls = true;
			(void)snprintf(c->tls_text, sizeof(c->tls_text),
			    "%s %s%s", net_tls_version(c->bev),
			    net_tls_cipher(c->bev),
			    net_tls_is_verified(c->bev) ? " verified" : "");
			if (c->conf.policy == CLIENT_TLS_WRAP)
				client_enter(c, CS_GREETING);
			else
				client_greet(c);
		} else if (c->state == CS_CONNECT) {
			client_enter(c, CS_GREETING);
		}
		return;
	}
	if (c->state == CS_HANDSHAKE)
		net_tls_why(c->bev, why, sizeof(why));
	else if (c->state == CS_CONNECT)
		(void)snprintf(why, sizeof(why), "connect: %s",
		    evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
	client_broke(c, why);
}

/* Output has drained. */
static void
on_write(struct bufferevent *bev, void *arg)
{
	struct client *c = arg;

	(void)bev;
	if (c->state == CS_BODY)
		client_want_body(c);
}

static void
set_callbacks(struct client *c)
{
	bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, 16384);
	bufferevent_setwatermark(c->bev, EV_WRITE, 0, 0);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

/* Anything the peer said in clear after its 220 is dropped with `plain`. */
void
client_upgrade(struct client *c)
{
	enum net_tls_check check = c->conf.policy == CLIENT_TLS_MAY
				       ? NET_TLS_OPPORTUNISTIC
				       : NET_TLS_VERIFY;

	client_enter(c, CS_HANDSHAKE);
	c->bev =
	    net_tls_upgrade_client(c->conf.tls, c->bev, c->conf.host, check);
	if (c->bev == NULL) {
		client_broke(c, "TLS could not be started");
		return;
	}
	set_callbacks(c);
}

struct client *
client_start(struct loop *loop, const struct client_conf *conf,
    const struct client_events *events, void *arg)
{
	struct client *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->conf = *conf;
	c->ev = *events;
	c->arg = arg;
	c->rows = xcalloc(conf->rcpt_count + 1, sizeof(*c->rows));
	c->timer = loop_timer_new(loop, on_timeout, c);
	c->bev = bufferevent_socket_new(loop_base(loop), -1,
	    BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	BUG_ON(c->bev == NULL);
	set_callbacks(c);
	client_enter(c, CS_CONNECT);
	if (bufferevent_socket_connect(c->bev, (struct sockaddr *)&c->conf.addr,
		(int)conf->addr_len) != 0)
		client_broke(c, "connect failed");
	return c;
}

static void
ask_ready(void *arg)
{
	struct client *c = arg;

	if (c->state == CS_READY)
		c->ev.on_ready(c->arg, c->tls_text);
}

void
client_ask_ready(struct client *c)
{
	client_enter(c, CS_READY);
	loop_defer(c->loop, ask_ready, c);
}

static void
ask_body(void *arg)
{
	struct client *c = arg;

	c->asked = false;
	if (c->state == CS_BODY)
		c->ev.on_body(c->arg);
}

static void
ask_gate(void *arg)
{
	struct client *c = arg;

	if (c->state == CS_GATE)
		c->ev.on_gate(c->arg);
}

/* Ask for more when there is room; at the end, for the gate. */
void
client_want_body(struct client *c)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	loop_timer_set(c->timer, patience(c, CS_BODY));
	if (c->all_given) {
		if (evbuffer_get_length(out) > 0)
			return;
		client_enter(c, CS_GATE);
		loop_defer(c->loop, ask_gate, c);
	} else if (!c->asked && evbuffer_get_length(out) < BODY_HIGH) {
		c->asked = true;
		loop_defer(c->loop, ask_body, c);
	}
}

void
client_body(struct client *c, const char *p, size_t n)
{
	if (c->state != CS_BODY)
		return;
	if (!stuff_add(&c->stuff, bufferevent_get_output(c->bev), p, n))
		client_finish(c, CLIENT_END_BAD_BYTES);
}

void
client_more(struct client *c)
{
	if (c->state == CS_BODY)
		client_want_body(c);
}

void
client_body_end(struct client *c)
{
	if (c->state != CS_BODY)
		return;
	if (!stuff_is_complete(&c->stuff)) {
		client_finish(c, CLIENT_END_BAD_BYTES);
		return;
	}
	c->all_given = true;
	client_want_body(c);
}

void
client_dot(struct client *c, bool go)
{
	if (c->state != CS_GATE)
		return;
	if (!go) {
		settle(c, false);
		client_finish(c, CLIENT_END_NO_GO);
		return;
	}
	reply_reset(&c->parser);
	client_enter(c, CS_DOT);
	bufferevent_write(c->bev, ".\r\n", 3);
}

void
client_abort(struct client *c, const char *why)
{
	client_broke(c, why);
}

static void
on_lingered(struct bufferevent *bev, void *arg)
{
	(void)arg;
	bufferevent_free(bev);
}

static void
on_linger_event(struct bufferevent *bev, short what, void *arg)
{
	(void)what;
	(void)arg;
	bufferevent_free(bev);
}

/* Let QUIT leave, for a moment, without the session. */
static void
linger(struct bufferevent *bev)
{
	static const struct timeval patience = { LINGER_SECONDS, 0 };

	bufferevent_setcb(bev, NULL, on_lingered, on_linger_event, NULL);
	bufferevent_set_timeouts(bev, NULL, &patience);
	bufferevent_enable(bev, EV_WRITE);
}

void
client_free(struct client *c)
{
	if (c == NULL)
		return;
	loop_undefer(c->loop, tell_end, c);
	loop_undefer(c->loop, ask_ready, c);
	loop_undefer(c->loop, ask_body, c);
	loop_undefer(c->loop, ask_gate, c);
	loop_timer_free(c->timer);
	if (c->bev != NULL && c->quits &&
	    evbuffer_get_length(bufferevent_get_output(c->bev)) > 0) {
		linger(c->bev);
	} else if (c->bev != NULL) {
		net_tls_bye(c->bev);
		bufferevent_free(c->bev);
	}
	free(c->rows);
	free(c);
}

enum client_rcpt
client_result(const struct client *c, size_t i, const struct reply **reply)
{
	*reply = &c->rows[i].reply;
	return c->rows[i].result;
}

const struct reply *
client_last(const struct client *c)
{
	return &c->last;
}
