/* SPDX-License-Identifier: ISC */
#include "policy/permission.h"

/* Is this an approval of exactly what is held now? */
/*@
  requires valid_held(m);
  requires 0 <= i < m->approval_count;
  assigns \nothing;
  ensures is: \result <==> counts(m, i);
*/
static bool
approval_counts(const struct policy_held *m, size_t i)
{
	return m->approval[i].is_approve && m->approval[i].digest_matches &&
	       m->approval[i].version == m->version &&
	       m->approval[i].round == m->round;
}

/* The first approval that counts, or approval_count. */
/*@
  requires valid_held(m);
  assigns \nothing;
  ensures range: \result <= m->approval_count;
  ensures found: \result < m->approval_count ==> counts(m, \result);
  ensures missing: \result == m->approval_count ==>
    \forall integer k; 0 <= k < m->approval_count ==> !counts(m, k);
*/
static size_t
first_approval(const struct policy_held *m)
{
	size_t i;

	/*@
	  loop invariant bounds: 0 <= i <= m->approval_count;
	  loop invariant none_yet:
	    \forall integer k; 0 <= k < i ==> !counts(m, k);
	  loop assigns i;
	  loop variant m->approval_count - i;
	*/
	for (i = 0; i < m->approval_count; i++)
		if (approval_counts(m, i))
			break;
	return i;
}

/* Has another person than that of the first approval approved too? */
/*@
  requires valid_held(m);
  requires first < m->approval_count;
  requires counts(m, first);
  assigns \nothing;
  ensures two: \result ==> approved_by_two(m);
*/
static bool
has_second(const struct policy_held *m, size_t first)
{
	size_t i;

	/*@
	  loop invariant bounds: first < i <= m->approval_count;
	  loop assigns i;
	  loop variant m->approval_count - i;
	*/
	for (i = first + 1; i < m->approval_count; i++)
		if (approval_counts(m, i) && m->approval[i].operator_id !=
						 m->approval[first].operator_id)
			return true;
	return false;
}

/* Have as many persons approved as this message needs? */
/*@
  requires valid_held(m);
  assigns \nothing;
  ensures one: \result ==> approved_by_a_person(m);
  ensures two: \result && m->need_approvals >= 2 ==> approved_by_two(m);
  ensures enough: m->need_approvals <= 1 && approved_by_a_person(m) ==> \result;
*/
static bool
has_approvals(const struct policy_held *m)
{
	size_t first = first_approval(m);

	if (first == m->approval_count || m->need_approvals > 2)
		return false;
	return m->need_approvals < 2 || has_second(m, first);
}

/*@
  requires valid_held(m);
  assigns \nothing;
  ensures covers: \result <==> every_recipient_covered(m);
*/
static bool
rule_covers_all(const struct policy_held *m)
{
	/*@
	  loop invariant bounds: 0 <= i <= m->recipient_count;
	  loop invariant so_far:
	    \forall integer k; 0 <= k < i ==> m->rule_covers[k];
	  loop assigns i;
	  loop variant m->recipient_count - i;
	*/
	for (size_t i = 0; i < m->recipient_count; i++)
		if (!m->rule_covers[i])
			return false;
	return m->recipient_count > 0;
}

enum policy_release
policy_may_release(const struct policy_held *m)
{
	if (has_approvals(m))
		return RELEASE_BY_OPERATOR;
	if (m->by_session || m->is_paused)
		return RELEASE_NONE;
	if (policy_mode_releases(m->mode_submitted) &&
	    policy_mode_releases(m->mode_now))
		return RELEASE_BY_MODE;
	if (!policy_mode_may_submit(m->mode_submitted) ||
	    !policy_mode_may_submit(m->mode_now))
		return RELEASE_NONE;
	if (rule_covers_all(m) && !m->has_attachment && m->findings_complete &&
	    m->findings < RISK_MEDIUM)
		return RELEASE_BY_RULE;
	return RELEASE_NONE;
}

bool
policy_may_leave(const struct policy_held *m)
{
	return policy_may_release(m) != RELEASE_NONE;
}

bool
policy_may_decide(const struct policy_decider *who, enum policy_state state,
    enum policy_risk risk, enum policy_verdict verdict)
{
	if (state != STATE_HELD || !who->is_session_live || !who->in_scope ||
	    who->has_decided)
		return false;
	if (who->role != ROLE_REVIEWER && who->role != ROLE_SENIOR)
		return false;
	if (verdict == VERDICT_REJECT)
		return true;
	if (verdict != VERDICT_APPROVE)
		return false;
	if (who->role == ROLE_REVIEWER && risk > who->risk_cap)
		return false;
	return risk < RISK_HIGH || who->has_step_up;
}

enum policy_dot_verdict
policy_dot_ask(const struct policy_dot *d)
{
	if (!d->lease_is_ours || !d->round_is_current || !d->is_released ||
	    d->row != DELIVERY_SENDING)
		return DOT_STALE;
	if (d->is_canceled)
		return DOT_CANCEL;
	if (d->is_past_not_after)
		return DOT_EXPIRE;
	if (d->is_suppressed)
		return DOT_SUPPRESS;
	if (d->by_policy &&
	    (d->mode_now < d->mode_released || d->is_rule_ended))
		return DOT_HOLD;
	if (d->is_paused || d->is_suspended)
		return DOT_DEFER;
	return DOT_GO;
}
