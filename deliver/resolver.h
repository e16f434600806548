/* SPDX-License-Identifier: ISC */
/* resolver.h - c-ares on the event loop; for route.c, tlsa.c and sts.c. */
#ifndef DELIVER_RESOLVER_H
#define DELIVER_RESOLVER_H

#include <stdbool.h>

struct ares_channeldata;
struct loop;
struct net_cidrs;
struct resolver;

struct ares_channeldata *resolver_channel(struct resolver *r);
struct loop *resolver_loop(struct resolver *r);
const struct net_cidrs *resolver_allowed(const struct resolver *r);

enum resolver_status {
	RESOLVER_FOUND,
	RESOLVER_NO_NAME, /* NXDOMAIN */
	RESOLVER_NO_DATA, /* the name has nothing of this type */
	RESOLVER_FAILED, /* no answer, or none that says anything */
	RESOLVER_OVER, /* the resolver goes away: free what `arg` is */
};

struct resolver_answer {
	enum resolver_status status;
	/* DNSSEC says so, whether there is something or not; only with
	 * deliver.dane. */
	bool is_authentic;
	const unsigned char *p; /* the packet, for ares_parse_*() */
	int n;
};

typedef void resolver_fn(void *arg, const struct resolver_answer *a);

/* `done` comes once, perhaps from inside this call. `type`: ns_t_... */
void resolver_ask(struct resolver *r, const char *name, int type,
    resolver_fn *done, void *arg);
/* After asking: wake up in time for c-ares' own retries. */
void resolver_rearm(struct resolver *r);

#endif
