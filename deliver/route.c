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
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/str.h"
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
	bool filtered, blocked, failed, no_socket, authentic;
	unsigned holds_s; /* the least of all answers */
	enum route_status status;
	char self[ROUTE_NAME_MAX + 1];
	struct mx mx[MX_MAX];
	size_t mx_n, mx_at;
	struct route_host hosts[ROUTE_HOSTS_MAX];
	size_t n, of_host;
};

static void next_host(struct route *t);

static void
deliver(void *arg)
{
	struct route *t = arg;

	const struct route_result result = {
		.status = t->status,
		.blocked = t->blocked,
		.authentic = t->authentic,
		.hosts = t->hosts,
		.n = t->n,
		.holds_s = t->failed || t->no_socket ? 0 : t->holds_s,
	};

	if (t->done != NULL)
		t->done(t->arg, &result);
	free(t);
}

static void
finish(struct route *t, enum route_status status)
{
	t->status = status;
	loop_defer(resolver_loop(t->resolver), deliver, t);
}

/*
 * Where another address of the host goes; NULL: nowhere. However many it has
 * of one family, one of the other is tried: IPv6 may be dead as a whole.
 */
static struct route_host *
room_for(struct route *t, int family)
{
	size_t i;

	if (t->n < ROUTE_HOSTS_MAX && t->of_host < ROUTE_ADDRESSES_MAX) {
		t->of_host++;
		return &t->hosts[t->n++];
	}
	for (i = t->n - t->of_host; i < t->n; i++) {
		if (t->hosts[i].addr.ss_family == family)
			return NULL;
	}
	return t->of_host > 1 ? &t->hosts[t->n - 1] : NULL;
}

static void
add_address(struct route *t, const struct sockaddr *sa, socklen_t len)
{
	struct route_host *h;
	struct net_peer peer;
	enum route_may may;

	if (len > sizeof(h->addr))
		return;
	net_peer_init(&peer, sa);
	may = t->filtered
		  ? route_may_connect(&peer, resolver_allowed(t->resolver))
		  : ROUTE_MAY;
	t->blocked |= may == ROUTE_MAY_NOT;
	t->no_socket |= may == ROUTE_MAY_UNKNOWN;
	if (may != ROUTE_MAY)
		return;
	h = room_for(t, sa->sa_family);
	if (h == NULL)
		return;
	memcpy(&h->addr, sa, len);
	h->addr_len = len;
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)&h->addr)->sin6_port = htons(t->port);
	else
		((struct sockaddr_in *)&h->addr)->sin_port = htons(t->port);
	memcpy(h->name, t->mx[t->mx_at].name, sizeof(h->name));
	h->preference = t->mx[t->mx_at].preference;
}

/* Another answer holds for `s` seconds (RFC 2181 8: a sign means 0). */
static void
hold(struct route *t, long long s)
{
	if (s < 0 || s > INT_MAX)
		s = 0;
	if ((unsigned)s < t->holds_s)
		t->holds_s = (unsigned)s;
}

static void
on_addresses(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct route *t = arg;
	struct ares_addrinfo_node *node;
	struct ares_addrinfo_cname *alias;

	(void)timeouts;
	if (t->done == NULL || status == ARES_EDESTRUCTION) {
		ares_freeaddrinfo(info);
		free(t);
		return;
	}
	if (status != ARES_SUCCESS && status != ARES_ENOTFOUND &&
	    status != ARES_ENODATA)
		t->failed = true;
	/* How long it has none is not said here. */
	if (status != ARES_SUCCESS)
		hold(t, 0);
	for (alias = info != NULL ? info->cnames : NULL; alias != NULL;
	     alias = alias->next)
		hold(t, alias->ttl);
	for (node = info != NULL ? info->nodes : NULL; node != NULL;
	     node = node->ai_next) {
		hold(t, node->ai_ttl);
		add_address(t, node->ai_addr, node->ai_addrlen);
	}
	ares_freeaddrinfo(info);
	t->mx_at++;
	next_host(t);
}

/*
 * An address in place of a name, "localhost" or a name of one label can only
 * mean our own network; so would "2130706433" to some libraries.
 */
static bool
is_public_name(const char *name)
{
	struct str rest = str_of(name), label = { NULL, 0 };
	unsigned char ip[16];
	size_t labels = 0;

	if (inet_pton(AF_INET, name, ip) == 1 ||
	    inet_pton(AF_INET6, name, ip) == 1)
		return false;
	if (rest.n > 0 && rest.p[rest.n - 1] == '.')
		rest.n--;
	while (rest.n > 0) {
		label = str_split(&rest, '.');
		labels++;
	}
	return labels > 1 && !str_ieq(label, str_lit("localhost")) &&
	       !str_ieq(label, str_lit("local")) &&
	       !str_ieq(label, str_lit("internal")) &&
	       strspn(label.p, "0123456789") < label.n;
}

