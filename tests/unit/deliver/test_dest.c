/* SPDX-License-Identifier: ISC */
/* What a destination gets: more when it works, less when not, its share. */
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

static void
test_adapts(void **state)
{
	struct dests *d = dests_new(100);
	size_t n = 0, i;

	(void)state;
	assert_int_equal(fill(d, "a.example", 0), 1);
	end(d, "a.example", 1, DEST_REACHED, 0);
	assert_int_equal(fill(d, "a.example", 0), 2);
	end(d, "a.example", 2, DEST_REACHED, 0);
	assert_int_equal(fill(d, "a.example", 0), 4);
	end(d, "a.example", 4, DEST_BUSY, 0);
	assert_int_equal(fill(d, "a.example", 0), 1);
	end(d, "a.example", 1, DEST_NOTHING, 0);
	for (i = 0; i < 30; i++) {
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
		dest_end(d, "a.example", false, DEST_REACHED, 0);
	}
	n = fill(d, "a.example", 0);
	assert_int_equal(n, 20);
	end(d, "a.example", n, DEST_NOTHING, 0);
	dests_free(d);
}

static void
test_closes_and_tries_again(void **state)
{
	struct dests *d = dests_new(100);
	uint64_t now = 1000, shut = 60000;
	const char *skip[DEST_SKIP_MAX];
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(dest_closed_ms(d, "dead.example", now), 0);
		assert_int_equal(
		    dest_begin(d, "dead.example", now), DEST_BEGUN);
		dest_end(d, "dead.example", false, DEST_UNREACHED, now);
	}
	for (i = 0; i < 6; i++) {
		assert_int_equal(dest_closed_ms(d, "dead.example", now), shut);
		assert_int_not_equal(
		    dest_begin(d, "dead.example", now), DEST_BEGUN);
		assert_int_equal(dests_skip(d, skip, now), 1);
		assert_string_equal(skip[0], "dead.example");
		now += shut;
		/* One finds out, and only one. */
		dests_look(d);
		assert_int_equal(dests_skip(d, skip, now), 0);
		assert_int_equal(fill(d, "dead.example", now), 1);
		assert_int_equal(dests_skip(d, skip, now), 1);
		dest_end(d, "dead.example", false, DEST_UNREACHED, now);
		shut = shut * 2 > 600000 ? 600000 : shut * 2;
	}
	now += shut;
	assert_int_equal(fill(d, "dead.example", now), 1);
	dest_end(d, "dead.example", false, DEST_REACHED, now);
	assert_int_equal(dest_closed_ms(d, "dead.example", now), 0);
	assert_true(fill(d, "dead.example", now) >= 2);
	dests_free(d);
}

/* Claim what is due unless it is left out, as the worker does. */
static size_t
claim(struct dests *d, size_t due, uint64_t now)
{
	const char *skip[DEST_SKIP_MAX];

	return dests_skip(d, skip, now) == 0 ? due : 0;
}

/* Its other mail, due meanwhile, would only be given back. */
static void
test_one_tries_alone(void **state)
{
	static const enum dest_outcome tries[] = { DEST_UNREACHED, DEST_NOTHING,
		DEST_BUSY, DEST_UNREACHED, DEST_REACHED };
	struct dests *d = dests_new(100);
	uint64_t now = 1000;
	size_t i, claimed = 0;

	(void)state;
	for (i = 0; i < 3; i++) {
		dest_begin(d, "dead.example", now);
		dest_end(d, "dead.example", false, DEST_UNREACHED, now);
	}
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		now += dest_closed_ms(d, "dead.example", now);
		dests_look(d);
		assert_int_equal(claim(d, 1, now), 1);
		assert_int_equal(
		    dest_begin(d, "dead.example", now), DEST_BEGUN);
		claimed += claim(d, 49, now + 1);
		claimed += claim(d, 49, now + 300000);
		dest_end(d, "dead.example", false, tries[i], now);
		assert_int_equal(dest_is_wanted(d, "dead.example", now),
		    tries[i] != DEST_UNREACHED);
		dests_look(d);
		assert_int_equal(
		    claim(d, 49, now), tries[i] != DEST_UNREACHED ? 49 : 0);
	}
	assert_int_equal(claimed, 0);
	dests_free(d);
}

