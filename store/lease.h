/* SPDX-License-Identifier: ISC */
/*
 * lease.h - room that a busy inbox was charged for ahead, and what is left
 * of it. Pure: asks nobody, has no clock; times are clock_mono_ms() of the
 * caller, `at` is Redis's time of a charge.
 *
 * A charge for a message of a busy inbox asks for some more; those that
 * follow are taken from that without asking. The charge counts in the bucket
 * of its `at`, and a lease ends before Redis's clock can be in the next
 * bucket, so each message counts in the bucket in which it is sent, as if it
 * had been charged for itself: no rolling window ever holds more than its
 * limit. What is not used goes back to that bucket.
 *
 * A draft is no message: nothing is charged ahead for it or taken for it.
 *
 * What the limiter does not decide is not touched: key, pauses, mode, day and
 * month are checked by PostgreSQL with each message.
 *
 * A process that dies takes its leases with it: at most LEASE_MESSAGES of
 * room an inbox, at most 1/LEASE_SHARE of what it had, count as sent until
 * they leave their windows.
 */
#ifndef STORE_LEASE_H
#define STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/limit.h"

#define LEASE_MAX 1024 /* inboxes watched; the least recently used goes */
#define LEASE_FIRST 2 /* messages; twice as many whenever all were used */
#define LEASE_MESSAGES 16
#define LEASE_SHARE 100 /* part of the known room: none below 100 */
#define LEASE_BUSY_MS 100 /* since the inbox's last message */
#define LEASE_LIFE_MS 1000
#define LEASE_GUARD_MS 50 /* before the bucket ends */
#define LEASE_PAUSE_MS 10000 /* none after a refusal */
#define LEASE_BUCKET_MS 300000 /* the narrowest of the windows' buckets */

struct leases;

/* What is left of a lease that ends, to be given back with its `at`. */
typedef void lease_back_fn(void *arg, const struct limit_inbox *inbox,
    const struct limit_cost *rest, int64_t at);

struct leases *leases_new(lease_back_fn *back, void *arg);
/* Gives nothing back: leases_stop() does. NULL is fine. */
void leases_free(struct leases *t);
/* All end now, */
void leases_drop(struct leases *t);
/* and there are no new ones. */
void leases_stop(struct leases *t);
/* When the next one ends; 0 = there is none. */
uint64_t leases_next(const struct leases *t);
/* End those whose time is over. */
void leases_expire(struct leases *t, uint64_t now);

/* Is the message covered? Then it is taken and *a is its answer; the name of
 * the window is the caller's to fill in, from the window returned. -1: no. */
int lease_take(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, uint64_t now, struct limit_answer *a);
/* Redis will be asked for this message: *more is what to ask for beside it,
 * often nothing. Then one of the three that follow. */
void lease_ask(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, uint64_t now, struct limit_cost *more);
/* Allowed. `window` is the tightest, -1 = none; the call was sent at `sent`. */
void lease_allowed(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more, int window, const struct limit_answer *a,
    uint64_t sent, uint64_t now);
/* Refused. True: perhaps for what is leased, which has been given back; ask
 * once more for exactly the message. */
bool lease_refused(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more, uint64_t now);
/* Nobody knows. */
void lease_unknown(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more);

/* Take a charge of `at` back into the lease, if it belongs there. */
bool lease_give(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, int64_t at, uint64_t now);
/* How much of a window is charged and not used. */
int64_t lease_rest(
    const struct leases *t, const struct limit_inbox *inbox, int window);

#endif
