/* SPDX-License-Identifier: ISC */
/*
 * state.h - which moves a message and its deliveries may make, and by whom.
 *
 * Pure. The contracts are promises, not a copy of the table in edges.def;
 * `make prove` shows for every input that the code keeps them. What many
 * workers, rules and a suspended inbox can make of these moves together is
 * shown by model/workers.pml.
 */
#ifndef POLICY_STATE_H
#define POLICY_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/vocabulary.h"

/*@
  predicate is_final(integer s) =
    s == STATE_REJECTED || s == STATE_EXPIRED || s == STATE_CANCELED ||
    s == STATE_SENT || s == STATE_BOUNCED;
  predicate was_released(integer s) =
    s == STATE_APPROVED || s == STATE_SENDING || s == STATE_DEFERRED ||
    s == STATE_UNCERTAIN;
  predicate has(unsigned char *row, integer n, integer d) =
    \exists integer i; 0 <= i < n && row[i] == d;
*/

/*@
  assigns \nothing;
  ensures final: \result <==> is_final(state);
*/
bool policy_state_is_final(enum policy_state state);

/*
 * May `actor` move a message from one state to another? Numbers that are no
 * state or actor may do nothing.
 */
/*@
  assigns \nothing;
  ensures final_stays: is_final(from) ==> !\result;
  ensures agent_only_submits_or_cancels:
    \result && actor == ACTOR_AGENT ==>
      (from == STATE_NEW && to == STATE_HELD) || to == STATE_CANCELED;
  ensures approved_only_by_operator_or_policy:
    \result && to == STATE_APPROVED ==>
      (from == STATE_HELD && actor == ACTOR_OPERATOR) ||
      (from == STATE_NEW && actor == ACTOR_POLICY);
  ensures sending_only_after_release:
    \result && to == STATE_SENDING ==>
      was_released(from) && actor == ACTOR_WORKER;
  ensures sent_only_after_release:
    \result && to == STATE_SENT ==> was_released(from);
  ensures sent_by_hand_only_in_doubt:
    \result && to == STATE_SENT && actor != ACTOR_WORKER ==>
      actor == ACTOR_OPERATOR &&
      (from == STATE_UNCERTAIN || from == STATE_DEFERRED);
  ensures rejected_by_operator:
    \result && to == STATE_REJECTED ==>
      from == STATE_HELD && actor == ACTOR_OPERATOR;
  ensures policy_only_releases_new_or_tightens:
    \result && actor == ACTOR_POLICY ==>
      (from == STATE_NEW && to == STATE_APPROVED) || to == STATE_HELD;
  ensures ctl_only_holds:
    \result && actor == ACTOR_CTL ==> to == STATE_HELD;
  ensures sending_is_the_workers:
    \result && from == STATE_SENDING && to != STATE_HELD ==>
      actor == ACTOR_WORKER;
  ensures uncertain_is_never_held_but_by_ctl:
    \result && from == STATE_UNCERTAIN && to == STATE_HELD ==>
      actor == ACTOR_CTL;
  ensures nothing_becomes_new: \result ==> to != STATE_NEW && to != from;
  ensures known_only:
    \result ==> 0 <= from < STATE_COUNT && 0 < to < STATE_COUNT &&
      0 <= actor < ACTOR_COUNT;
*/
bool policy_edge_allowed(
    enum policy_state from, enum policy_state to, enum policy_actor actor);

/* The same question for one recipient of a released message. */
/*@
  assigns \nothing;
  ensures dot_is_never_resent_alone:
    \result && from == DELIVERY_DOT_SENT ==>
      to != DELIVERY_PENDING && to != DELIVERY_SENDING;
  ensures doubt_is_resent_by_operator:
    \result && from == DELIVERY_UNCERTAIN && to != DELIVERY_DEFERRED ==>
      actor == ACTOR_OPERATOR;
  ensures doubt_is_the_workers:
    \result && to == DELIVERY_UNCERTAIN ==> actor == ACTOR_WORKER ||
      (actor == ACTOR_POLICY &&
	(from == DELIVERY_PENDING || from == DELIVERY_DEFERRED));
  ensures doubt_is_not_sent_at_once:
    \result && from == DELIVERY_UNCERTAIN ==> to != DELIVERY_SENDING &&
      to != DELIVERY_DOT_SENT;
  ensures delivered_after_dot:
    \result && to == DELIVERY_DELIVERED ==>
      from == DELIVERY_DOT_SENT ||
      (from == DELIVERY_UNCERTAIN && actor == ACTOR_OPERATOR);
  ensures dot_of_what_is_due:
    \result && to == DELIVERY_DOT_SENT ==>
      (from == DELIVERY_SENDING || from == DELIVERY_PENDING ||
      from == DELIVERY_DEFERRED) && actor == ACTOR_WORKER;
  ensures ended_stays:
    from == DELIVERY_DELIVERED || from == DELIVERY_FAILED ||
    from == DELIVERY_SUPPRESSED ==> !\result;
  ensures agent_moves_nothing: actor == ACTOR_AGENT ==> !\result;
*/
bool policy_step_allowed(enum policy_delivery from, enum policy_delivery to,
    enum policy_actor actor);

/*
 * The state of a message from its deliveries, from the first claim on. With
 * no recipient at all it is canceled.
 */
/*@
  requires rows: \valid_read(row + (0 .. n - 1)) || n == 0;
  assigns \nothing;
  ensures sending:
    \result == STATE_SENDING <==>
      has(row, n, DELIVERY_SENDING) || has(row, n, DELIVERY_DOT_SENT);
  ensures uncertain:
    \result == STATE_UNCERTAIN <==>
      has(row, n, DELIVERY_UNCERTAIN) && !has(row, n, DELIVERY_SENDING) &&
      !has(row, n, DELIVERY_DOT_SENT);
  ensures doubt_is_never_final:
    has(row, n, DELIVERY_UNCERTAIN) || has(row, n, DELIVERY_DOT_SENT) ==>
      !is_final(\result);
  ensures work_is_never_final:
    has(row, n, DELIVERY_PENDING) || has(row, n, DELIVERY_DEFERRED) ==>
      !is_final(\result);
  ensures sent_means_no_failure:
    \result == STATE_SENT ==> has(row, n, DELIVERY_DELIVERED) &&
      !has(row, n, DELIVERY_FAILED) && !has(row, n, DELIVERY_SUPPRESSED);
  ensures bounced:
    \result == STATE_BOUNCED ==>
      has(row, n, DELIVERY_FAILED) || has(row, n, DELIVERY_SUPPRESSED);
  ensures canceled_means_nothing_left:
    \result == STATE_CANCELED ==> !has(row, n, DELIVERY_DELIVERED);
  ensures derived:
    \result == STATE_SENDING || \result == STATE_UNCERTAIN ||
    \result == STATE_DEFERRED || \result == STATE_BOUNCED ||
    \result == STATE_SENT || \result == STATE_CANCELED;
*/
enum policy_state policy_state_derive(const unsigned char *row, size_t n);

#endif