static void
test_what_began_before_closes_once(void **state)
{
	struct dests *d = dests_new(100);
	size_t i, n;

	(void)state;
	for (i = 0; i < 10; i++) {
		assert_int_equal(dest_begin(d, "x.example", 0), DEST_BEGUN);
		dest_end(d, "x.example", false, DEST_REACHED, 0);
	}
	n = fill(d, "x.example", 0);
	assert_int_equal(n, 11);
	end(d, "x.example", n, DEST_UNREACHED, 5);
	assert_int_equal(dest_closed_ms(d, "x.example", 5), 60000);
	dests_free(d);
}

/* However many are dead, they take no place from those that are well. */
static void
test_the_dead_leave_room(void **state)
{
	struct dests *d = dests_new(20);
	size_t n = 0;
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 30; i++) {
		assert_int_equal(dest_begin(d, "live.example", 0), DEST_BEGUN);
		dest_end(d, "live.example", false, DEST_REACHED, 0);
	}
	for (i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "dead%d.example", i);
		n += fill(d, name, 0);
	}
	assert_int_equal(n, 20 * DEST_UNPROVEN_SHARE);
	assert_int_equal(dest_begin(d, "dead150.example", 0), DEST_UNPROVEN);
	assert_true(dests_have_room(d));
	assert_int_equal(fill(d, "live.example", 0), 20);
	assert_false(dests_have_room(d));
	/* One that answers counts with those that are well, from then on. */
	dest_end(d, "dead0.example", false, DEST_REACHED, 0);
	assert_int_equal(dest_begin(d, "dead0.example", 0), DEST_FULL);
	dest_end(d, "live.example", false, DEST_UNREACHED, 0);
	assert_true(dests_have_room(d));
	assert_int_equal(fill(d, "dead0.example", 0), 2);
	dests_free(d);
}

/* Nor does one that took something, and then answers slowly. */
static void
test_the_slow_leave_room(void **state)
{
	struct dests *d = dests_new(20);
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 30; i++) {
		assert_int_equal(dest_begin(d, "tar.example", 0), DEST_BEGUN);
		dest_end(d, "tar.example", false, DEST_REACHED, 0);
	}
	assert_int_equal(dest_begin(d, "live.example", 0), DEST_BEGUN);
	dest_end(d, "live.example", false, DEST_REACHED, 0);
	assert_int_equal(fill(d, "tar.example", 0), 20);
	assert_int_equal(dest_begin(d, "live.example", 0), DEST_FULL);
	for (i = 0; i < 20; i++)
		assert_int_equal(dest_slow(d, "tar.example", true), DEST_MOVED);
	assert_int_equal(fill(d, "tar.example", 0), 0);
	assert_int_equal(fill(d, "live.example", 0), 2);
	/* Its success, or its failure, moves no session that is slow. */
	dest_end(d, "tar.example", true, DEST_REACHED, 0);
	assert_int_equal(fill(d, "tar.example", 0), 1);
	dest_end(d, "tar.example", false, DEST_UNREACHED, 0);
	dest_end(d, "tar.example", true, DEST_REACHED, 0);
	assert_true(dests_have_room(d));
	for (i = 0; i < 18; i++)
		dest_end(d, "tar.example", true, DEST_NOTHING, 0);
	assert_int_equal(fill(d, "live.example", 0), 0);
	/* All is as it was: twenty places, and those of the unproven. */
	end(d, "live.example", 2, DEST_NOTHING, 0);
	for (i = 0; i < 20 * DEST_UNPROVEN_SHARE; i++) {
		(void)snprintf(name, sizeof(name), "dead%d.example", i);
		assert_int_equal(dest_begin(d, name, 0), DEST_BEGUN);
		assert_int_equal(dest_slow(d, name, true),
		    i + 1 < 20 * DEST_UNPROVEN_SHARE ? DEST_STAYS : DEST_ENDS);
	}
	/* No place left there: it stays while nobody waits, else it ends. */
	assert_int_equal(fill(d, "live.example", 0), 2);
	assert_int_equal(dest_slow(d, "live.example", false), DEST_STAYS);
	assert_int_equal(dest_slow(d, "live.example", true), DEST_ENDS);
	assert_int_equal(dest_slow(d, "", true), DEST_STAYS);
	dests_free(d);
}

