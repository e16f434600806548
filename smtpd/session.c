/* SPDX-License-Identifier: ISC */
/*
 * session.c - the life of a session, from accept to close.
 *
 *	smtpd_accept -> (TLS handshake) -> greet -> dispatch_input ...
 *	             -> session_leave -> (output gone) -> session_close -> reap
 *
 * Reading stays on while an operation runs, so that a hang-up is seen at
 * once, and is turned off only above INPUT_MAX waiting bytes. One clock runs
 * only while it is the client's turn, against an absolute deadline that no
 * trickle of bytes moves. A deadline that moves away leaves the timer as it
 * is: it looks again when it rings.
 */
#include "smtpd/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "base/xalloc.h"
#include "net/ledger.h"
#include "net/stream.h"
#include "smtpd/reply.h"

#define INPUT_MAX (64 * 1024)
#define HANDSHAKE_MS 30000
#define LINGER_MS 2000
#define LINGER_BYTES (1024 * 1024)

static void begin(struct smtpd_session *s, evutil_socket_t fd, bool implicit);
static bool spoke_early(struct smtpd_session *s);
static void greet(struct smtpd_session *s);
static void start_clock(struct smtpd_session *s, uint64_t ms);
static void on_read(void *arg);
static void input_ready(struct smtpd_session *s);
static void on_drained(void *arg);
static void on_event(void *arg, enum net_stream_event what);
static void on_handshake(struct smtpd_session *s);
static void on_clock(void *arg);
static void swap_to_tls(struct smtpd_session *s);
static void finish_leaving(struct smtpd_session *s);
static void reap(void *arg);

static const struct net_stream_fns on_stream = { on_read, on_drained,
	on_event };

void
smtpd_accept(struct smtpd *smtpd, evutil_socket_t fd,
    const struct net_peer *peer, struct net_tls *tls, bool implicit)
{
	static const char busy[] = "421 4.7.0 [too_many_errors] Too many "
				   "connections. Close some, then try "
				   "again.\r\n",
			  stopping[] = "421 4.3.2 This server is shutting "
				       "down; connect again later\r\n";
	const char *why = smtpd->drained != NULL ? stopping : busy;
	struct smtpd_session *s;
	int place = -1;

	metrics_inc(M_ACCEPTS, NULL, NULL);
	if (smtpd->drained != NULL || smtpd->count >= smtpd->set.sessions_max ||
	    (smtpd->ledger != NULL &&
		!net_ledger_enter(smtpd->ledger, smtpd->worker, peer,
		    smtpd->set.peer_max, &place))) {
		if (!implicit)
			(void)!send(
			    fd, why, strlen(why), MSG_DONTWAIT | MSG_NOSIGNAL);
		evutil_closesocket(fd);
		return;
	}
	s = xcalloc(1, sizeof *s);
	s->smtpd = smtpd;
	s->tls = tls;
	s->peer = *peer;
	s->place = place;
	s->inbox_place = -1;
	s->state = ST_CONNECTED;
	TAILQ_INSERT_TAIL(&smtpd->sessions, s, entry);
	smtpd->count++;
	smtpd_look(smtpd);
	metrics_inc(M_SESSIONS, "smtp", "0");
	begin(s, fd, implicit);
}

void
session_close(struct smtpd_session *s, const char *why)
{
	if (s->state == ST_CLOSED)
		return;
	s->state = ST_CLOSED;
	if (s->op != NULL)
		s->op_cancel(s->op);
	s->op = NULL;
	loop_timer_stop(s->clock);
	loop_timer_stop(s->pause);
	tx_free(s->tx);
	s->tx = NULL;
	net_stream_read(s->stream, false);
	net_stream_tell(s->stream, NULL, NULL);
	log_info("smtpd.close", KV("session", s->id), KV("why", why));
	loop_defer(s->smtpd->loop, reap, s);
}

void
session_leave(struct smtpd_session *s, const char *why)
{
	if ((s->state & (ST_LEAVING | ST_CLOSED)) != 0)
		return;
	s->state = ST_LEAVING;
	if (s->op != NULL)
		s->op_cancel(s->op);
	session_answered(s);
	log_debug("smtpd.close", KV("session", s->id), KV("why", why));
	tx_free(s->tx);
	s->tx = NULL;
	net_stream_read(s->stream, true);
	start_clock(s, LINGER_MS);
	if (net_stream_output_size(s->stream) == 0)
		finish_leaving(s);
}

void
session_wait(struct smtpd_session *s, const char *what, void *op,
    void (*cancel)(void *op))
{
	BUG_ON(s->waiting != NULL);
	s->waiting = what;
	s->op = op;
	s->op_cancel = cancel;
	s->deadline_ms = 0;
}

void
session_answered(struct smtpd_session *s)
{
	s->waiting = NULL;
	s->op = NULL;
}

