/* SPDX-License-Identifier: ISC */
/*
 * client.c - the life of a session: connecting, TLS, bytes in and out, time,
 * and its one end. What a reply means is in client_step.c.
 */
#include "deliver/client.h"

#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/client_internal.h"
#include "net/stream.h"

#define LINE_MAX_BYTES 2048
#define COMMAND_MAX 2048
#define BODY_HIGH 262144
#define CONNECT_MS 30000
#define LINGER_MS 2000
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
	[CS_RSET] = 120000,
	[CS_BODY] = 180000,
	[CS_DOT] = 600000,
};

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
	net_stream_write(c->stream, line, (size_t)n + 2);
}

void
client_say_secret(struct client *c, struct str s)
{
	reply_reset(&c->parser);
	net_stream_write(c->stream, s.p, s.n);
	net_stream_write(c->stream, "\r\n", 2);
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
	if (c->stream != NULL) {
		net_stream_read(c->stream, false);
		c->keeps =
		    end == CLIENT_END_DONE && c->state == CS_DOT &&
		    c->last.code != 0 && c->last.code != 421 &&
		    evbuffer_get_length(net_stream_input(c->stream)) == 0;
		/* Polite where it is legal; the answer is not awaited. */
		c->quits = (c->state > CS_STARTTLS && c->state < CS_DATA) ||
			   c->state == CS_RSET ||
			   (c->state == CS_DOT && c->last.code != 0);
		/* Behind a DATA that is not answered it would be text. */
		c->quits = c->quits && !c->keeps && c->owed == 0;
		if (c->quits)
			net_stream_write(c->stream, QUIT_LINE, 6);
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

/*
 * Also after our end of the handshake: with TLS 1.3 the peer's no to it comes
 * behind, in place of all else. That we gave up ourselves says nothing.
 */
static bool
tls_failed(const struct client *c)
{
	if (c->state == CS_HANDSHAKE)
		return !c->aborted;
	return c->state == CS_EHLO && c->is_tls && c->lost &&
	       c->parser.lines == 0 &&
	       evbuffer_get_length(net_stream_input(c->stream)) == 0;
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
	if (state == CS_RSET) {
		client_finish(c, CLIENT_END_UNSURE);
	} else if (c->reused && (state == CS_READY || state == CS_MAIL)) {
		client_finish(c, CLIENT_END_STALE);
	} else if (c->conf.policy == CLIENT_TLS_MAY && tls_failed(c)) {
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
 * One command, one reply, also in a group: more than that would be taken for
 * the answer to what is said next. What follows STARTTLS goes with the clear
 * connection; what follows the dot's reply matters to nobody.
 */
static bool
is_ahead(const struct client *c, struct evbuffer *in)
{
	return c->state != CS_STARTTLS && c->state != CS_DOT && c->owed == 0 &&
	       evbuffer_get_length(in) > 0;
}

/*
 * A peer that writes its replies one by one may hold the second back until the
 * first is acknowledged (Nagle), which the kernel would put off by 40 ms, as
 * there is nothing for us to say meanwhile.
 */
static void
acknowledge(struct client *c)
{
	int one = 1;

	if (c->state != CS_END && (c->owed > 0 || c->parser.lines > 0))
		(void)setsockopt(net_stream_fd(c->stream), IPPROTO_TCP,
		    TCP_QUICKACK, &one, sizeof(one));
}

static void
on_read(void *arg)
{
	struct client *c = arg;
	struct evbuffer *in = net_stream_input(c->stream);
	enum reply_step step;
	size_t len;
	char *line;

	/* After STARTTLS what was said in clear is gone. */
	while (c->state != CS_END &&
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
			c->owed -= c->owed > 0;
			if (is_ahead(c, in) && c->grouped)
				client_finish(c, CLIENT_END_UNSURE);
			else if (is_ahead(c, in))
				client_broke(
				    c, "the next hop spoke out of turn");
			else
				client_on_reply(c);
		}
	}
	if (c->state != CS_END && evbuffer_get_length(in) > LINE_MAX_BYTES)
		client_broke(c, "the next hop sent too long a line");
	acknowledge(c);
}

static void
on_event(void *arg, enum net_stream_event what)
{
	struct client *c = arg;
	char why[REPLY_TEXT_MAX] = "connection lost";

	if (what == NET_STREAM_CONNECTED) {
		if (c->state == CS_CONNECT &&
		    c->conf.policy == CLIENT_TLS_WRAP) {
			client_upgrade(c);
		} else if (c->state == CS_HANDSHAKE) {
			c->is_tls = true;
			c->verified = net_stream_is_verified(c->stream);
			(void)snprintf(c->tls_text, sizeof(c->tls_text),
			    "%s %s%s", net_stream_version(c->stream),
			    net_stream_cipher(c->stream),
			    c->verified ? " verified" : "");
			if (c->conf.policy == CLIENT_TLS_WRAP)
				client_enter(c, CS_GREETING);
			else
				client_greet(c);
		} else if (c->state == CS_CONNECT) {
			client_enter(c, CS_GREETING);
		}
		return;
	}
	c->lost = true;
	if (c->state == CS_HANDSHAKE || tls_failed(c)) {
		net_stream_why(c->stream, why, sizeof(why));
	} else if (c->state == CS_CONNECT) {
		(void)snprintf(why, sizeof(why), "connect: ");
		net_stream_why(c->stream, why + 9, sizeof(why) - 9);
	}
	client_broke(c, why);
}

static void
on_drained(void *arg)
{
	struct client *c = arg;

	if (c->state == CS_BODY)
		client_want_body(c);
}

static const struct net_stream_fns on_stream = { on_read, on_drained,
	on_event };

/* Anything the peer said in clear after its 220 is dropped. */
void
client_upgrade(struct client *c)
{
	enum net_tls_check check = NET_TLS_VERIFY;

	if (c->conf.policy == CLIENT_TLS_DANE)
		check = NET_TLS_DANE;
	else if (c->conf.policy == CLIENT_TLS_MAY ||
		 c->conf.policy == CLIENT_TLS_ENCRYPT)
		check = NET_TLS_OPPORTUNISTIC;
	client_enter(c, CS_HANDSHAKE);
	if (!net_stream_ask_tls(
		c->stream, c->conf.tls, c->conf.host, check, &c->dane))
		client_broke(c, "TLS could not be started");
}

static bool
connect_new(struct client *c)
{
	int one = 1;

	c->conn = xcalloc(1, sizeof(*c->conn));
	c->conn->loop = c->loop;
	c->conn->began_ms = clock_mono_ms();
	client_enter(c, CS_CONNECT);
	c->stream = net_stream_connect(loop_base(c->loop),
	    (struct sockaddr *)&c->conf.addr, c->conf.addr_len);
	c->conn->stream = c->stream;
	/* A dot behind a body would wait for the peer's delayed ACK. */
	if (c->stream != NULL)
		(void)setsockopt(net_stream_fd(c->stream), IPPROTO_TCP,
		    TCP_NODELAY, &one, sizeof(one));
	return c->stream != NULL;
}

static void
go_on(struct client *c, struct client_conn *conn)
{
	c->conn = conn;
	c->stream = conn->stream;
	c->reused = true;
	c->ehlo = conn->ehlo;
	c->is_tls = conn->is_tls;
	c->verified = conn->verified;
	memcpy(c->tls_text, conn->tls_text, sizeof(c->tls_text));
	client_ask_ready(c);
}

struct client *
client_start(struct loop *loop, const struct client_conf *conf,
    struct client_conn *conn, const struct client_events *events, void *arg)
{
	struct client *c = xcalloc(1, sizeof(*c));

	c->loop = loop;
	c->conf = *conf;
	if (conf->dane != NULL)
		c->dane = *conf->dane;
	c->ev = *events;
	c->arg = arg;
	c->rows = xcalloc(conf->rcpt_count + 1, sizeof(*c->rows));
	c->timer = loop_timer_new(loop, on_timeout, c);
	if (conn != NULL) {
		go_on(c, conn);
	} else if (!connect_new(c)) {
		client_broke(c, "connect: no socket");
		return c;
	}
	net_stream_tell(c->stream, &on_stream, c);
	net_stream_read(c->stream, true);
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
	size_t waits = net_stream_output_size(c->stream);

	loop_timer_set(c->timer, patience(c, CS_BODY));
	if (c->all_given) {
		if (waits > 0)
			return;
		client_enter(c, CS_GATE);
		loop_defer(c->loop, ask_gate, c);
	} else if (!c->asked && waits < BODY_HIGH) {
		c->asked = true;
		loop_defer(c->loop, ask_body, c);
	}
}

void
client_body(struct client *c, const char *p, size_t n)
{
	if (c->state != CS_BODY)
		return;
	if (!stuff_add(&c->stuff, net_stream_output(c->stream), p, n))
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
	net_stream_write(c->stream, ".\r\n", 3);
}

void
client_abort(struct client *c, const char *why)
{
	c->aborted = true;
	client_broke(c, why);
}

/* A stream that outlives its session for a moment, so that QUIT can leave. */
struct farewell {
	struct net_stream *stream;
	struct loop_timer *timer;
};

static void
end_farewell(void *arg)
{
	struct farewell *f = arg;

	net_stream_free(f->stream);
	loop_timer_free(f->timer);
	free(f);
}

static void
on_farewell_event(void *arg, enum net_stream_event what)
{
	(void)what;
	end_farewell(arg);
}

static void
linger(struct loop *loop, struct net_stream *stream)
{
	static const struct net_stream_fns fns = { end_farewell, end_farewell,
		on_farewell_event };
	struct farewell *f = xcalloc(1, sizeof(*f));

	f->stream = stream;
	f->timer = loop_timer_new(loop, end_farewell, f);
	loop_timer_set(f->timer, LINGER_MS);
	net_stream_tell(stream, &fns, f);
}

struct client_conn *
client_detach(struct client *c)
{
	struct client_conn *conn = c->conn;

	if (!c->keeps)
		return NULL;
	conn->ehlo = c->ehlo;
	conn->is_tls = c->is_tls;
	conn->verified = c->verified;
	memcpy(conn->tls_text, c->tls_text, sizeof(conn->tls_text));
	conn->messages++;
	c->conn = NULL;
	c->stream = NULL;
	return conn;
}

static void
close_stream(struct client_conn *conn, bool quits)
{
	if (conn->stream != NULL && quits &&
	    net_stream_output_size(conn->stream) > 0) {
		linger(conn->loop, conn->stream);
	} else if (conn->stream != NULL) {
		net_stream_bye(conn->stream);
		net_stream_free(conn->stream);
	}
	free(conn);
}

void
client_conn_close(struct client_conn *conn)
{
	net_stream_write(conn->stream, QUIT_LINE, 6);
	close_stream(conn, true);
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
	if (c->conn != NULL && c->keeps)
		client_conn_close(c->conn);
	else if (c->conn != NULL)
		close_stream(c->conn, c->quits);
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

bool
client_passes_dsn(const struct client *c)
{
	return c->ehlo.dsn;
}

bool
client_is_verified(const struct client *c)
{
	return c->verified;
}
