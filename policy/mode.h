/* SPDX-License-Identifier: ISC */
/*
 * mode.h - what an inbox's mode does to its outgoing mail, who may change
 * it, and what a stricter mode does to mail that the old one released.
 *
 * Pure and proved. A number that is no mode counts as the strictest.
 */
#ifndef POLICY_MODE_H
#define POLICY_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/state.h"

/*@
  predicate releases(integer m) = m == MODE_MONITORED || m == MODE_AUTONOMOUS;
  predicate unsent(integer d) =
    d == DELIVERY_PENDING || d == DELIVERY_SENDING || d == DELIVERY_DEFERRED;
  predicate passed_dot(integer d) =
    d == DELIVERY_DOT_SENT || d == DELIVERY_DELIVERED ||
    d == DELIVERY_UNCERTAIN;
*/

/* Does this mode release mail without a person? */
/*@
  assigns \nothing;
  ensures releases: \result <==> releases(mode);
*/
bool policy_mode_releases(enum policy_mode mode);

/* May an inbox in this mode submit at all? */
/*@
  assigns \nothing;
  ensures blocked: mode == MODE_READ_ONLY ==> !\result;
  ensures known: \result <==> MODE_GATED_ALL <= mode <= MODE_AUTONOMOUS;
*/
bool policy_mode_may_submit(enum policy_mode mode);

/* Who asks for another mode, and with what in hand. */
struct policy_asker {
	enum policy_actor actor;
	bool is_session_key; /* a key of a sandbox session, not of the inbox */
	bool has_reason;
	bool has_step_up;
};

/*@
  requires \valid_read(asker);
  assigns \nothing;
  ensures only_operator_loosens:
    \result && to > from ==> asker->actor == ACTOR_OPERATOR &&
      asker->has_reason && asker->has_step_up;
  ensures agent_only_tightens:
    \result && asker->actor == ACTOR_AGENT ==>
      to < from && to >= MODE_GATED_ALL && !asker->is_session_key;
  ensures nobody_else:
    \result ==> asker->actor == ACTOR_OPERATOR ||
      asker->actor == ACTOR_AGENT || (asker->actor == ACTOR_CTL && to < from);
  ensures known_only:
    \result ==> MODE_READ_ONLY <= from <= MODE_AUTONOMOUS &&
      MODE_READ_ONLY <= to <= MODE_AUTONOMOUS && to != from;
  ensures operator_may_always_tighten:
    asker->actor == ACTOR_OPERATOR &&
    MODE_READ_ONLY <= to < from <= MODE_AUTONOMOUS ==> \result;
*/
bool policy_mode_may_change(enum policy_mode from, enum policy_mode to,
    const struct policy_asker *asker);

/* A released message as tightening finds and leaves it. */
struct policy_released {
	enum policy_state state;
	bool by_policy; /* released by the mode or a rule, not by a person */
	unsigned round;
	unsigned char *row; /* enum policy_delivery of each recipient */
	size_t row_count;
};

/*
 * The mode became stricter. Mail that a person approved is left alone. What
 * policy released goes back to held in a new round when nothing of it has
 * passed the dot; else what is left of it is canceled. `state` is changed
 * only when the message returns to held.
 */
/*@
  requires valid: \valid(m) &&
    (\valid(m->row + (0 .. m->row_count - 1)) || m->row_count == 0);
  requires apart: \separated(m, m->row + (0 .. m->row_count - 1));
  requires rounds: m->round < 4294967295;
  assigns m->state, m->round, m->row[0 .. m->row_count - 1];
  ensures nothing_unsent_stays_released:
    \old(m->by_policy) && was_released(\old(m->state)) ==>
      (m->state == STATE_HELD && m->round == \old(m->round) + 1) ||
      (\forall integer i; 0 <= i < m->row_count ==> !unsent(m->row[i]));
  ensures held_only_when_nothing_passed:
    m->state != \old(m->state) ==> m->state == STATE_HELD &&
      (\forall integer i; 0 <= i < m->row_count ==>
	!passed_dot(\old(m->row[i])));
  ensures operators_word_stays:
    !\old(m->by_policy) ==> m->state == \old(m->state) &&
      m->round == \old(m->round) &&
      (\forall integer i; 0 <= i < m->row_count ==>
	m->row[i] == \old(m->row[i]));
  ensures passed_rows_stay:
    \forall integer i; 0 <= i < m->row_count && passed_dot(\old(m->row[i])) ==>
      m->row[i] == \old(m->row[i]);
  ensures unreleased_stays:
    !was_released(\old(m->state)) ==> m->state == \old(m->state);
*/
void policy_mode_tighten(struct policy_released *m);

#endif