void
session_resume(struct smtpd_session *s)
{
	if ((s->state & (ST_CLOSED | ST_LEAVING | ST_CONNECTED)) != 0)
		return;
	s->choked = false;
	net_stream_read(s->stream, true);
	session_turn(s);
	input_ready(s);
}

/* How long a client may think: less when others wait for its place. */
static uint64_t
patience_ms(const struct smtpd_session *s)
{
	const struct smtpd_settings *set = &s->smtpd->set;
	uint64_t ms = set->idle_ms, stress = set->stress_ms;

	if (s->cred != NULL)
		stress *= 3;
	return smtpd_stressed(s->smtpd) && stress < ms ? stress : ms;
}

void
session_hurry(struct smtpd_session *s)
{
	uint64_t ms = patience_ms(s);

	if ((s->state & (ST_CLOSED | ST_LEAVING)) == 0 &&
	    s->deadline_ms > clock_mono_ms() + ms)
		start_clock(s, ms);
}

void
session_turn(struct smtpd_session *s)
{
	uint64_t now = clock_mono_ms(), ms = patience_ms(s);

	if ((s->state & (ST_CLOSED | ST_LEAVING)) != 0 || s->waiting != NULL)
		return;
	if (s->tx != NULL && s->tx->deadline_ms < now + ms)
		ms = s->tx->deadline_ms > now ? s->tx->deadline_ms - now : 0;
	start_clock(s, ms);
}

void
session_pause_reading(struct smtpd_session *s)
{
	net_stream_read(s->stream, false);
}

void
session_set_state(struct smtpd_session *s, unsigned state)
{
	if ((s->state & (ST_CLOSED | ST_LEAVING)) == 0)
		s->state = state;
}

void
session_reset(struct smtpd_session *s)
{
	tx_free(s->tx);
	s->tx = NULL;
	if ((s->state & (ST_MAIL | ST_RCPT | ST_DATA)) != 0)
		session_set_state(s, ST_READY);
}

void
session_begin_tls(struct smtpd_session *s)
{
	s->upgrading = true;
	s->waiting = "tls";
	session_pause_reading(s);
	start_clock(s, HANDSHAKE_MS);
}

void
session_drain(struct smtpd_session *s)
{
	if (s->waiting == NULL && (s->state & ST_COMMANDS) != 0)
		session_expel(s);
	/* else dispatch_input() or session_expel() will see to it */
}

void
session_expel(struct smtpd_session *s)
{
	bool in_data = (s->state & ST_DATA) != 0;

	if ((in_data && s->tx->data.ended) ||
	    (!in_data && s->waiting != NULL) ||
	    (s->state & (ST_COMMANDS | ST_DATA)) == 0)
		return; /* it waits for an answer, which comes or not */
	reply_line(s, "421 4.3.2 %s is shutting down; connect again later",
	    s->smtpd->set.hostname);
	session_leave(s, "shutdown");
}

void
session_kill(struct smtpd_session *s)
{
	session_close(s, "killed");
	loop_undefer(s->smtpd->loop, reap, s);
	reap(s);
}

static void
begin(struct smtpd_session *s, evutil_socket_t fd, bool implicit)
{
	struct uuid id = uuid_v7_new();
	hex_encode(s->id, id.b + 8, 8);
	s->clock = loop_timer_new(s->smtpd->loop, on_clock, s);
	s->pause = loop_timer_new(s->smtpd->loop, auth_after_pause, s);
	log_info(
	    "smtpd.accept", KV("session", s->id), KV("peer", s->peer.text));
	s->stream = net_stream_new(loop_base(s->smtpd->loop), fd);
	net_stream_tell(s->stream, &on_stream, s);
	if (implicit && !net_stream_serve_tls(s->stream, s->tls)) {
		session_close(s, "no memory for TLS");
		return;
	}
	net_stream_read(s->stream, true);
	start_clock(s, HANDSHAKE_MS);
	if (!implicit && !spoke_early(s))
		greet(s);
}

/* RFC 5321 3.1: the client waits for the greeting, under TLS too. */
static bool
spoke_early(struct smtpd_session *s)
{
	char first[16];
	size_t n = net_stream_peek(s->stream, first, sizeof first);

	if (n > 0)
		dispatch_early(s, first, n);
	return n > 0;
}

static void
greet(struct smtpd_session *s)
{
	session_set_state(s, ST_GREETED);
	reply_line(
	    s, "220 %s %s", s->smtpd->set.hostname, s->smtpd->set.banner);
	session_turn(s);
}

static void
start_clock(struct smtpd_session *s, uint64_t ms)
{
	s->deadline_ms = clock_mono_ms() + ms;
	if (s->alarm_ms != 0 && s->alarm_ms <= s->deadline_ms)
		return; /* on_clock() sets it for the rest */
	s->alarm_ms = s->deadline_ms;
	loop_timer_set(s->clock, ms);
}

