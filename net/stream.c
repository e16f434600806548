/* SPDX-License-Identifier: ISC */
/*
 * stream.c - OpenSSL and plain sockets on three events.
 *
 * Events stay registered: a pause in reading takes the read event out only
 * when bytes come meanwhile, and EV_WRITE is awaited only when the socket is
 * full. So a reply costs one write() and no epoll_ctl().
 *
 * OpenSSL reads ahead: what one read() brought may be several records, which
 * epoll does not know of. Whoever stops while SSL_has_pending() therefore arms
 * `again`, a timer of no time, which runs after the next look at all sockets.
 */
#include "net/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/xalloc.h"
#include "net/stream_internal.h"

#define PIECE 16384 /* of one read, and of one record written */
#define READ_TURN (2 * PIECE) /* of one wake-up */
#define WRITE_TURN (8 * PIECE)

enum outcome { DONE, WAIT, END, BROKEN };

static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);
static void on_again(evutil_socket_t fd, short what, void *arg);
static void on_output(
    struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg);

struct net_stream *
net_stream_new(struct event_base *base, evutil_socket_t fd)
{
	struct net_stream *s = xcalloc(1, sizeof *s);

	s->fd = fd;
	s->phase = PHASE_OPEN;
	s->in = evbuffer_new();
	s->out = evbuffer_new();
	BUG_ON(s->in == NULL || s->out == NULL ||
	       evbuffer_add_cb(s->out, on_output, s) == NULL);
	event_assign(&s->rd, base, fd, EV_READ | EV_PERSIST, on_readable, s);
	event_assign(&s->wr, base, fd, EV_WRITE, on_writable, s);
	event_assign(&s->again, base, -1, 0, on_again, s);
	return s;
}

static void
await(struct event *ev, bool *on)
{
	if (!*on)
		BUG_ON(event_add(ev, NULL) != 0);
	*on = true;
}

static void
stop_read(struct net_stream *s)
{
	if (s->rd_on)
		event_del(&s->rd);
	s->rd_on = false;
}

static void
run_again(struct net_stream *s)
{
	if (!event_pending(&s->again, EV_TIMEOUT, NULL))
		BUG_ON(event_add(&s->again, &(struct timeval){ 0 }) != 0);
}

struct net_stream *
net_stream_connect(
    struct event_base *base, const struct sockaddr *addr, size_t len)
{
	struct net_stream *s;
	int fd = socket(
	    addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return NULL;
	s = net_stream_new(base, fd);
	s->phase = PHASE_CONNECT;
	/* Also what fails at once is told from the loop. */
	if (connect(fd, addr, (socklen_t)len) != 0 && errno != EINPROGRESS)
		s->error = errno;
	if (s->error != 0)
		run_again(s);
	else
		await(&s->wr, &s->wr_on);
	return s;
}

static void
close_now(struct net_stream *s)
{
	event_del(&s->rd);
	event_del(&s->wr);
	event_del(&s->again);
	SSL_free(s->ssl);
	s->ssl = NULL;
	evutil_closesocket(s->fd);
	s->fd = -1;
}

static void
release(struct net_stream *s)
{
	evbuffer_free(s->in);
	evbuffer_free(s->out);
	free(s);
}

void
net_stream_free(struct net_stream *s)
{
	if (s == NULL || s->dead)
		return;
	close_now(s);
	s->dead = true;
	if (s->depth == 0)
		release(s);
}

void
net_stream_tell(
    struct net_stream *s, const struct net_stream_fns *fns, void *arg)
{
	s->fns = fns;
	s->arg = arg;
}

void
net_stream_read(struct net_stream *s, bool on)
{
	s->reading = on && !s->eof && s->phase != PHASE_BROKEN;
	if (!s->reading || s->phase == PHASE_CONNECT)
		return; /* the event goes when it is in the way */
	await(&s->rd, &s->rd_on);
	if (s->ssl != NULL && SSL_has_pending(s->ssl))
		run_again(s);
}

bool
net_stream_reads(const struct net_stream *s)
{
	return s->reading;
}

struct evbuffer *
net_stream_input(const struct net_stream *s)
{
	return s->in;
}

struct evbuffer *
net_stream_output(const struct net_stream *s)
{
	return s->out;
}

size_t
net_stream_output_size(const struct net_stream *s)
{
	return evbuffer_get_length(s->out);
}

void
net_stream_write(struct net_stream *s, const void *p, size_t n)
{
	BUG_ON(evbuffer_add(s->out, p, n) != 0);
}

evutil_socket_t
net_stream_fd(const struct net_stream *s)
{
	return s->fd;
}

static bool
start_tls(struct net_stream *s, SSL *ssl)
{
	BUG_ON(s->ssl != NULL);
	if (ssl == NULL || s->phase != PHASE_OPEN ||
	    evbuffer_get_length(s->out) > 0 || SSL_set_fd(ssl, s->fd) != 1) {
		SSL_free(ssl);
		return false;
	}
	evbuffer_drain(s->in, SIZE_MAX);
	SSL_set_read_ahead(ssl, 1);
	s->ssl = ssl;
	s->phase = PHASE_HANDSHAKE;
	await(&s->rd, &s->rd_on);
	return true;
}

bool
net_stream_serve_tls(struct net_stream *s, struct net_tls *tls)
{
	SSL *ssl = net_tls_ssl_server(tls);

	if (ssl != NULL)
		SSL_set_accept_state(ssl);
	return start_tls(s, ssl);
}

bool
net_stream_ask_tls(struct net_stream *s, struct net_tls *tls, const char *host,
    enum net_tls_check check, const struct net_tls_dane *dane)
{
	SSL *ssl = net_tls_ssl_client(tls, host, check, dane);

