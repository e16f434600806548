/* SPDX-License-Identifier: ISC */
/* test_lease.c - what is charged ahead, when it ends, and what goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/lease.h"

#define START (INT64_C(6000000) * LEASE_BUCKET_MS) /* an hour begins */

static struct leases *leases;
static uint64_t now;
static int64_t at;
static struct limit_cost back; /* the sum of what came back */
static int64_t back_at;
static unsigned backs;

static const struct limit_cost none, one = { 1, 1, 1000 };
static const struct limit_inbox big = { 1, 2, 100000, 1000000, 1 << 30 };

static void
on_back(void *arg, const struct limit_inbox *inbox,
    const struct limit_cost *rest, int64_t when)
{
	assert_ptr_equal(arg, &leases);
	assert_true(inbox->tenant > 0);
	back.messages += rest->messages;
	back.recipients += rest->recipients;
	back.bytes += rest->bytes;
	back_at = when;
	backs++;
}

static int
set_up(void **state)
{
	(void)state;
	leases = leases_new(on_back, &leases);
	now = 5000;
	at = START;
	back = none;
	backs = 0;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	leases_free(leases);
	return 0;
}

/* Redis is asked for a message and allows it, `left` messages are left. */
static struct limit_cost
ask(const struct limit_inbox *inbox, int64_t left)
{
	struct limit_answer a = { .left = left, .at = at };
	struct limit_cost more;

	lease_ask(leases, inbox, &one, now, &more);
	lease_allowed(leases, inbox, &more, LIMIT_HOUR, &a, now, now);
	return more;
}

static bool
take(const struct limit_inbox *inbox, struct limit_answer *a)
{
	struct limit_answer mine;

	return lease_take(leases, inbox, &one, now, a ? a : &mine) >= 0;
}

static void
test_it_grows_while_it_is_used_up(void **state)
{
	static const int sizes[] = { 2, 4, 8, 16, 16 };
	struct limit_answer a;
	struct limit_cost more;
	size_t i;
	int k;

	(void)state;
	assert_int_equal(ask(&big, 90000).messages, 0); /* not busy */
	for (i = 0; i < 5; i++) {
		more = ask(&big, 90000);
		assert_int_equal(more.messages, sizes[i]);
		assert_int_equal(more.recipients, sizes[i]);
		assert_true(more.bytes <= sizes[i] * 2000);
		for (k = 0; k < sizes[i]; k++) {
			now += 1;
			assert_true(take(&big, &a));
			assert_int_equal(a.verdict, LIMIT_OK);
			assert_int_equal(a.limit, 100000);
			assert_int_equal(a.left, 90000 + sizes[i] - k - 1);
			assert_int_equal(a.at, START);
		}
		assert_false(take(&big, NULL));
	}
	/* bytes were asked for generously; what is over serves the next */
	assert_int_equal(backs, 0);
	leases_expire(leases, now + LEASE_LIFE_MS);
	assert_int_equal(back.messages, 0);
	assert_true(back.bytes > 0);
	assert_int_equal(leases_next(leases), 0);
}

static void
test_only_the_busy_and_far_from_their_limits(void **state)
{
	const struct limit_inbox small = { 1, 3, 20, 100, 1 << 30 };
	const struct limit_inbox tight = { 1, 4, 100000, 100000, 150000 };
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		assert_int_equal(ask(&small, 19 - i).messages, 0);
		assert_int_equal(ask(&tight, 99999 - i).messages,
		    i == 1 ? 1 : 0); /* for its bytes */
	}
	now += LEASE_BUSY_MS;
	assert_int_equal(ask(&big, 90000).messages, 0);
	now += LEASE_BUSY_MS;
	assert_int_equal(ask(&big, 90000).messages, 0);
	assert_int_equal(ask(&big, 90000).messages, 2);
	assert_true(take(&big, NULL) && take(&big, NULL));
	assert_int_equal(ask(&big, 399).messages, 4);
	while (take(&big, NULL))
		;
	assert_int_equal(ask(&big, 399).messages, 3);
	while (take(&big, NULL))
		;
	assert_int_equal(ask(&big, 99).messages, 3);
	while (take(&big, NULL))
		;
	assert_int_equal(ask(&big, 99).messages, 0);
}