static void
on_read(void *arg)
{
	struct smtpd_session *s = arg;
	struct evbuffer *in = net_stream_input(s->stream);

	if ((s->state & ST_LEAVING) != 0) {
		s->lingered += evbuffer_get_length(in);
		evbuffer_drain(in, evbuffer_get_length(in));
		if (s->lingered > LINGER_BYTES)
			session_close(s, "left");
		return;
	}
	if (s->waiting == NULL && !s->choked && (s->state & ST_CONNECTED) == 0)
		input_ready(s);
	if ((s->state & (ST_CLOSED | ST_LEAVING)) == 0 && s->waiting != NULL &&
	    evbuffer_get_length(in) > INPUT_MAX)
		session_pause_reading(s);
}

/* The handshake, a message, or commands? */
static void
input_ready(struct smtpd_session *s)
{
	if ((s->state & ST_DATA) != 0)
		data_input(s);
	else
		dispatch_input(s);
}

static void
on_drained(void *arg)
{
	struct smtpd_session *s = arg;

	if (s->upgrading)
		swap_to_tls(s);
	else if ((s->state & ST_LEAVING) != 0)
		finish_leaving(s);
	else if (s->choked)
		session_resume(s);
}

static void
on_event(void *arg, enum net_stream_event what)
{
	struct smtpd_session *s = arg;
	char why[160];

	if (what == NET_STREAM_CONNECTED) {
		on_handshake(s);
		return;
	}
	if ((s->state & ST_CONNECTED) != 0 || s->upgrading) {
		net_stream_why(s->stream, why, sizeof why);
		log_info("smtpd.tls", KV("session", s->id), KV("why", why));
		session_close(s, "handshake failed");
	} else if ((s->state & ST_LEAVING) != 0) {
		session_close(s, "left");
	} else if (what == NET_STREAM_EOF &&
		   (s->waiting != NULL || s->choked)) {
		s->eof = true; /* half closed: what was asked is answered */
	} else {
		session_close(s, "client went away");
	}
}

static void
on_handshake(struct smtpd_session *s)
{
	bool upgraded = s->upgrading;

	s->secure = true;
	metrics_add(M_SESSIONS, -1, "smtp", "0");
	metrics_inc(M_SESSIONS, "smtp", "1");
	s->upgrading = false;
	s->waiting = NULL;
	log_info("smtpd.tls", KV("session", s->id),
	    KV("version", net_stream_version(s->stream)),
	    KV("cipher", net_stream_cipher(s->stream)));
	if (upgraded) /* RFC 3207 4.2: as after the greeting */
		session_set_state(s, ST_GREETED);
	else if (!spoke_early(s))
		greet(s);
	session_resume(s);
}

static void
on_clock(void *arg)
{
	struct smtpd_session *s = arg;
	uint64_t now = clock_mono_ms();

	s->alarm_ms = 0;
	if (s->deadline_ms == 0)
		return;
	if (s->deadline_ms > now) {
		start_clock(s, s->deadline_ms - now);
		return;
	}
	if ((s->state & ST_LEAVING) != 0)
		session_close(s, "left");
	else if ((s->state & ST_CONNECTED) != 0 || s->upgrading)
		session_close(s, "handshake too slow");
	else if (s->choked)
		session_close(s, "client does not read replies");
	else
		reply_expel(s, E_REQUEST_TIMEOUT, NULL, "%s",
		    (s->state & ST_DATA) != 0
			? "The message did not arrive in time"
			: "No command came in time");
}

/* The 220 has left: what the client sends from here on is TLS. */
static void
swap_to_tls(struct smtpd_session *s)
{
	if (evbuffer_get_length(net_stream_input(s->stream)) > 0)
		session_close(s, "bytes behind STARTTLS");
	else if (!net_stream_serve_tls(s->stream, s->tls))
		session_close(s, "no memory for TLS");
}

/* All is sent: say so, and give the client a moment to read it. */
static void
finish_leaving(struct smtpd_session *s)
{
	net_stream_bye(s->stream);
	if (s->eof)
		session_close(s, "left"); /* nobody is there to wait for */
}

static void
reap(void *arg)
{
	struct smtpd_session *s = arg;
	struct smtpd *smtpd = s->smtpd;

	net_stream_free(s->stream);
	loop_timer_free(s->clock);
	loop_timer_free(s->pause);
	if (smtpd->ledger != NULL)
		net_ledger_leave(smtpd->ledger, smtpd->worker, s->place);
	auth_forget(s);
	TAILQ_REMOVE(&smtpd->sessions, s, entry);
	smtpd->count--;
	smtpd_look(smtpd);
	metrics_add(M_SESSIONS, -1, "smtp", s->secure ? "1" : "0");
	free(s);
	if (smtpd->count == 0 && smtpd->drained != NULL)
		loop_defer(smtpd->loop, smtpd->drained, smtpd->drained_arg);
}
