/* SPDX-License-Identifier: ISC */
/*
 * Every move of a message and of a delivery, every mode change and every
 * tightening of up to three recipients, against lists written out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "policy/mode.h"
#include "policy/state.h"

/* decisions D6, as a person reads it. */
static const char *const edges[] = {
	"new held agent",
	"new approved policy",
	"held approved operator",
	"held rejected operator",
	"held expired worker",
	"held canceled agent operator",
	"approved held operator policy worker ctl",
	"approved canceled operator agent",
	"approved sending worker",
	"approved expired worker",
	"scheduled held ctl",
	"sending sent worker",
	"sending deferred worker",
	"sending bounced worker",
	"sending uncertain worker",
	"sending expired worker",
	"sending held policy worker ctl",
	"deferred sending worker",
	"deferred dot_sent worker",
	"deferred sent worker operator",
	"deferred bounced worker operator",
	"deferred uncertain worker operator",
	"deferred canceled worker operator",
	"deferred expired worker",
	"deferred held policy worker ctl",
	"uncertain sent operator",
	"uncertain bounced operator",
	"uncertain deferred operator worker",
	"uncertain sending worker",
	"uncertain held ctl",
};

static const char *const steps[] = {
	"pending sending worker",
	"pending dot_sent worker",
	"pending deferred worker",
	"pending failed worker",
	"pending uncertain worker policy",
	"pending suppressed worker",
	"pending canceled worker operator policy",
	"sending pending worker",
	"sending dot_sent worker",
	"sending deferred worker",
	"sending failed worker",
	"sending uncertain worker",
	"sending suppressed worker",
	"sending canceled worker policy",
	"dot_sent delivered worker",
	"dot_sent deferred worker",
	"dot_sent failed worker",
	"dot_sent uncertain worker",
	"deferred sending worker",
	"deferred dot_sent worker",
	"deferred pending operator",
	"deferred failed worker",
	"deferred uncertain worker policy",
	"deferred suppressed worker",
	"deferred canceled worker operator policy",
	"uncertain delivered operator",
	"uncertain failed operator",
	"uncertain pending operator",
	"uncertain deferred worker",
	"canceled pending operator policy",
};

/* Is "from to ... actor" in the list? Unknown names never are. */
static bool
listed(const char *const *list, size_t n, const char *from, const char *to,
    const char *actor)
{
	char head[64], word[32];
	size_t len;

	if (from == NULL || to == NULL || actor == NULL)
		return false;
	len = (size_t)snprintf(head, sizeof(head), "%s %s ", from, to);
	snprintf(word, sizeof(word), " %s ", actor);
	for (size_t i = 0; i < n; i++) {
		char rest[96];

		if (strncmp(list[i], head, len) != 0)
			continue;
		snprintf(rest, sizeof(rest), " %s ", list[i] + len);
		return strstr(rest, word) != NULL;
	}
	return false;
}

#define LISTED(list, from, to, actor)                                          \
	listed(list, sizeof(list) / sizeof((list)[0]), from, to, actor)

static void
test_edges(void **unused)
{
	(void)unused;
	for (unsigned f = 0; f <= STATE_COUNT; f++)
		for (unsigned t = 0; t <= STATE_COUNT; t++)
			for (unsigned a = 0; a <= ACTOR_COUNT; a++)
				assert_int_equal(policy_edge_allowed(f, t, a),
				    LISTED(edges, policy_state_name((int)f),
					policy_state_name((int)t),
					policy_actor_name((int)a)));
	assert_false(policy_edge_allowed(-1u, STATE_HELD, ACTOR_CTL));
	assert_false(policy_edge_allowed(STATE_HELD, 17, ACTOR_OPERATOR));
}

static void
test_steps(void **unused)
{
	(void)unused;
	for (unsigned f = 0; f <= DELIVERY_COUNT; f++)
		for (unsigned t = 0; t <= DELIVERY_COUNT; t++)
			for (unsigned a = 0; a <= ACTOR_COUNT; a++)
				assert_int_equal(policy_step_allowed(f, t, a),
				    LISTED(steps, policy_delivery_name((int)f),
					policy_delivery_name((int)t),
					policy_actor_name((int)a)));
}

static void
test_final(void **unused)
{
	(void)unused;
	for (unsigned f = 1; f < STATE_COUNT; f++) {
		bool leaves = false;

		for (unsigned t = 0; t < STATE_COUNT; t++)
			for (unsigned a = 0; a < ACTOR_COUNT; a++)
				leaves |= policy_edge_allowed(f, t, a);
		assert_int_equal(leaves, !policy_state_is_final(f));
	}
}

