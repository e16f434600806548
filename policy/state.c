/* SPDX-License-Identifier: ISC */
/*
 * state.c - the tables of edges.def as functions.
 *
 * A table of conditions rather than an array: no index can be out of range,
 * and the prover reads it as it stands.
 */
#include "policy/state.h"

bool
policy_state_is_final(enum policy_state state)
{
	return state == STATE_REJECTED || state == STATE_EXPIRED ||
	       state == STATE_CANCELED || state == STATE_SENT ||
	       state == STATE_BOUNCED;
}

bool
policy_edge_allowed(
    enum policy_state from, enum policy_state to, enum policy_actor actor)
{
	return false
#define EDGE(f, t, a)                                                          \
	|| (from == STATE_##f && to == STATE_##t && actor == ACTOR_##a)
#include "policy/edges.def"
	    ;
}

bool
policy_step_allowed(
    enum policy_delivery from, enum policy_delivery to, enum policy_actor actor)
{
	return false
#define STEP(f, t, a)                                                          \
	|| (from == DELIVERY_##f && to == DELIVERY_##t && actor == ACTOR_##a)
#include "policy/edges.def"
	    ;
}

/* Is any of the deliveries `d`? */
/*@
  requires \valid_read(row + (0 .. n - 1)) || n == 0;
  assigns \nothing;
  ensures any: \result <==> has(row, n, d);
*/
static bool
any(const unsigned char *row, size_t n, enum policy_delivery d)
{
	/*@
	  loop invariant bounds: 0 <= i <= n;
	  loop invariant none_yet: \forall integer k; 0 <= k < i ==> row[k] !=
	  d; loop assigns i; loop variant n - i;
	*/
	for (size_t i = 0; i < n; i++)
		if (row[i] == d)
			return true;
	return false;
}

enum policy_state
policy_state_derive(const unsigned char *row, size_t n)
{
	if (any(row, n, DELIVERY_SENDING) || any(row, n, DELIVERY_DOT_SENT))
		return STATE_SENDING;
	if (any(row, n, DELIVERY_UNCERTAIN))
		return STATE_UNCERTAIN;
	if (any(row, n, DELIVERY_PENDING) || any(row, n, DELIVERY_DEFERRED))
		return STATE_DEFERRED;
	if (any(row, n, DELIVERY_FAILED) || any(row, n, DELIVERY_SUPPRESSED))
		return STATE_BOUNCED;
	if (any(row, n, DELIVERY_DELIVERED))
		return STATE_SENT;
	return STATE_CANCELED;
}
