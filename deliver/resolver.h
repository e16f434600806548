/* SPDX-License-Identifier: ISC */
/* resolver.h - c-ares on the event loop; for route.c only. */
#ifndef DELIVER_RESOLVER_H
#define DELIVER_RESOLVER_H

struct ares_channeldata;
struct loop;
struct net_cidrs;
struct resolver;

struct ares_channeldata *resolver_channel(struct resolver *r);
struct loop *resolver_loop(struct resolver *r);
const struct net_cidrs *resolver_allowed(const struct resolver *r);
/* After asking: wake up in time for c-ares' own retries. */
void resolver_rearm(struct resolver *r);

#endif