static void
test_what_does_not_fit_is_asked_for(void **state)
{
	const struct limit_cost large = { 1, 1, 4001 }, wide = { 1, 3, 10 };
	struct limit_answer a;
	struct limit_cost more;

	(void)state;
	(void)ask(&big, 90000);
	assert_int_equal(ask(&big, 90000).bytes, 4000);
	assert_int_equal(lease_take(leases, &big, &large, now, &a), -1);
	assert_int_equal(lease_take(leases, &big, &wide, now, &a), -1);
	assert_int_equal(lease_rest(leases, &big, LIMIT_HOUR), 2);
	/* it has room for such ones then, and is asked for once at a time */
	lease_ask(leases, &big, &large, now, &more);
	assert_int_equal(more.messages, 0);
	assert_int_equal(more.bytes, 2 * 2 * 4001 - 4000);
	assert_int_equal(ask(&big, 90000).bytes, 0);
	a = (struct limit_answer){ .left = 90000, .at = at };
	lease_allowed(leases, &big, &more, LIMIT_HOUR, &a, now, now);
	assert_true(lease_take(leases, &big, &large, now, &a) >= 0);
	assert_int_equal(backs, 0);
}

static void
test_it_ends_before_the_bucket_does(void **state)
{
	(void)state;
	at = START + LEASE_BUCKET_MS - 200;
	(void)ask(&big, 90000);
	(void)ask(&big, 90000);
	assert_int_equal(leases_next(leases), now + 200 - LEASE_GUARD_MS);
	now += 200 - LEASE_GUARD_MS - 1;
	assert_true(take(&big, NULL));
	now += 1;
	assert_false(take(&big, NULL));
	assert_int_equal(back.messages, 1);
	assert_int_equal(back_at, at);
	/* too near: what was asked for comes back at once */
	at = START + LEASE_BUCKET_MS - LEASE_GUARD_MS;
	assert_int_equal(ask(&big, 90000).messages, 2);
	assert_int_equal(back.messages, 3);
	assert_false(take(&big, NULL));
	/* and a second is the longest */
	at = START + LEASE_BUCKET_MS;
	assert_int_equal(ask(&big, 90000).messages, 2);
	assert_int_equal(leases_next(leases), now + LEASE_LIFE_MS);
	now += LEASE_LIFE_MS;
	leases_expire(leases, now);
	assert_int_equal(back.messages, 5);
	assert_int_equal(back_at, at);
}

static void
test_what_is_left_goes_to_its_own_bucket(void **state)
{
	(void)state;
	at = START + LEASE_BUCKET_MS - 200;
	(void)ask(&big, 90000);
	assert_int_equal(ask(&big, 90000).messages, 2);
	assert_true(take(&big, NULL));
	/* same bucket: put together */
	at += 10;
	assert_int_equal(ask(&big, 90000).messages, 1);
	assert_int_equal(lease_rest(leases, &big, LIMIT_HOUR), 2);
	assert_int_equal(backs, 0);
	assert_true(take(&big, NULL));
	at += 190;
	assert_int_equal(ask(&big, 90000).messages, 1);
	assert_int_equal(back.messages, 1);
	assert_int_equal(back_at, at - 190);
	assert_int_equal(lease_rest(leases, &big, LIMIT_HOUR), 1);
}

static void
test_the_time_counts_from_the_question(void **state)
{
	struct limit_answer a = { .left = 90000, .at = START };
	struct limit_cost more;

	(void)state;
	(void)ask(&big, 90000);
	lease_ask(leases, &big, &one, now, &more);
	lease_allowed(
	    leases, &big, &more, LIMIT_HOUR, &a, now, now + LEASE_LIFE_MS);
	assert_false(take(&big, NULL));
	assert_int_equal(back.messages, 2);
}

static void
test_a_refusal_gives_back_and_pauses(void **state)
{
	struct limit_cost more;

	(void)state;
	(void)ask(&big, 90000);
	lease_ask(leases, &big, &one, now, &more);
	assert_int_equal(more.messages, 2);
	assert_true(lease_refused(leases, &big, &more, now));
	assert_false(lease_refused(leases, &big, &none, now));
	(void)ask(&big, 90000);
	assert_int_equal(ask(&big, 90000).messages, 0);
	now += LEASE_PAUSE_MS - 1;
	(void)ask(&big, 90000);
	now += 1;
	assert_int_equal(ask(&big, 90000).messages, 2);
	/* another message is refused while something is leased */
	assert_true(lease_refused(leases, &big, &none, now));
	assert_int_equal(back.messages, 2);
	assert_false(take(&big, NULL));
}

