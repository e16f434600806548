/* SPDX-License-Identifier: ISC */
/*
 * state.c - the tables of edges.def as functions.
 *
 * A switch rather than an array: no index can be out of range, and the prover
 * reads it as it stands.
 */
#include "policy/state.h"

bool
policy_state_is_final(enum policy_state state)
{
	return state == STATE_REJECTED || state == STATE_EXPIRED ||
	       state == STATE_CANCELED || state == STATE_SENT ||
	       state == STATE_BOUNCED;
}

/* Numbers one move; a pair listed twice does not compile. */
#define KEY(from, to, actor) (((from)*16u + (to)) * 8u + (actor))

bool
policy_edge_allowed(
    enum policy_state from, enum policy_state to, enum policy_actor actor)
{
	if (from >= STATE_COUNT || to >= STATE_COUNT || actor >= ACTOR_COUNT)
		return false;
	switch (KEY(from, to, actor)) {
#define EDGE(f, t, a) case KEY(STATE_##f, STATE_##t, ACTOR_##a):
#include "policy/edges.def"
		return true;
	}
	return false;
}

bool
policy_step_allowed(
    enum policy_delivery from, enum policy_delivery to, enum policy_actor actor)
{
	if (from >= DELIVERY_COUNT || to >= DELIVERY_COUNT ||
	    actor >= ACTOR_COUNT)
		return false;
	switch (KEY(from, to, actor)) {
#define STEP(f, t, a) case KEY(DELIVERY_##f, DELIVERY_##t, ACTOR_##a):
#include "policy/edges.def"
		return true;
	}
	return false;
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
	  loop invariant none_yet:
	    \forall integer k; 0 <= k < i ==> row[k] != d;
	  loop assigns i;
	  loop variant n - i;
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
