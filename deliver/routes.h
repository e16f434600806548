/* SPDX-License-Identifier: ISC */
/*
 * routes.h - where mail goes, asked of DNS once for all who want to know, and
 * known as long as the answers say (RFC 1035 3.2.1), though no longer than
 * ROUTES_KEEP_S. Only what was found is known: a name that is missing, fails
 * or is refused is asked for each time. What answers to a name of
 * route_host() holds as long, those of /etc/hosts not at all.
 */
#ifndef DELIVER_ROUTES_H
#define DELIVER_ROUTES_H

#include <stdbool.h>

#include "deliver/route.h"

#define ROUTES_KEEP_S 60
#define ROUTES_MAX 1024 /* those known longest are forgotten first */

struct loop;
struct resolver;
struct routes;
struct routes_asker;

/*
 * Both are borrowed: `domains` for recipients' domains, `hosts` for hosts that
 * an operator named.
 */
struct routes *routes_new(
    struct loop *loop, struct resolver *domains, struct resolver *hosts);
/* Who asks has been told or has cancelled; before the resolvers. NULL is fine.
 */
void routes_free(struct routes *s);
/* All is asked anew from now on. */
void routes_forget(struct routes *s);

/*
 * As route_domain() and route_host(): `done` comes once, later, unless
 * cancelled. MX of equal preference are in an order of their own for each who
 * asks (RFC 5321 5.1).
 */
struct routes_asker *routes_domain(struct routes *s, const char *domain,
    const char *self, route_fn *done, void *arg);
struct routes_asker *routes_host(struct routes *s, const char *host,
    unsigned short port, bool filtered, route_fn *done, void *arg);
/* Not from inside `done` for the one that is told. NULL is fine. */
void routes_cancel(struct routes_asker *a);

#endif
