/* SPDX-License-Identifier: ISC */
/*
 * permission.h - may bytes leave, may this person decide, may the dot go?
 *
 * Pure and proved. The database answers the same questions from its own
 * rows; these functions say what the answer has to be, and tests compare.
 */
#ifndef POLICY_PERMISSION_H
#define POLICY_PERMISSION_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/mode.h"

/* Who answers for a release. */
enum policy_release {
	RELEASE_NONE,
	RELEASE_BY_OPERATOR,
	RELEASE_BY_MODE,
	RELEASE_BY_RULE,
};

/* An approval, as the decision row has it. */
struct policy_approval {
	unsigned version;
	unsigned round;
	unsigned operator_id;
	bool is_approve;
	bool digest_matches; /* names the digest of exactly this version */
};

/* One version of a message in one round. */
struct policy_held {
	unsigned version;
	unsigned round;
	unsigned need_approvals; /* 0 counts as 1 */
	const struct policy_approval *approval;
	size_t approval_count;

	enum policy_mode mode_submitted;
	enum policy_mode mode_now;
	bool by_session; /* sent with a session key no operator opened */
	bool is_paused; /* the inbox, its tenant or everything */

	const bool *rule_covers; /* of each envelope recipient */
	size_t recipient_count;
	bool has_attachment;
	bool findings_complete;
	enum policy_risk findings; /* the heaviest */
};

/*@
  predicate counts(struct policy_held *m, integer i) =
    m->approval[i].is_approve && m->approval[i].digest_matches &&
    m->approval[i].version == m->version && m->approval[i].round == m->round;
  predicate approved_by_a_person(struct policy_held *m) =
    \exists integer i; 0 <= i < m->approval_count && counts(m, i);
  predicate approved_by_two(struct policy_held *m) =
    \exists integer i, j; 0 <= i < j < m->approval_count && counts(m, i) &&
      counts(m, j) && m->approval[i].operator_id != m->approval[j].operator_id;
  predicate every_recipient_covered(struct policy_held *m) =
    m->recipient_count > 0 &&
    \forall integer i; 0 <= i < m->recipient_count ==> m->rule_covers[i];
  predicate valid_held(struct policy_held *m) =
    \valid_read(m) &&
    (m->approval_count == 0 ||
      \valid_read(m->approval + (0 .. m->approval_count - 1))) &&
    (m->recipient_count == 0 ||
      \valid_read(m->rule_covers + (0 .. m->recipient_count - 1)));
*/

/*
 * May the bytes of this version leave in this round, and who says so? A
 * message needs as many distinct operators as need_approvals, 1 or 2; a
 * higher number is never met here.
 */
/*@
  requires valid: valid_held(m);
  assigns \nothing;
  ensures operator_names_it:
    \result == RELEASE_BY_OPERATOR ==> approved_by_a_person(m);
  ensures two_persons:
    \result == RELEASE_BY_OPERATOR && m->need_approvals >= 2 ==>
      approved_by_two(m);
  ensures mode_then_and_now:
    \result == RELEASE_BY_MODE ==> releases(m->mode_submitted) &&
      releases(m->mode_now);
  ensures rule_is_narrow:
    \result == RELEASE_BY_RULE ==> every_recipient_covered(m) &&
      !m->has_attachment && m->findings_complete &&
      m->findings < RISK_MEDIUM &&
      m->mode_submitted >= MODE_GATED_ALL && m->mode_now >= MODE_GATED_ALL;
  ensures paused_waits_for_a_person:
    m->is_paused && \result != RELEASE_NONE ==> \result == RELEASE_BY_OPERATOR;
  ensures session_waits_for_a_person:
    m->by_session && \result != RELEASE_NONE ==>
      \result == RELEASE_BY_OPERATOR;
  ensures known:
    \result == RELEASE_NONE || \result == RELEASE_BY_OPERATOR ||
    \result == RELEASE_BY_MODE || \result == RELEASE_BY_RULE;
*/
enum policy_release policy_may_release(const struct policy_held *m);

/*
 * The first promise, in one sentence: bytes leave only after an operator
 * approved this version in this round, or under a mode that released then
 * and releases now, or by a rule that covers every recipient.
 */
