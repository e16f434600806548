/* SPDX-License-Identifier: ISC */
/*
 * route.c - one lookup: MX, then the addresses of one host after another.
 *
 * c-ares tells which sockets it waits on; each has an event here, and one
 * timer serves them all. Its callbacks may come from inside the call that
 * asked, so every end is deferred to a clean stack.
 */
#include "deliver/route.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "deliver/resolver.h"
#include "net/peer.h"

#define MX_MAX 16

struct mx {
	unsigned preference, shuffle;
	char name[ROUTE_NAME_MAX + 1];
};

struct route {
	struct resolver *resolver;
	route_fn *done; /* NULL: cancelled, freed when c-ares lets go */
	void *arg;
	unsigned short port;
	bool filtered, blocked, failed;
	enum route_status status;
	struct mx mx[MX_MAX];
	size_t mx_n, mx_at;
	struct route_host hosts[ROUTE_HOSTS_MAX];
	size_t n;
};

static void next_host(struct route *t);

static void
deliver(void *arg)
{
	struct route *t = arg;

	if (t->done != NULL)
		t->done(t->arg, t->status, t->hosts, t->n);
	free(t);
}

static void
finish(struct route *t, enum route_status status)
{
	t->status = status;
	loop_defer(resolver_loop(t->resolver), deliver, t);
}

static void
add_address(struct route *t, const struct sockaddr *sa, socklen_t len)
{
	struct route_host *h = &t->hosts[t->n];
	struct net_peer peer;

	if (t->n == ROUTE_HOSTS_MAX || len > sizeof(h->addr))
		return;
	net_peer_init(&peer, sa);
	if (t->filtered &&
	    !route_may_connect(&peer, resolver_allowed(t->resolver))) {
		t->blocked = true;
		return;
	}
	memcpy(&h->addr, sa, len);
	h->addr_len = len;
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)&h->addr)->sin6_port = htons(t->port);
	else
		((struct sockaddr_in *)&h->addr)->sin_port = htons(t->port);
	memcpy(h->name, t->mx[t->mx_at].name, sizeof(h->name));
	t->n++;
}

static void
on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct route *t = arg;
	struct ares_addrinfo_node *node;

	(void)timeouts;
	if (t->done == NULL || status == ARES_EDESTRUCTION) {
		ares_freeaddrinfo(info);
		free(t);
		return;
	}
	if (status != ARES_SUCCESS && status != ARES_ENOTFOUND &&
	    status != ARES_ENODATA)
		t->failed = true;
	for (node = info != NULL ? info->nodes : NULL; node != NULL;
	     node = node->ai_next)
		add_address(t, node->ai_addr, node->ai_addrlen);
	ares_freeaddrinfo(info);
	t->mx_at++;
	next_host(t);
}

static void
next_host(struct route *t)
{
	struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };

	if (t->mx_at < t->mx_n && t->n < ROUTE_HOSTS_MAX) {
		ares_getaddrinfo(resolver_channel(t->resolver),
		    t->mx[t->mx_at].name, NULL, &hints, on_addresses, t);
		resolver_rearm(t->resolver);
	} else if (t->n > 0) {
		finish(t, ROUTE_OK);
	} else if (t->failed) {
		finish(t, ROUTE_LATER);
	} else {
		finish(t, t->blocked ? ROUTE_BLOCKED : ROUTE_NO_DOMAIN);
	}
}

static int
by_preference(const void *a, const void *b)
{
	const struct mx *x = a, *y = b;

	if (x->preference != y->preference)
		return x->preference < y->preference ? -1 : 1;
	return x->shuffle < y->shuffle ? -1 : x->shuffle > y->shuffle;
}

static void
take_mx(struct route *t, const struct ares_mx_reply *mx)
{
	t->mx_n = 0;
	for (; mx != NULL && t->mx_n < MX_MAX; mx = mx->next) {
		struct mx *m = &t->mx[t->mx_n++];

		m->preference = mx->priority;
		m->shuffle = arc4random();
		(void)snprintf(m->name, sizeof(m->name), "%s", mx->host);
	}
	qsort(t->mx, t->mx_n, sizeof(t->mx[0]), by_preference);
}

static void
on_mx(void *arg, int status, int timeouts, unsigned char *abuf, int alen)
{
	struct route *t = arg;
	struct ares_mx_reply *mx = NULL;

	(void)timeouts;
	if (t->done == NULL || status == ARES_EDESTRUCTION) {
		free(t);
		return;
	}
	if (status == ARES_SUCCESS)
		status = ares_parse_mx_reply(abuf, alen, &mx);
	if (status == ARES_ENOTFOUND) {
		finish(t, ROUTE_NO_DOMAIN);
	} else if (status != ARES_SUCCESS && status != ARES_ENODATA) {
		finish(t, ROUTE_LATER);
	} else if (mx != NULL && mx->next == NULL && mx->host[0] == '\0') {
		finish(t, ROUTE_NULL_MX);
	} else {
		if (mx != NULL)
			take_mx(t, mx);
		next_host(t);
	}
	ares_free_data(mx);
}

static struct route *
start(struct resolver *r, const char *name, unsigned short port, bool filtered,
    route_fn *done, void *arg)
{
	struct route *t = xcalloc(1, sizeof(*t));

	t->resolver = r;
	t->port = port;
	t->filtered = filtered;
	t->done = done;
	t->arg = arg;
	t->mx_n = 1; /* without MX, the name itself */
	(void)snprintf(t->mx[0].name, sizeof(t->mx[0].name), "%s", name);
	return t;
}

struct route *
route_domain(struct resolver *r, const char *domain, route_fn *done, void *arg)
{
	struct route *t = start(r, domain, 25, true, done, arg);

	ares_query(resolver_channel(r), domain, ns_c_in, ns_t_mx, on_mx, t);
	resolver_rearm(r);
	return t;
}

struct route *
route_host(struct resolver *r, const char *host, unsigned short port,
    route_fn *done, void *arg)
{
	struct route *t = start(r, host, port, false, done, arg);

	next_host(t);
	return t;
}

void
route_cancel(struct route *t)
{
	if (t != NULL)
		t->done = NULL;
}
