/* SPDX-License-Identifier: ISC */
/*
 * listen.c - one evconnlistener with a spare descriptor.
 *
 * At EMFILE the kernel keeps the connection queued and the socket readable:
 * a plain loop would spin. The spare descriptor is given up for one accept,
 * the connection is closed, and accepting pauses for a moment.
 */
#include "net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/listener.h>

#include "base/err.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "net/peer.h"

#define BACKLOG 1024
#define PAUSE_US 100000

struct net_listener {
	struct evconnlistener *ev;
	struct event *resume;
	net_accept_fn *accept;
	void *arg;
	int spare_fd;
};

static bool split(const char *where, char *host, size_t size, char *port);
static int bind_one(const struct addrinfo *ai, bool shared);
static void on_accept(struct evconnlistener *ev, evutil_socket_t fd,
    struct sockaddr *addr, int len, void *arg);
static void on_error(struct evconnlistener *ev, void *arg);
static void on_resume(evutil_socket_t fd, short what, void *arg);

evutil_socket_t
net_bind(const char *where, bool shared, struct err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char host[128], port[8];
	int fd, rc;

	if (!split(where, host, sizeof host, port)) {
		err_set(err, 0, "\"%s\": want address:port", where);
		return -1;
	}
	rc = getaddrinfo(
	    strcmp(host, "*") == 0 ? "::" : host, port, &hints, &list);
	if (rc != 0) {
		err_set(err, 0, "\"%s\": %s", where, gai_strerror(rc));
		return -1;
	}
	fd = bind_one(list, shared);
	if (fd < 0 && errno == EAFNOSUPPORT && strcmp(host, "*") == 0) {
		freeaddrinfo(list); /* a machine without IPv6 */
		if (getaddrinfo("0.0.0.0", port, &hints, &list) != 0)
			return -1;
		fd = bind_one(list, shared);
	}
	if (fd < 0)
		err_set(err, errno, "cannot listen on %s: %s", where,
		    strerror(errno));
	freeaddrinfo(list);
	return fd;
}

void
net_bound_name(evutil_socket_t fd, char *text, size_t size)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;
	struct net_peer peer;

	memset(&addr, 0, sizeof addr);
	getsockname(fd, (struct sockaddr *)&addr, &len);
	net_peer_init(&peer, (struct sockaddr *)&addr);
	evutil_snprintf(text, size,
	    strchr(peer.text, ':') != NULL ? "[%s]:%u" : "%s:%u", peer.text,
	    (unsigned)peer.port);
}

struct net_listener *
net_listener_new(struct event_base *base, evutil_socket_t fd,
    net_accept_fn *accept, void *arg)
{
	struct net_listener *l = xcalloc(1, sizeof *l);

	l->accept = accept;
	l->arg = arg;
	l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	l->resume = evtimer_new(base, on_resume, l);
	l->ev = evconnlistener_new(base, on_accept, l,
	    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	BUG_ON(l->resume == NULL || l->ev == NULL);
	evconnlistener_set_error_cb(l->ev, on_error);
	return l;
}

void
net_listener_free(struct net_listener *l)
{
	if (l == NULL)
		return;
	evconnlistener_free(l->ev);
	event_free(l->resume);
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	free(l);
}

static bool
split(const char *where, char *host, size_t size, char *port)
{
	const char *colon = strrchr(where, ':'), *end = colon;
	size_t n;

	if (colon == NULL || strlen(colon + 1) == 0 || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	if (*where == '[') {
		where++;
		end--;
		if (end < where || *end != ']')
			return false;
	} else if (memchr(where, ':', (size_t)(colon - where)) != NULL) {
		return false; /* IPv6 wants its brackets */
	}
	n = (size_t)(end - where);
	if (n == 0 || n >= size)
		return false;
	memcpy(host, where, n);
	host[n] = '\0';
	memcpy(port, colon + 1, strlen(colon + 1) + 1);
	return true;
}

static int
bind_one(const struct addrinfo *ai, bool shared)
{
	int fd, one = 1, zero = 0, saved;

	fd = socket(
	    ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
	if ((shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one,
			   sizeof one) != 0) ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 ||
	    listen(fd, BACKLOG) != 0) {
		saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static void
on_accept(struct evconnlistener *ev, evutil_socket_t fd, struct sockaddr *addr,
    int len, void *arg)
{
	struct net_listener *l = arg;
	struct net_peer peer;

	(void)ev;
	(void)len;
	net_peer_init(&peer, addr);
	l->accept(l->arg, fd, &peer);
}

static void
on_error(struct evconnlistener *ev, void *arg)
{
	struct net_listener *l = arg;
	struct timeval pause = { 0, PAUSE_US };
	int why = EVUTIL_SOCKET_ERROR(), fd;

	log_warn("net.accept", KV("why", evutil_socket_error_to_string(why)));
	if ((why == EMFILE || why == ENFILE) && l->spare_fd >= 0) {
		close(l->spare_fd);
		fd = accept(evconnlistener_get_fd(ev), NULL, NULL);
		if (fd >= 0)
			close(fd);
		l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	evconnlistener_disable(ev);
	evtimer_add(l->resume, &pause);
}

static void
on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct net_listener *l = arg;

	(void)fd;
	(void)what;
	if (l->spare_fd < 0)
		l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	evconnlistener_enable(l->ev);
}
