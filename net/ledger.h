/* SPDX-License-Identifier: ISC */
/*
 * ledger.h - what each client address is doing, over all worker processes,
 * and how many sessions each inbox has.
 *
 * A fixed table in memory shared across fork(): open connections and recent
 * failed sign-ins per IPv4 address or IPv6 /64. It never grows; when every
 * place for an address is busy the newcomer is simply not counted. A worker
 * that dies is taken out by number with net_ledger_forget().
 */
#ifndef NET_LEDGER_H
#define NET_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_ledger;
struct net_peer;

#define NET_LEDGER_WORKERS 64

/* Made once, before fork(). NULL only without memory. */
struct net_ledger *net_ledger_new(void);
void net_ledger_free(struct net_ledger *ledger);

/*
 * Count a connection of `peer` in worker number `worker`; false when that
 * would be more than `max` (then nothing is counted). `place` is what
 * net_ledger_leave() needs, also -1 for "not counted".
 */
bool net_ledger_enter(struct net_ledger *ledger, unsigned worker,
    const struct net_peer *peer, unsigned max, int *place);
/* The same for sessions signed in as inbox number `inbox`. */
bool net_ledger_enter_inbox(struct net_ledger *ledger, unsigned worker,
    int64_t inbox, unsigned max, int *place);
void net_ledger_leave(struct net_ledger *ledger, unsigned worker, int place);

/* Worker `worker` is gone: so are its connections. */
void net_ledger_forget(struct net_ledger *ledger, unsigned worker);

/*
 * Failed sign-ins, halving every 10 minutes. _blame() adds one and returns
 * the number now; _blamed() only looks.
 */
unsigned net_ledger_blame(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms);
unsigned net_ledger_blamed(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms);

/* One that was counted did not fail. */
void net_ledger_forgive(
    struct net_ledger *ledger, const struct net_peer *peer, int64_t now_ms);
/* Seconds until fewer than `limit` are left; 0 when that is so now. */
unsigned net_ledger_wait_s(struct net_ledger *ledger,
    const struct net_peer *peer, unsigned limit, int64_t now_ms);

/*
 * How long the answer to a failed sign-in waits when `blame` have failed:
 * nothing for the first three, then a second more each time, at most ten.
 * Only failures wait, so that nobody can lock the rightful agent out.
 */
unsigned net_ledger_pause_ms(unsigned blame);
/* From so many on, HTTP says 429. */
#define NET_LEDGER_TOO_MANY 20

#endif
