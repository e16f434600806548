/* SPDX-License-Identifier: ISC */
/* server.c - listening, caps, draining. */
#include "http/server.h"

#include <stdlib.h>

#include <event2/event.h>

#include "base/xalloc.h"
#include "http/conn.h"
#include "net/ledger.h"
#include "net/listen.h"
#include "net/peer.h"
#include "net/proxy.h"
#include "net/stream.h"

#define PROXY_MS 10000

static void on_drained(evutil_socket_t fd, short what, void *arg);
static void on_accept(
    void *arg, evutil_socket_t fd, const struct net_peer *peer);

static void
set_default(unsigned *v, unsigned value)
{
	if (*v == 0)
		*v = value;
}

struct http_server *
http_server_new(struct event_base *base, const struct http_conf *conf)
{
	struct http_server *s = xcalloc(1, sizeof(*s));

	s->base = base;
	s->conf = *conf;
	set_default(&s->conf.connections_max, 1000);
	set_default(&s->conf.connections_per_peer, 100);
	set_default(&s->conf.head_ms, 10000);
	set_default(&s->conf.idle_ms, 60000);
	set_default(&s->conf.body_ms, 30000);
	set_default(&s->conf.handler_ms, 60000);
	set_default(&s->conf.write_ms, 30000);
	set_default(&s->conf.requests_max, 1000);
	TAILQ_INIT(&s->conns);
	TAILQ_INIT(&s->listeners);
	s->drained = event_new(base, -1, 0, on_drained, s);
	BUG_ON(s->drained == NULL);
	return s;
}

void
http_server_listen(struct http_server *server, evutil_socket_t fd)
{
	struct http_listen *l = xcalloc(1, sizeof(*l));

	l->listener = net_listener_new(server->base, fd, on_accept, server);
	TAILQ_INSERT_TAIL(&server->listeners, l, link);
}

/* False: its address has as many as it may. */
static bool
enter(const struct http_conf *conf, const struct net_peer *peer, int *place)
{
	*place = -1;
	if (conf->ledger == NULL ||
	    (conf->local_is_many && net_peer_is_local(peer)))
		return true;
	return net_ledger_enter(conf->ledger, conf->worker, peer,
	    conf->connections_per_peer, place);
}

void
http_server_accept(
    struct http_server *server, evutil_socket_t fd, const struct net_peer *peer)
{
	const struct http_conf *conf = &server->conf;
	struct net_stream *io;
	int place;

	if (server->draining || server->conns_n >= conf->connections_max ||
	    !enter(conf, peer, &place)) {
		evutil_closesocket(fd);
		return;
	}
	io = net_stream_new(server->base, fd);
	if (conf->tls == NULL || net_stream_serve_tls(io, conf->tls)) {
		http_conn_start(server, io, peer, place);
		return;
	}
	net_stream_free(io);
	if (conf->ledger != NULL)
		net_ledger_leave(conf->ledger, conf->worker, place);
}

static void
on_proxied(void *arg, evutil_socket_t fd, const struct net_peer *peer)
{
	if (fd >= 0)
		http_server_accept(arg, fd, peer);
}

static void
on_accept(void *arg, evutil_socket_t fd, const struct net_peer *peer)
{
	struct http_server *s = arg;

	if (s->conf.proxy_from != NULL &&
	    net_cidrs_has(s->conf.proxy_from, peer))
		net_proxy_start(s->base, fd, peer, PROXY_MS, on_proxied, s);
	else
		http_server_accept(s, fd, peer);
}

void
http_server_forget(struct http_conn *c)
{
	struct http_server *s = c->server;

	TAILQ_REMOVE(&s->conns, c, link);
	s->conns_n--;
	if (s->conf.ledger != NULL)
		net_ledger_leave(s->conf.ledger, s->conf.worker, c->place);
	if (s->draining && s->conns_n == 0)
		event_active(s->drained, EV_READ, 0);
}

static void
close_listeners(struct http_server *s)
{
	struct http_listen *l;

	while ((l = TAILQ_FIRST(&s->listeners)) != NULL) {
		TAILQ_REMOVE(&s->listeners, l, link);
		net_listener_free(l->listener);
		free(l);
	}
}

void
http_server_drain(
    struct http_server *server, void (*done)(void *arg), void *arg)
{
	struct http_conn *c, *next;

	server->draining = true;
	server->drain_done = done;
	server->drain_arg = arg;
	close_listeners(server);
	TAILQ_FOREACH_SAFE(c, &server->conns, link, next)
		if (c->phase == HTTP_PHASE_IDLE)
			http_conn_close(c, "drain");
	if (server->conns_n == 0)
		event_active(server->drained, EV_READ, 0);
}

static void
on_drained(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;
	void (*done)(void *) = s->drain_done;

	(void)fd;
	(void)what;
	s->drain_done = NULL;
	if (done != NULL)
		done(s->drain_arg); /* may free the server */
}

unsigned
http_server_connections(const struct http_server *server)
{
	return server->conns_n;
}

void
http_server_free(struct http_server *server)
{
	struct http_conn *c;

	if (server == NULL)
		return;
	close_listeners(server);
	while ((c = TAILQ_FIRST(&server->conns)) != NULL) {
		http_conn_close(c, "server ends");
		http_conn_free(c);
	}
	event_free(server->drained);
	free(server);
}