static void
test_it_is_dropped_with_what_it_was_made_for(void **state)
{
	struct limit_inbox other = big;
	struct limit_cost more;

	(void)state;
	other.day--;
	(void)ask(&big, 90000);
	(void)ask(&big, 90000);
	assert_false(take(&other, NULL)); /* limits were changed */
	assert_int_equal(back.messages, 2);
	(void)ask(&other, 90000);
	lease_ask(leases, &other, &one, now, &more);
	lease_unknown(leases, &other, &more); /* no answer */
	assert_int_equal(ask(&other, 90000).messages, 0);
	assert_int_equal(ask(&other, 90000).messages, 2);
	leases_stop(leases);
	assert_int_equal(back.messages, 4);
	assert_int_equal(ask(&other, 90000).messages, 0);
}

static void
test_refunds_go_where_they_belong(void **state)
{
	struct limit_answer a;

	(void)state;
	assert_false(lease_give(leases, &big, &one, at, now));
	(void)ask(&big, 90000);
	(void)ask(&big, 90000);
	assert_false(lease_give(leases, &big, &one, at, now)); /* is full */
	assert_true(take(&big, &a));
	assert_false(
	    lease_give(leases, &big, &one, at - 1, now)); /* other bucket */
	assert_true(lease_give(leases, &big, &one, a.at, now));
	assert_true(take(&big, NULL) && take(&big, NULL));
	assert_false(take(&big, NULL));
	assert_true(lease_give(leases, &big, &one, a.at, now));
	assert_false(lease_give(
	    leases, &big, &one, a.at, now + LEASE_LIFE_MS)); /* over */
}

static void
test_a_draft_charges_nothing_ahead(void **state)
{
	static const struct limit_cost draft = { 0, 0, 16384 };
	struct limit_answer a = { .left = 90000, .at = at };
	struct limit_cost more;
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		lease_ask(leases, &big, &draft, now, &more);
		lease_allowed(leases, &big, &more, LIMIT_HOUR, &a, now, now);
		assert_memory_equal(&more, &none, sizeof(more));
	}
	/* nor is what messages have ahead spent on it */
	(void)ask(&big, 90000);
	assert_int_equal(ask(&big, 90000).messages, 2);
	assert_int_equal(lease_take(leases, &big, &draft, now, &a), -1);
	assert_true(take(&big, NULL));
	assert_true(take(&big, NULL));
	assert_false(take(&big, NULL));
}

static void
test_the_table_is_bounded(void **state)
{
	struct limit_inbox in = big;
	int64_t i;

	(void)state;
	for (i = 1; i <= LEASE_MAX; i++) {
		in.inbox = i;
		(void)ask(&in, 90000);
		assert_int_equal(ask(&in, 90000).messages, 2);
	}
	in.inbox = 1;
	assert_true(take(&in, NULL));
	assert_int_equal(backs, 0);
	in.inbox = LEASE_MAX + 1;
	(void)ask(&in, 90000);
	assert_int_equal(backs, 1);
	in.inbox = 2;
	assert_false(take(&in, NULL));
	in.inbox = 1;
	assert_true(take(&in, NULL));
	in.inbox = LEASE_MAX + 1;
	assert_int_equal(ask(&in, 90000).messages, 2);
	leases_drop(leases);
	assert_int_equal(back.messages, 2 * LEASE_MAX);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_it_grows_while_it_is_used_up),
		T(test_only_the_busy_and_far_from_their_limits),
		T(test_what_does_not_fit_is_asked_for),
		T(test_it_ends_before_the_bucket_does),
		T(test_what_is_left_goes_to_its_own_bucket),
		T(test_the_time_counts_from_the_question),
		T(test_a_refusal_gives_back_and_pauses),
		T(test_it_is_dropped_with_what_it_was_made_for),
		T(test_refunds_go_where_they_belong),
		T(test_a_draft_charges_nothing_ahead),
		T(test_the_table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