/*@
  requires valid: valid_held(m);
  assigns \nothing;
  ensures gate:
    \result ==> approved_by_a_person(m) ||
      (releases(m->mode_submitted) && releases(m->mode_now)) ||
      every_recipient_covered(m);
*/
bool policy_may_leave(const struct policy_held *m);

/* An operator at the moment of a decision. */
struct policy_decider {
	enum policy_role role;
	bool is_session_live;
	bool in_scope; /* of the message's tenant and inbox */
	bool has_step_up;
	bool has_decided; /* this version and round, already */
	enum policy_risk risk_cap; /* a reviewer approves up to this */
};

/*
 * May this operator give this verdict on a message in `state`? Step-up is
 * asked for approving high risk. Rejecting needs no cap: saying no is safe.
 */
/*@
  requires valid: \valid_read(who);
  assigns \nothing;
  ensures only_held: \result ==> state == STATE_HELD;
  ensures only_in_scope: \result ==> who->in_scope && who->is_session_live;
  ensures once: \result ==> !who->has_decided;
  ensures not_by_auditor_or_admin:
    \result ==> who->role == ROLE_REVIEWER || who->role == ROLE_SENIOR;
  ensures reviewer_within_cap:
    \result && verdict == VERDICT_APPROVE && who->role == ROLE_REVIEWER ==>
      risk <= who->risk_cap;
  ensures high_needs_step_up:
    \result && verdict == VERDICT_APPROVE && risk >= RISK_HIGH ==>
      who->has_step_up;
  ensures known_verdict:
    \result ==> verdict == VERDICT_APPROVE || verdict == VERDICT_REJECT;
*/
bool policy_may_decide(const struct policy_decider *who,
    enum policy_state state, enum policy_risk risk,
    enum policy_verdict verdict);

/* What the last gate knows when the worker asks to send the final dot. */
struct policy_dot {
	enum policy_delivery row;
	bool lease_is_ours; /* token matches and has not run out */
	bool round_is_current;
	bool is_released; /* a live release of this version and round */
	bool is_paused;
	bool is_suspended; /* the inbox or its tenant */
	bool is_canceled;
	bool is_past_not_after;
	bool is_suppressed; /* suppression or a block list */
	bool by_policy;
	bool is_rule_ended; /* by a rule, and a recipient has none any more */
	enum policy_mode mode_released; /* when policy released it */
	enum policy_mode mode_now;
};

enum policy_dot_verdict {
	DOT_GO,
	DOT_STALE, /* not ours any more: RSET, touch nothing */
	DOT_CANCEL,
	DOT_EXPIRE,
	DOT_SUPPRESS,
	DOT_HOLD,
	DOT_DEFER, /* later, no attempt counted */
};

/*@
  requires valid: \valid_read(d);
  assigns \nothing;
  ensures go_needs_all:
    \result == DOT_GO ==> d->row == DELIVERY_SENDING && d->lease_is_ours &&
      d->round_is_current && d->is_released && !d->is_paused &&
      !d->is_suspended && !d->is_canceled && !d->is_past_not_after &&
      !d->is_suppressed;
  ensures tightened_never_goes:
    d->by_policy && d->mode_now < d->mode_released ==> \result != DOT_GO;
  ensures ended_rule_never_goes:
    d->by_policy && d->is_rule_ended ==> \result != DOT_GO;
  ensures stale_first:
    !d->lease_is_ours || !d->round_is_current || !d->is_released ||
    d->row != DELIVERY_SENDING ==> \result == DOT_STALE;
  ensures pause_keeps_the_message:
    \result == DOT_EXPIRE ==> d->is_past_not_after;
  ensures hold_only_when_tightened:
    \result == DOT_HOLD ==> d->by_policy &&
      (d->mode_now < d->mode_released || d->is_rule_ended);
  ensures goes_when_it_may:
    d->row == DELIVERY_SENDING && d->lease_is_ours && d->round_is_current &&
    d->is_released && !d->is_paused && !d->is_suspended && !d->is_canceled &&
    !d->is_past_not_after && !d->is_suppressed && !d->by_policy ==>
      \result == DOT_GO;
*/
enum policy_dot_verdict policy_dot_ask(const struct policy_dot *d);

#endif
