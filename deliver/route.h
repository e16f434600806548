/* SPDX-License-Identifier: ISC */
/*
 * route.h - where mail for a domain goes: MX and addresses, by c-ares.
 *
 * RFC 5321 5.1: MX by preference, equal ones shuffled, the domain itself when
 * there is no MX; RFC 7505: "MX 0 ." takes no mail. A host must be a name of
 * more than one label, and no address. Every address is checked
 * here and connected to as it is, so a name cannot change in between; private
 * and special networks are refused unless the operator named them.
 */
#ifndef DELIVER_ROUTE_H
#define DELIVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct conf;
struct err;
struct loop;
struct net_peer;
struct net_cidrs;
struct resolver;
struct route;

#define ROUTE_HOSTS_MAX 8
#define ROUTE_ADDRESSES_MAX 3 /* of one host, so that others get their turn */
#define ROUTE_NAME_MAX 255

struct route_host {
	char name[ROUTE_NAME_MAX + 1];
	unsigned preference; /* of its MX */
	struct sockaddr_storage addr;
	socklen_t addr_len;
};

enum route_status {
	ROUTE_OK,
	ROUTE_LATER, /* the resolver did not answer: 4.4.3 */
	ROUTE_NO_DOMAIN, /* no such domain, or nothing there: 5.1.2 */
	ROUTE_NULL_MX, /* the domain takes no mail: 5.1.10 */
	ROUTE_BLOCKED, /* only hosts that are not allowed: 5.4.4 */
	ROUTE_SELF, /* we are its best host: 5.4.6 */
	ROUTE_NO_SOCKET, /* no host could be judged for want of one: 4.3.0 */
};

struct route_result {
	enum route_status status;
	bool blocked; /* some host or address was not allowed */
	bool authentic; /* the MX, or that there is none, by DNSSEC */
	const struct route_host *hosts; /* in the order to try them */
	size_t n;
	unsigned holds_s; /* with ROUTE_OK: so long, says DNS; 0: not known */
};

typedef void route_fn(void *arg, const struct route_result *result);

enum resolver_kind {
	RESOLVER_DOMAINS, /* recipients' domains: DNS alone, names as given */
	RESOLVER_HOSTS, /* hosts an operator named: also /etc/hosts */
};

struct resolver *resolver_new(struct loop *loop, const struct conf *conf,
    enum resolver_kind kind, struct err *err);
/* Open lookups are dropped. NULL is fine. */
void resolver_free(struct resolver *r);

/*
 * Asks DNS each time; routes.h remembers. `done` comes once, later, unless
 * cancelled. Port 25. `self` is our name: as an MX it and all that are worse
 * are left out (RFC 5321 5.1).
 */
struct route *route_domain(struct resolver *r, const char *domain,
    const char *self, route_fn *done, void *arg);
/* A host an operator named; `filtered`: by what a domain's own would be. */
struct route *route_host(struct resolver *r, const char *host,
    unsigned short port, bool filtered, route_fn *done, void *arg);
void route_cancel(struct route *route);

/* A word for metrics. */
const char *route_status_name(enum route_status status);

enum route_may {
	ROUTE_MAY,
	ROUTE_MAY_NOT,
	ROUTE_MAY_UNKNOWN, /* there was no socket to find out with */
};

/* May the worker connect there? `allowed` are exceptions by the operator. */
enum route_may route_may_connect(
    const struct net_peer *peer, const struct net_cidrs *allowed);

#endif