/* Sets row[0..3] from a number in base 9 with `n` digits. */
static unsigned
fill(unsigned char row[4], unsigned n, unsigned number)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < n; i++, number /= DELIVERY_COUNT) {
		row[i] = (unsigned char)(number % DELIVERY_COUNT);
		seen |= 1u << row[i];
	}
	return seen;
}

static const unsigned powers[] = { 1, 9, 81, 729, 6561 };

static void
test_derive(void **unused)
{
	unsigned char row[4];

	(void)unused;
	for (unsigned n = 0; n <= 4; n++)
		for (unsigned number = 0; number < powers[n]; number++) {
			unsigned seen = fill(row, n, number);
			enum policy_state want = STATE_CANCELED;

			if (seen & 0x06)
				want = STATE_SENDING;
			else if (seen & 0x40)
				want = STATE_UNCERTAIN;
			else if (seen & 0x11)
				want = STATE_DEFERRED;
			else if (seen & 0xa0)
				want = STATE_BOUNCED;
			else if (seen & 0x08)
				want = STATE_SENT;
			assert_int_equal(policy_state_derive(row, n), want);
		}
}

static void
check_tighten(
    enum policy_state state, bool by_policy, unsigned n, unsigned number)
{
	unsigned char row[4], old[4];
	struct policy_released m = { state, by_policy, 7, row, n };
	unsigned seen = fill(row, n, number);
	bool released = state == STATE_APPROVED || state == STATE_SENDING ||
			state == STATE_DEFERRED || state == STATE_UNCERTAIN;
	bool back =
	    by_policy && released && state != STATE_UNCERTAIN && !(seen & 0x4c);

	memcpy(old, row, sizeof(old));
	policy_mode_tighten(&m);
	assert_int_equal(m.state, back ? STATE_HELD : state);
	assert_int_equal(m.round, back ? 8 : 7);
	for (unsigned i = 0; i < n; i++) {
		bool unsent = (1u << old[i]) & 0x13;
		bool ends = by_policy && released && !back && unsent;

		assert_int_equal(row[i], ends ? DELIVERY_CANCELED : old[i]);
	}
}

static void
test_tighten(void **unused)
{
	(void)unused;
	for (unsigned state = 0; state < STATE_COUNT; state++)
		for (unsigned n = 0; n <= 3; n++)
			for (unsigned i = 0; i < powers[n]; i++) {
				check_tighten(state, false, n, i);
				check_tighten(state, true, n, i);
			}
}

static bool
may_change(unsigned from, unsigned to, const struct policy_asker *who)
{
	if (from >= MODE_COUNT || to >= MODE_COUNT || from == to)
		return false;
	if (who->actor == ACTOR_OPERATOR)
		return to < from || (who->has_reason && who->has_step_up);
	if (who->actor == ACTOR_AGENT)
		return to < from && to != MODE_READ_ONLY &&
		       !who->is_session_key;
	return who->actor == ACTOR_CTL && to < from;
}

static void
test_mode(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 7u * 7 * 6 * 8; i++) {
		unsigned from = i % 7, to = i / 7 % 7, bits = i / (7 * 7 * 6);
		struct policy_asker who = {
			.actor = i / (7 * 7) % 6,
			.is_session_key = bits & 1,
			.has_reason = bits & 2,
			.has_step_up = bits & 4,
		};

		assert_int_equal(policy_mode_may_change(from, to, &who),
		    may_change(from, to, &who));
	}
	for (unsigned mode = 0; mode < 9; mode++) {
		assert_int_equal(
		    policy_mode_releases(mode), mode == 3 || mode == 4);
		assert_int_equal(
		    policy_mode_may_submit(mode), mode >= 1 && mode <= 4);
	}
}

static void
test_words(void **unused)
{
	enum policy_state state = STATE_HELD;
	enum policy_mode mode;

	(void)unused;
	for (int i = 0; i < STATE_COUNT; i++) {
		assert_true(policy_state_find(policy_state_name(i), &state));
		assert_int_equal(state, i);
		assert_non_null(policy_state_label(i));
	}
	assert_false(policy_state_find("hel", &state));
	assert_false(policy_state_find("heldx", &state));
	assert_null(policy_state_name(STATE_COUNT));
	assert_null(policy_state_name(-1));
	assert_true(policy_mode_find("gated_send", &mode));
	assert_int_equal(mode, MODE_GATED_SEND);
	assert_string_equal(policy_word_label("digest"), "fingerprint");
	assert_string_equal(policy_word_label("subject"), "subject");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_final),
		cmocka_unit_test(test_derive),
		cmocka_unit_test(test_tighten),
		cmocka_unit_test(test_mode),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