static void
next_host(struct route *t)
{
	struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };

	while (t->filtered && t->mx_at < t->mx_n &&
	       !is_public_name(t->mx[t->mx_at].name)) {
		t->blocked = true;
		t->mx_at++;
	}
	t->of_host = 0;
	if (t->mx_at < t->mx_n && t->n < ROUTE_HOSTS_MAX) {
		ares_getaddrinfo(resolver_channel(t->resolver),
		    t->mx[t->mx_at].name, NULL, &hints, on_addresses, t);
		resolver_rearm(t->resolver);
	} else if (t->n > 0) {
		finish(t, ROUTE_OK);
	} else if (t->failed) {
		finish(t, ROUTE_LATER);
	} else if (t->no_socket) {
		finish(t, ROUTE_NO_SOCKET);
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

/* The best of any number of MX, sorted; equal ones in any order. */
static void
take_mx(struct route *t, const struct ares_mx_reply *mx)
{
	struct mx *all;
	size_t n = 0;
	const struct ares_mx_reply *m;

	for (m = mx; m != NULL; m = m->next)
		n++;
	all = xcalloc(n, sizeof(*all));
	for (n = 0, m = mx; m != NULL; m = m->next, n++) {
		all[n].preference = m->priority;
		all[n].shuffle = arc4random();
		(void)snprintf(all[n].name, sizeof(all[n].name), "%s", m->host);
	}
	qsort(all, n, sizeof(all[0]), by_preference);
	t->mx_n = n < MX_MAX ? n : MX_MAX;
	memcpy(t->mx, all, t->mx_n * sizeof(t->mx[0]));
	free(all);
}

/* Ourselves and all that are not better: mail would only come back. */
static void
drop_self(struct route *t)
{
	size_t i;
	unsigned best = UINT_MAX;

	for (i = 0; i < t->mx_n; i++) {
		if (str_ieq(str_of(t->mx[i].name), str_of(t->self)) &&
		    t->mx[i].preference < best)
			best = t->mx[i].preference;
	}
	while (t->mx_n > 0 && t->mx[t->mx_n - 1].preference >= best)
		t->mx_n--;
}

static bool
mx_of(const unsigned char *p, int n, struct ares_mx_reply **out)
{
	int status = ares_parse_mx_reply(p, n, out);

	return status == ARES_SUCCESS || status == ARES_ENODATA;
}

/*
 * As long as its shortest record, or, if it has none, as the zone says of what
 * it has not (RFC 2308 5). An alias without MX behind it says neither.
 */
static void
hold_mx(struct route *t, const struct resolver_answer *a, bool has_mx)
{
	const bool none = a->status == RESOLVER_NO_DATA;
	ns_msg msg;
	ns_rr rr;
	int i, seen = 0;

	if ((!none && !has_mx) || ns_initparse(a->p, a->n, &msg) != 0) {
		hold(t, 0);
		return;
	}
	for (i = 0; i < ns_msg_count(msg, none ? ns_s_ns : ns_s_an); i++) {
		if (ns_parserr(&msg, none ? ns_s_ns : ns_s_an, i, &rr) != 0)
			break;
		if (none && (ns_rr_type(rr) != ns_t_soa ||
				ns_rr_rdlen(rr) < NS_INT32SZ))
			continue;
		seen++;
		hold(t, ns_rr_ttl(rr));
		if (none)
			hold(t, ns_get32(ns_rr_rdata(rr) + ns_rr_rdlen(rr) -
					 NS_INT32SZ));
	}
	if (seen == 0)
		hold(t, 0);
}

static void
on_mx(void *arg, const struct resolver_answer *a)
{
	struct route *t = arg;
	struct ares_mx_reply *mx = NULL;

	if (t->done == NULL || a->status == RESOLVER_OVER) {
		free(t);
		return;
	}
	t->authentic = a->is_authentic;
	if (a->status == RESOLVER_NO_NAME) {
		finish(t, ROUTE_NO_DOMAIN);
		return;
	}
	/* An alias without MX behind it is an answer without MX, too. */
	if (a->status == RESOLVER_FAILED ||
	    (a->status == RESOLVER_FOUND && !mx_of(a->p, a->n, &mx))) {
		finish(t, ROUTE_LATER);
	} else if (mx != NULL && mx->next == NULL && mx->host[0] == '\0') {
		finish(t, ROUTE_NULL_MX);
	} else {
		hold_mx(t, a, mx != NULL);
		if (mx != NULL)
			take_mx(t, mx);
		drop_self(t);
		if (t->mx_n == 0)
			finish(t, ROUTE_SELF);
		else
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
	t->holds_s = INT_MAX;
	t->mx_n = 1; /* without MX, the name itself */
	(void)snprintf(t->mx[0].name, sizeof(t->mx[0].name), "%s", name);
	return t;
}

struct route *
route_domain(struct resolver *r, const char *domain, const char *self,
    route_fn *done, void *arg)
{
	struct route *t = start(r, domain, 25, true, done, arg);

	(void)snprintf(t->self, sizeof(t->self), "%s", self);
	resolver_ask(r, domain, ns_t_mx, on_mx, t);
	return t;
}

struct route *
route_host(struct resolver *r, const char *host, unsigned short port,
    bool filtered, route_fn *done, void *arg)
{
	struct route *t = start(r, host, port, filtered, done, arg);

	next_host(t);
	return t;
}

void
route_cancel(struct route *t)
{
	if (t != NULL)
		t->done = NULL;
}

const char *
route_status_name(enum route_status status)
{
	static const char *const names[] = { [ROUTE_OK] = "ok",
		[ROUTE_LATER] = "later",
		[ROUTE_NO_DOMAIN] = "no_domain",
		[ROUTE_NULL_MX] = "null_mx",
		[ROUTE_BLOCKED] = "blocked",
		[ROUTE_SELF] = "self",
		[ROUTE_NO_SOCKET] = "no_socket" };

	return names[status];
}