/* Long before that, one that took all places leaves some to others. */
static void
test_the_long_leave_room(void **state)
{
	struct dests *d = dests_new(20);
	char name[32];
	int i, n;

	(void)state;
	for (i = 0; i < 30; i++) {
		assert_int_equal(dest_begin(d, "tar.example", 0), DEST_BEGUN);
		dest_end(d, "tar.example", false, DEST_REACHED, 0);
	}
	assert_int_equal(fill(d, "tar.example", 0), 20);
	for (i = 0; i < 20; i++)
		assert_true(dest_long(d, "tar.example"));
	assert_true(dests_have_room(d));
	assert_int_equal(fill(d, "tar.example", 0), 0);
	/* It fills half of the places of the unproven, with others or not. */
	for (n = 20; n < 10 * DEST_UNPROVEN_SHARE; n++) {
		(void)snprintf(name, sizeof(name), "new%d.example", n);
		assert_int_equal(dest_begin(d, name, 0), DEST_BEGUN);
		assert_false(dest_long(d, name));
	}
	dest_end(d, "new20.example", false, DEST_REACHED, 0);
	assert_int_equal(dest_begin(d, "new20.example", 0), DEST_BEGUN);
	assert_true(dest_long(d, "new20.example"));
	assert_int_equal(dest_begin(d, "new20.example", 0), DEST_BEGUN);
	assert_false(dest_long(d, "new20.example"));
	/* What goes to no host, or by the smarthost, stays. */
	assert_false(dest_long(d, ""));
	assert_false(dest_long(d, DEST_SMARTHOST));
	dests_free(d);
}

/* Some wait for their domain; the next of them are asked for in time. */
static void
test_who_waits(void **state)
{
	struct dests *d = dests_new(100);
	const char *skip[DEST_SKIP_MAX];
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
		dest_end(d, "a.example", false, DEST_REACHED, 0);
	}
	dests_look(d);
	for (i = 0; i < 3; i++)
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
	/* None waits yet, so there is use for more. */
	assert_int_equal(dests_skip(d, skip, 0), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_NEXT);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEHIND);
	assert_false(dest_is_wanted(d, "a.example", 0));
	assert_int_equal(dests_skip(d, skip, 0), 1);
	assert_string_equal(skip[0], "a.example");
	assert_false(dest_is_wanted(d, "a.example", 0));
	assert_false(dest_is_wanted(d, "b.example", 0));
	/* Where all places are taken, few of a domain count as work at hand. */
	dest_end(d, "a.example", false, DEST_NOTHING, 0);
	dests_set_places(d, 2);
	dests_look(d);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_FULL);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_NEXT);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_NEXT);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEHIND);
	dests_set_places(d, 100);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
	assert_int_equal(dests_skip(d, skip, 0), 1);
	/* Two of the four have begun: they are counted anew. */
	dests_look(d);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_NEXT);
	assert_int_equal(dest_begin(d, "a.example", 0), DEST_NEXT);
	assert_true(dest_is_wanted(d, "a.example", 0));
	assert_int_equal(dests_skip(d, skip, 0), 0);
	/* It was not left out, so nobody need ask once more for it. */
	assert_false(dest_is_wanted(d, "a.example", 0));
	end(d, "a.example", 3, DEST_NOTHING, 0);
	dests_free(d);
}

/* Nobody asks again for what there is beyond a domain, until there may be. */
static void
test_nothing_else(void **state)
{
	struct dests *d = dests_new(100);
	const char *skip[DEST_SKIP_MAX];

	(void)state;
	assert_true(dests_seek(d));
	dests_look(d);
	(void)fill(d, "a.example", 0);
	(void)fill(d, "b.example", 0);
	assert_int_equal(dests_skip(d, skip, 0), 2);
	assert_true(dests_seek(d));
	dests_found_nothing(d);
	assert_true(dest_is_beyond(d, "a.example"));
	assert_false(dest_is_beyond(d, "c.example"));
	assert_false(dests_seek(d));
	/* More are left out: still nothing. */
	(void)fill(d, "c.example", 0);
	assert_int_equal(dests_skip(d, skip, 0), 3);
	assert_false(dests_seek(d));
	/* One is not any more: it may have some. */
	dest_end(d, "b.example", false, DEST_REACHED, 0);
	dests_look(d);
	(void)dests_skip(d, skip, 0);
	assert_true(dests_seek(d));
	(void)fill(d, "a.example", 0);
	(void)fill(d, "b.example", 0);
	(void)fill(d, "b.example", 0);
	(void)dests_skip(d, skip, 0);
	assert_false(dests_seek(d));
	dests_may_find(d);
	assert_true(dests_seek(d));
	dests_free(d);
}

