/* SPDX-License-Identifier: ISC */
/*
 * Every answer of the three permission functions over small worlds: two
 * approvals of every kind, two recipients, every mode, switch and role.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/permission.h"

#define KINDS 72u

/* Version and round are 1 to 3 and the message is at 2 in both. */
static struct policy_approval
approval(unsigned kind)
{
	unsigned bits = kind / 9;

	return (struct policy_approval){
		.version = 1 + kind % 3,
		.round = 1 + kind / 3 % 3,
		.operator_id = 1 + (bits & 1),
		.is_approve = bits & 2,
		.digest_matches = bits & 4,
	};
}

/* Which operators approved exactly this, as a set of bits 1 and 2. */
static unsigned
approvers(const struct policy_approval *a, size_t n)
{
	unsigned who = 0;

	for (size_t i = 0; i < n; i++)
		if (a[i].version == 2 && a[i].round == 2 && a[i].is_approve &&
		    a[i].digest_matches)
			who |= a[i].operator_id;
	return who;
}

static void
check_approvals(const struct policy_approval *a, size_t n)
{
	unsigned who = approvers(a, n);

	for (unsigned need = 0; need <= 3; need++) {
		struct policy_held m = {
			.version = 2,
			.round = 2,
			.need_approvals = need,
			.approval = a,
			.approval_count = n,
			.mode_submitted = MODE_GATED_SEND,
			.mode_now = MODE_READ_ONLY,
			.by_session = true,
			.is_paused = true,
		};
		bool yes = need == 2 ? who == 3 : need < 2 && who != 0;

		assert_int_equal(policy_may_release(&m),
		    yes ? RELEASE_BY_OPERATOR : RELEASE_NONE);
		assert_int_equal(policy_may_leave(&m), yes);
	}
}

static void
test_approvals(void **unused)
{
	struct policy_approval a[2];

	(void)unused;
	check_approvals(NULL, 0);
	for (unsigned i = 0; i < KINDS; i++) {
		a[0] = approval(i);
		check_approvals(a, 1);
		for (unsigned j = 0; j < KINDS; j++) {
			a[1] = approval(j);
			check_approvals(a, 2);
		}
	}
}

static enum policy_release
want_release(const struct policy_held *m, bool covered)
{
	if (m->by_session || m->is_paused)
		return RELEASE_NONE;
	if ((m->mode_submitted == 3 || m->mode_submitted == 4) &&
	    (m->mode_now == 3 || m->mode_now == 4))
		return RELEASE_BY_MODE;
	if (m->mode_submitted < 1 || m->mode_submitted > 4 || m->mode_now < 1 ||
	    m->mode_now > 4)
		return RELEASE_NONE;
	if (covered && !m->has_attachment && m->findings_complete &&
	    (m->findings == RISK_NONE || m->findings == RISK_LOW))
		return RELEASE_BY_RULE;
	return RELEASE_NONE;
}

/* Covers of up to two recipients: none, n, y, nn, ny, yn, yy. */
static const bool covers[][2] = { { 0, 0 }, { 0, 0 }, { 1, 0 }, { 0, 0 },
	{ 0, 1 }, { 1, 0 }, { 1, 1 } };
static const size_t recipients[] = { 0, 1, 1, 2, 2, 2, 2 };
static const bool all_covered[] = { 0, 0, 1, 0, 0, 0, 1 };

static void
test_policy_release(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 6u * 6 * 7 * 4 * 16; i++) {
		unsigned c = i / 36 % 7, bits = i / (36 * 7 * 4);
		struct policy_held m = {
			.version = 1,
			.round = 1,
			.mode_submitted = i % 6,
			.mode_now = i / 6 % 6,
			.rule_covers = covers[c],
			.recipient_count = recipients[c],
			.findings = i / (36 * 7) % 4,
			.by_session = bits & 1,
			.is_paused = bits & 2,
			.has_attachment = bits & 4,
			.findings_complete = bits & 8,
		};

		assert_int_equal(
		    policy_may_release(&m), want_release(&m, all_covered[c]));
	}
}

static bool
want_decide(const struct policy_decider *who, unsigned state, unsigned risk,
    char verdict)
{
	if (state != 1 || !who->is_session_live || !who->in_scope ||
	    who->has_decided || who->role > ROLE_SENIOR)
		return false;
	if (verdict == 'r')
		return true;
	return verdict == 'a' &&
	       (who->role == ROLE_SENIOR || risk <= who->risk_cap) &&
	       (risk < 3 || who->has_step_up);
}

static void
test_decide(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 5u * 16 * 4 * 12 * 4 * 3; i++) {
		unsigned bits = i / 5 % 16, state = i / 320 % 12;
		unsigned risk = i / (320 * 12) % 4;
		char verdict = "arx"[i / (320 * 48)];
		struct policy_decider who = {
			.role = i % 5,
			.is_session_live = bits & 1,
			.in_scope = bits & 2,
			.has_step_up = bits & 4,
			.has_decided = bits & 8,
			.risk_cap = i / 80 % 4,
		};

		assert_int_equal(policy_may_decide(&who, state, risk,
				     (enum policy_verdict)verdict),
		    want_decide(&who, state, risk, verdict));
	}
}

static enum policy_dot_verdict
want_dot(const struct policy_dot *d)
{
	if (d->row != 1 || !d->lease_is_ours || !d->round_is_current ||
	    !d->is_released)
		return DOT_STALE;
	if (d->is_canceled)
		return DOT_CANCEL;
	if (d->is_past_not_after)
		return DOT_EXPIRE;
	if (d->is_suppressed)
		return DOT_SUPPRESS;
	if (d->by_policy && d->mode_now < d->mode_released)
		return DOT_HOLD;
	if (d->by_policy && d->is_rule_ended)
		return DOT_HOLD;
	return d->is_paused || d->is_suspended ? DOT_DEFER : DOT_GO;
}

static void
test_dot(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 9u * 25 * 1024; i++) {
		unsigned bits = i / (9 * 25);
		struct policy_dot d = {
			.row = i % 9,
			.lease_is_ours = bits & 1,
			.round_is_current = bits & 2,
			.is_released = bits & 4,
			.is_paused = bits & 8,
			.is_suspended = bits & 16,
			.is_canceled = bits & 32,
			.is_past_not_after = bits & 64,
			.is_suppressed = bits & 128,
			.by_policy = bits & 256,
			.is_rule_ended = bits & 512,
			.mode_released = i / 9 % 5,
			.mode_now = i / 45 % 5,
		};

		assert_int_equal(policy_dot_ask(&d), want_dot(&d));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_approvals),
		cmocka_unit_test(test_policy_release),
		cmocka_unit_test(test_decide),
		cmocka_unit_test(test_dot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
