/* SPDX-License-Identifier: ISC */
/*
 * relay_set.h - calls that many leases make at about the same time go to the
 * database as one (store/migrations/0016_sets.sql, decision 0047).
 *
 * Each kind of call has a lane. A call that finds the lanes at rest goes at
 * once and alone; a fetch as a set of one, which asks the gate as well (0100).
 * Of a lane one call is under way at a time; dots go at once, as sessions wait
 * for them, and of the other lanes two at a time. Those that come meanwhile go
 * together when it is back. So nothing that a session waits for waits for
 * company; results do for a few milliseconds, while there is other work (0101).
 * What the set was not done for is asked for once more, in case another had it
 * locked, and then alone. Calls of two lanes that change one message wait for
 * each other here, not in the database (0132). Messages that were fetched are
 * handed on one by one, when nothing else is due (0129).
 */
#ifndef STORE_RELAY_SET_H
#define STORE_RELAY_SET_H

#include "store/relay_internal.h"

/* Recipients of one lease that go in a set; more go alone. */
#define RELAY_SET_RCPTS 16

/*
 * Hand `op`, whose single call is `sql` with the values in `single` (taken),
 * to its lane. `item` is copied. The answer comes as from the single call.
 */
void relay_join(struct relay_op *op, enum relay_lane_kind kind,
    const struct relay_item *item, const char *sql, struct pg_args *single,
    pg_done_fn *done);
void relay_item_host(struct relay_item *item, const char *mx, const char *tls);
/* The recipients' numbers as PostgreSQL writes an array. */
void relay_item_ix(struct relay_item *item, const int *ix, size_t n);

void relay_lanes_open(struct relay *r);
void relay_lanes_close(struct relay *r);
/* Out of its lane; what was sent may still run. */
void relay_leave(struct relay_op *op);

#endif