static void
test_who_has_few(void **state)
{
	struct dests *d = dests_new(8);
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
		dest_end(d, "a.example", false, DEST_REACHED, 0);
	}
	for (i = 0; i < 3; i++) {
		assert_true(dest_has_few(d, "a.example"));
		assert_int_equal(dest_begin(d, "a.example", 0), DEST_BEGUN);
	}
	assert_false(dest_has_few(d, "a.example"));
	assert_true(dest_has_few(d, "b.example"));
	assert_true(dest_has_few(d, ""));
	end(d, "a.example", 3, DEST_NOTHING, 0);
	dests_free(d);
}

static void
test_forgets(void **state)
{
	struct dests *d = dests_new(100000);
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "d%d.example", i);
		assert_int_equal(
		    dest_begin(d, name, (uint64_t)i * 1000), DEST_BEGUN);
		dest_end(d, name, false, DEST_REACHED, (uint64_t)i * 1000);
	}
	/* The oldest is new again. */
	assert_int_equal(fill(d, "d0.example", 20000000), 1);
	end(d, "d0.example", 1, DEST_NOTHING, 20000000);
	assert_int_equal(fill(d, "d19999.example", 20000000), 2);
	dests_free(d);
}

/* Reached in vain three times. */
static void
kill_it(struct dests *d, const char *way, uint64_t now)
{
	int i;

	for (i = 0; i < 3; i++) {
		assert_int_equal(dest_closed_ms(d, way, now), 0);
		assert_int_equal(dest_begin(d, way, now), DEST_BEGUN);
		dest_end(d, way, false, DEST_UNREACHED, now);
	}
}

/* Much may wait for a rule's host: it is asked once a minute, not more. */
static void
test_a_rules_host(void **state)
{
	struct dests *d = dests_new(100);
	uint64_t now = 1000;
	int i;

	(void)state;
	kill_it(d, "#7", now);
	for (i = 0; i < 12; i++) {
		assert_int_equal(dest_closed_ms(d, "#7", now), 60000);
		now += 60000;
		assert_int_equal(fill(d, "#7", now), 1);
		dest_end(d, "#7", false, DEST_UNREACHED, now);
	}
	now += 60000;
	assert_int_equal(fill(d, "#7", now), 1);
	dest_end(d, "#7", false, DEST_REACHED, now);
	/* As a domain: one more after each success. */
	assert_int_equal(fill(d, "#7", now), 2);
	/* Another rule, maybe of the same host, is another way. */
	assert_int_equal(dest_closed_ms(d, "#8", now), 0);
	end(d, "#7", 2, DEST_NOTHING, now);
	dests_free(d);
}

/* The smarthost takes what it gets, until it is dead. */
static void
test_the_smarthost(void **state)
{
	struct dests *d = dests_new(40);
	const char *out[DEST_SKIP_MAX];
	uint64_t now = 1000;
	int i;

	(void)state;
	assert_int_equal(fill(d, "*", now), 40);
	assert_int_equal(dest_begin(d, "*", now), DEST_FULL);
	assert_true(dest_has_few(d, "*"));
	for (i = 0; i < 60; i++)
		assert_int_equal(dest_begin(d, "*", now), DEST_FULL);
	assert_int_equal(dests_skip(d, out, now), 0);
	assert_int_equal(dest_slow(d, "*", true), DEST_STAYS);
	end(d, "*", 20, DEST_BUSY, now);
	assert_int_equal(fill(d, "*", now), 20);
	end(d, "*", 40, DEST_UNREACHED, now);
	assert_true(dests_have_room(d));
	for (i = 0; i < 5; i++) {
		assert_int_equal(dest_closed_ms(d, "*", now), 60000);
		assert_int_equal(dests_skip(d, out, now), 1);
		assert_string_equal(out[0], "*");
		now += 60000;
		dests_look(d);
		assert_int_equal(dests_skip(d, out, now), 0);
		/* One finds out; what else was claimed need not wait here. */
		assert_int_equal(dest_begin(d, "*", now), DEST_BEGUN);
		assert_int_equal(dest_begin(d, "*", now), DEST_TRIED);
		assert_int_equal(dest_begin(d, "*", now), DEST_TRIED);
		assert_int_equal(dests_skip(d, out, now), 1);
		dest_end(d, "*", false, DEST_UNREACHED, now);
	}
	now += 60000;
	assert_int_equal(dest_begin(d, "*", now), DEST_BEGUN);
	dest_end(d, "*", false, DEST_REACHED, now);
	assert_int_equal(fill(d, "*", now), 40);
	end(d, "*", 40, DEST_NOTHING, now);
	assert_int_equal(fill(d, "", now), 40);
	dests_free(d);
}

