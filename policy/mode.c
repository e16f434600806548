/* SPDX-License-Identifier: ISC */
#include "policy/mode.h"

bool
policy_mode_releases(enum policy_mode mode)
{
	return mode == MODE_MONITORED || mode == MODE_AUTONOMOUS;
}

bool
policy_mode_may_submit(enum policy_mode mode)
{
	return mode >= MODE_GATED_ALL && mode <= MODE_AUTONOMOUS;
}

bool
policy_mode_may_change(enum policy_mode from, enum policy_mode to,
    const struct policy_asker *asker)
{
	if (from > MODE_AUTONOMOUS || to > MODE_AUTONOMOUS || from == to)
		return false;
	switch (asker->actor) {
	case ACTOR_OPERATOR:
		return to < from || (asker->has_reason && asker->has_step_up);
	case ACTOR_AGENT:
		return to < from && to >= MODE_GATED_ALL &&
		       !asker->is_session_key;
	case ACTOR_CTL:
		return to < from;
	case ACTOR_POLICY:
	case ACTOR_WORKER:
	case ACTOR_COUNT:
		break;
	}
	return false;
}

/* Has any recipient's copy been handed over, or may it have been? */
/*@
  requires \valid_read(row + (0 .. n - 1)) || n == 0;
  assigns \nothing;
  ensures any: \result <==>
    (\exists integer i; 0 <= i < n && passed_dot(row[i]));
*/
static bool
any_passed_dot(const unsigned char *row, size_t n)
{
	/*@
	  loop invariant bounds: 0 <= i <= n;
	  loop invariant none_yet:
	    \forall integer k; 0 <= k < i ==> !passed_dot(row[k]);
	  loop assigns i;
	  loop variant n - i;
	*/
	for (size_t i = 0; i < n; i++)
		if (row[i] == DELIVERY_DOT_SENT ||
		    row[i] == DELIVERY_DELIVERED ||
		    row[i] == DELIVERY_UNCERTAIN)
			return true;
	return false;
}

/* Cancel what has not been handed over. */
/*@
  requires \valid(row + (0 .. n - 1)) || n == 0;
  assigns row[0 .. n - 1];
  ensures none_left: \forall integer i; 0 <= i < n ==> !unsent(row[i]);
  ensures others_stay: \forall integer i; 0 <= i < n &&
    !unsent(\old(row[i])) ==> row[i] == \old(row[i]);
*/
static void
cancel_unsent(unsigned char *row, size_t n)
{
	/*@
	  loop invariant bounds: 0 <= i <= n;
	  loop invariant done:
	    \forall integer k; 0 <= k < i ==> !unsent(row[k]);
	  loop invariant kept: \forall integer k; 0 <= k < i &&
	    !unsent(\at(row[k], Pre)) ==> row[k] == \at(row[k], Pre);
	  loop invariant rest:
	    \forall integer k; i <= k < n ==> row[k] == \at(row[k], Pre);
	  loop assigns i, row[0 .. n - 1];
	  loop variant n - i;
	*/
	for (size_t i = 0; i < n; i++)
		if (row[i] == DELIVERY_PENDING || row[i] == DELIVERY_SENDING ||
		    row[i] == DELIVERY_DEFERRED)
			row[i] = DELIVERY_CANCELED;
}

void
policy_mode_tighten(struct policy_released *m)
{
	if (!m->by_policy)
		return;
	if (m->state != STATE_APPROVED && m->state != STATE_SENDING &&
	    m->state != STATE_DEFERRED && m->state != STATE_UNCERTAIN)
		return;
	if (any_passed_dot(m->row, m->row_count) ||
	    m->state == STATE_UNCERTAIN) {
		cancel_unsent(m->row, m->row_count);
		return;
	}
	m->state = STATE_HELD;
	m->round++;
}