	if (ssl != NULL)
		SSL_set_connect_state(ssl);
	if (!start_tls(s, ssl))
		return false;
	run_again(s); /* the client speaks first */
	return true;
}

static void
tell(struct net_stream *s, enum net_stream_event what)
{
	if (!s->dead && s->fns != NULL)
		s->fns->event(s->arg, what);
}

static void
break_off(struct net_stream *s)
{
	s->phase = PHASE_BROKEN;
	s->reading = s->owes = false;
	stop_read(s);
	event_del(&s->wr);
	s->wr_on = false;
	tell(s, NET_STREAM_ERROR);
}

/* SSL_get_error() must not find what an earlier operation has left. */
static void
forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* What an operation of OpenSSL came to that did not succeed. */
static enum outcome
tls_outcome(struct net_stream *s, int r)
{
	switch (SSL_get_error(s->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return WAIT;
	case SSL_ERROR_WANT_WRITE:
		await(&s->wr, &s->wr_on);
		return WAIT;
	case SSL_ERROR_ZERO_RETURN:
		return END;
	default:
		s->why = ERR_peek_error();
		ERR_clear_error();
		return BROKEN;
	}
}

static void
shake_hands(struct net_stream *s)
{
	int r;

	forget_errors();
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		s->phase = PHASE_OPEN;
		s->owes = evbuffer_get_length(s->out) > 0;
		tell(s, NET_STREAM_CONNECTED);
	} else if (tls_outcome(s, r) != WAIT) {
		break_off(s);
	}
}

static enum outcome
read_tls(struct net_stream *s, void *p, size_t *n)
{
	enum outcome outcome;
	int r;

	forget_errors();
	r = SSL_read(s->ssl, p, PIECE);
	*n = r > 0 ? (size_t)r : 0;
	if (r > 0)
		return DONE;
	outcome = tls_outcome(s, r);
	s->read_wants_write = outcome == WAIT && SSL_want_write(s->ssl);
	return outcome;
}

static enum outcome
read_plain(struct net_stream *s, void *p, size_t *n)
{
	ssize_t r = recv(s->fd, p, PIECE, 0);

	*n = r > 0 ? (size_t)r : 0;
	if (r > 0)
		return DONE;
	if (r == 0)
		return END;
	return errno == EAGAIN || errno == EINTR ? WAIT : BROKEN;
}

/* Take in what there is, up to a turn's worth; tell of it, then of its end. */
static void
take_input(struct net_stream *s)
{
	unsigned char piece[PIECE];
	enum outcome outcome;
	size_t total = 0, n;
	bool more;

	do {
		outcome = s->ssl != NULL ? read_tls(s, piece, &n)
					 : read_plain(s, piece, &n);
		BUG_ON(evbuffer_add(s->in, piece, n) != 0);
		explicit_bzero(piece, n); /* it may be a key */
		total += n;
		more = outcome == DONE && s->ssl != NULL &&
		       SSL_has_pending(s->ssl);
	} while (more && total < READ_TURN);
	if (outcome == END || outcome == BROKEN) {
		s->eof = true;
		s->reading = false;
		stop_read(s);
	}
	if (total > 0 && s->fns != NULL)
		s->fns->readable(s->arg);
	if (s->dead)
		return;
	if (more)
		run_again(s);
	if (outcome == END)
		tell(s, NET_STREAM_EOF);
	else if (outcome == BROKEN)
		break_off(s);
}

static enum outcome
write_tls(struct net_stream *s, size_t *n)
{
	size_t have = evbuffer_get_length(s->out);
	unsigned char *p;
	int r;

	*n = s->retry > 0 ? s->retry : have < PIECE ? have : PIECE;
	p = evbuffer_pullup(s->out, (ev_ssize_t)*n);
	BUG_ON(p == NULL);
	s->retry = *n;
	forget_errors();
	r = SSL_write(s->ssl, p, (int)*n);
	*n = r > 0 ? (size_t)r : 0;
	if (r <= 0)
		return tls_outcome(s, r);
	s->retry = 0;
	evbuffer_drain(s->out, *n);
	return DONE;
}

static enum outcome
write_plain(struct net_stream *s, size_t *n)
{
	int r = evbuffer_write_atmost(s->out, s->fd, WRITE_TURN);

	*n = r > 0 ? (size_t)r : 0;
	if (r > 0)
		return DONE;
	if (errno != EAGAIN && errno != EINTR)
		return BROKEN;
	await(&s->wr, &s->wr_on);
	return WAIT;
}

/* Try to send, up to a turn's worth; tell when all has left. */
static void
send_output(struct net_stream *s)
{
	enum outcome outcome = DONE;
	size_t total = 0, n;

	s->owes = false;
	if (evbuffer_get_length(s->out) == 0)
		return;
	while (outcome == DONE && evbuffer_get_length(s->out) > 0) {
		if (total >= WRITE_TURN) {
			await(&s->wr, &s->wr_on);
			return;
		}
		outcome =
		    s->ssl != NULL ? write_tls(s, &n) : write_plain(s, &n);
		total += n;
	}
	if (outcome == BROKEN || outcome == END)
		break_off(s);
	else if (outcome == DONE && s->fns != NULL)
		s->fns->drained(s->arg);
}

/* End of a handler: what callbacks have written leaves now, once. */
static void
finish(struct net_stream *s)
{
	if (!s->dead && s->owes && s->phase == PHASE_OPEN && !s->wr_on)
		send_output(s);
	if (!s->dead && s->owes && s->phase == PHASE_OPEN && !s->wr_on)
		run_again(s); /* `drained` has written */
	if (--s->depth == 0 && s->dead)
		release(s);
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct net_stream *s = arg;

	(void)fd;
	(void)what;
	s->depth++;
	if (s->phase == PHASE_HANDSHAKE) {
		shake_hands(s);
		if (!s->dead && s->reading && s->phase == PHASE_OPEN &&
		    SSL_has_pending(s->ssl))
			take_input(s); /* it came along with the handshake */
	} else if (s->reading) {
		take_input(s);
	} else {
		stop_read(s);
	}
	if (s->retry > 0)
		s->owes = true;
	finish(s);
}

static void
connected(struct net_stream *s)
{
	socklen_t len = sizeof s->error;

	if (s->error == 0 &&
	    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &s->error, &len) != 0)
		s->error = errno;
	if (s->error != 0) {
		break_off(s);
		return;
	}
	s->phase = PHASE_OPEN;
	s->owes = evbuffer_get_length(s->out) > 0;
	if (s->reading)
		await(&s->rd, &s->rd_on);
	tell(s, NET_STREAM_CONNECTED);
}