/* A host that takes so many sessions and refuses the rest is not dead. */
static void
test_who_takes_some(void **state)
{
	static const char *const ways[] = { "a.example", "#7", "*" };
	struct dests *d = dests_new(40);
	size_t i, n;

	(void)state;
	for (i = 0; i < 3; i++) {
		for (n = 0; n < 9; n++) {
			assert_int_equal(dest_begin(d, ways[i], 0), DEST_BEGUN);
			dest_end(d, ways[i], false, DEST_REACHED, 0);
		}
		for (n = 0; n < 10; n++)
			assert_int_equal(dest_begin(d, ways[i], 0), DEST_BEGUN);
		end(d, ways[i], 3, DEST_UNREACHED, 0);
		assert_int_equal(dest_closed_ms(d, ways[i], 1), 59999);
		end(d, ways[i], 1, DEST_REACHED, 1);
		assert_int_equal(dest_closed_ms(d, ways[i], 1), 0);
		end(d, ways[i], 6, DEST_NOTHING, 1);
		assert_int_equal(dest_begin(d, ways[i], 1), DEST_BEGUN);
		dest_end(d, ways[i], false, DEST_NOTHING, 1);
	}
	dests_free(d);
}

/* Much hangs on them, so they are left out before any domain is. */
static void
test_named_first(void **state)
{
	struct dests *d = dests_new(5000);
	const char *out[DEST_SKIP_MAX];
	char name[32];
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "dead%d.example", i);
		kill_it(d, name, 0);
	}
	kill_it(d, "#7", 0);
	kill_it(d, "*", 0);
	assert_int_equal(dests_skip(d, out, 1), DEST_SKIP_MAX);
	assert_string_equal(out[0], "*");
	assert_string_equal(out[1], "#7");
	assert_string_not_equal(out[2], "#7");
	dests_free(d);
}

/* Whoever mended something need not wait for what was learned before. */
static void
test_opens(void **state)
{
	static const char *const ways[] = { "a.example", "#7", "*" };
	struct dests *d = dests_new(100);
	const char *out[DEST_SKIP_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		kill_it(d, ways[i], 0);
	assert_int_equal(dests_skip(d, out, 0), 3);
	dests_found_nothing(d);
	(void)dests_skip(d, out, 0);
	assert_false(dests_seek(d));
	dests_open(d);
	assert_int_equal(dests_skip(d, out, 0), 0);
	assert_true(dests_seek(d));
	for (i = 0; i < 3; i++)
		kill_it(d, ways[i], 0);
	assert_int_equal(dest_closed_ms(d, "a.example", 0), 60000);
	dests_free(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adapts),
		cmocka_unit_test(test_closes_and_tries_again),
		cmocka_unit_test(test_one_tries_alone),
		cmocka_unit_test(test_what_began_before_closes_once),
		cmocka_unit_test(test_the_dead_leave_room),
		cmocka_unit_test(test_the_slow_leave_room),
		cmocka_unit_test(test_the_long_leave_room),
		cmocka_unit_test(test_who_waits),
		cmocka_unit_test(test_nothing_else),
		cmocka_unit_test(test_who_has_few),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_a_rules_host),
		cmocka_unit_test(test_the_smarthost),
		cmocka_unit_test(test_who_takes_some),
		cmocka_unit_test(test_named_first),
		cmocka_unit_test(test_opens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
