/* SPDX-License-Identifier: ISC */
/* Whose mail is claimed though enough of it waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "deliver/dest.h"

/* Begin as many as may; how many that is. */
static size_t
fill(struct dests *d, const char *domain, uint64_t now)
{
	size_t n = 0;

	while (dest_begin(d, domain, now) == DEST_BEGUN)
		n++;
	return n;
}

static void
end(struct dests *d, const char *domain, size_t n, enum dest_outcome outcome,
    uint64_t now)
{
	while (n-- > 0)
		dest_end(d, domain, false, outcome, now);
}

/* One that has enough of its mail here: `waits` more are turned away. */
static void
turn_away(struct dests *d, const char *domain, size_t waits, uint64_t now)
{
	dests_look(d);
	while (waits-- > 0)
		assert_int_not_equal(dest_begin(d, domain, now), DEST_BEGUN);
}

static bool
is_left_out(const struct dests_due *due, const char *domain)
{
	size_t i;

	for (i = 0; i < due->n && strcmp(due->skip[i], domain) != 0; i++)
		;
	return i < due->n;
}

/* What waits may be one tenant's: a few more are claimed now and then. */
static void
test_others_at_a_full_domain(void **state)
{
	const char *skip[DEST_SKIP_MAX];
	struct dests *d = dests_new(20);
	struct dests_due due;
	uint64_t now = 1000;

	(void)state;
	assert_int_equal(fill(d, "slow.example", now), 1);
	end(d, "slow.example", 1, DEST_REACHED, now);
	assert_int_equal(fill(d, "slow.example", now), 2);
	turn_away(d, "slow.example", 10, now);
	assert_int_equal(dests_skip(d, skip, now), 1);
	dests_claimed(d, now);
	/* A place was given back. */
	assert_true(dest_is_due(d, "slow.example", now));
	assert_true(dests_due(d, &due, now, false));
	assert_int_equal(due.given, 1);
	assert_false(is_left_out(&due, "slow.example"));
	/* Not since then; and not so soon, though mail has come. */
	assert_false(dest_is_due(d, "slow.example", now + 1000));
	assert_false(dests_due(d, &due, now + 1, true));
	assert_true(is_left_out(&due, "slow.example"));
	assert_true(dests_due(d, &due, now + 100, true));
	assert_int_equal(due.given, 0);
	/* Nor for more and more of the same. */
	turn_away(d, "slow.example", 100, now);
	assert_false(dests_due(d, &due, now + 200, true));
	turn_away(d, "slow.example", 10, now);
	assert_true(dests_due(d, &due, now + 300, true));
	/* A claim that did not leave it out was one, too. */
	dests_look(d);
	assert_int_equal(dests_skip(d, skip, now + 400), 0);
	dests_claimed(d, now + 400);
	turn_away(d, "slow.example", 10, now);
	assert_false(dests_due(d, &due, now + 401, true));
	dests_free(d);
}

/* Nor is one that is closed asked for. */
static void
test_others_at_a_closed_domain(void **state)
{
	struct dests *d = dests_new(20);
	struct dests_due due;
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(dest_begin(d, "dead.example", 0), DEST_BEGUN);
		dest_end(d, "dead.example", false, DEST_UNREACHED, 0);
	}
	turn_away(d, "dead.example", 10, 1000);
	assert_false(dests_due(d, &due, 1000, true));
	assert_true(is_left_out(&due, "dead.example"));
	dests_free(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_at_a_full_domain),
		cmocka_unit_test(test_others_at_a_closed_domain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