/* There is room in the socket, or output that was not tried yet. */
static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct net_stream *s = arg;

	(void)fd;
	(void)what;
	s->wr_on = false;
	s->depth++;
	if (s->phase == PHASE_CONNECT) {
		connected(s);
	} else if (s->phase == PHASE_HANDSHAKE) {
		shake_hands(s);
	} else if (s->phase == PHASE_OPEN) {
		if (s->read_wants_write && s->reading)
			take_input(s);
		if (!s->dead && s->phase == PHASE_OPEN)
			s->owes = evbuffer_get_length(s->out) > 0;
	}
	finish(s);
}

static void
on_again(evutil_socket_t fd, short what, void *arg)
{
	struct net_stream *s = arg;

	(void)fd;
	(void)what;
	s->depth++;
	if (s->phase == PHASE_CONNECT)
		connected(s);
	else if (s->phase == PHASE_HANDSHAKE)
		shake_hands(s);
	else if (s->phase == PHASE_OPEN && s->reading && s->ssl != NULL &&
		 SSL_has_pending(s->ssl))
		take_input(s);
	finish(s);
}

/* Somebody has written; outside our handlers the loop is asked to try. */
static void
on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
	struct net_stream *s = arg;

	(void)out;
	if (info->n_added == 0 || s->owes || s->dead ||
	    s->phase == PHASE_BROKEN)
		return;
	s->owes = true;
	if (s->depth == 0 && s->phase == PHASE_OPEN && !s->wr_on)
		event_active(&s->wr, EV_WRITE, 0);
}
