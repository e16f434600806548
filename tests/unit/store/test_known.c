/* SPDX-License-Identifier: ISC */
/* test_known.c - how long, and for whom, an answer about a key counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/known.h"

static struct known *known;
static struct secret right, wrong;
static uint64_t now;

bool
store_cred_alive(const struct store_cred *cred)
{
	return !cred->revoked;
}

static int
set_up(void **state)
{
	(void)state;
	known = known_new();
	secret_random(&right, 32);
	secret_random(&wrong, 32);
	now = 1000000;
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	known_free(known);
	return 0;
}

static struct store_cred
answer(int64_t tenant, int64_t key)
{
	struct store_cred c = { .tenant = tenant, .key = key, .inbox = 7 };

	secret_random(&c.proof, 24);
	secret_random(&c.idem, 32);
	c.mode_epoch = 3;
	c.asked_ms = now;
	return c;
}

/* What a new connection knows: numbers, and what its own key gives. */
static struct store_cred
question(int64_t tenant, int64_t key, const struct secret *a)
{
	struct store_cred c = { .tenant = tenant, .key = key, .proof = *a };

	secret_random(&c.idem, 32);
	c.store = (struct store *)&known; /* any pointer: it must stay */
	return c;
}

static bool
knows(int64_t tenant, int64_t key, const struct secret *a)
{
	struct store_cred c = question(tenant, key, a);

	return known_get(known, a, true, &c, now);
}

static void
test_facts_and_handle(void **state)
{
	struct store_cred c = answer(1, 2), q = question(1, 2, &right);
	struct secret idem = q.idem;

	(void)state;
	known_put(known, &right, &c);
	assert_true(known_get(known, &right, true, &q, now));
	assert_int_equal(q.inbox, 7);
	assert_int_equal(q.mode_epoch, 3);
	assert_int_equal(q.asked_ms, now);
	assert_true(secret_eq(&q.proof, &c.proof));
	assert_true(secret_eq(&q.idem, &idem));
	assert_ptr_equal(q.store, &known);
}

static void
test_only_with_the_key(void **state)
{
	struct store_cred c = answer(1, 2), q = question(1, 2, &wrong);

	(void)state;
	known_put(known, &right, &c);
	assert_false(known_get(known, &wrong, true, &q, now));
	assert_true(secret_eq(&q.proof, &wrong));
	assert_int_equal(q.inbox, 0);
	assert_false(knows(1, 3, &right));
	assert_false(knows(2, 2, &right));
	assert_true(knows(1, 2, &right));
}

static void
test_an_answer_alone(void **state)
{
	struct store_cred c = answer(1, 2);

	(void)state;
	known_put(known, &right, &c);
	now += KNOWN_FRESH_MS - 1;
	assert_true(knows(1, 2, &right));
	assert_true(known_fresh(known, &c, now));
	now++;
	assert_false(knows(1, 2, &right));
	assert_false(known_fresh(known, &c, now));
}

static void
test_use_prolongs_up_to_a_second(void **state)
{
	struct store_cred c = answer(1, 2);
	uint64_t end = now + KNOWN_ASK_MS;

	(void)state;
	known_put(known, &right, &c);
	for (now += 50; now < end; now += 50) {
		known_used(known, 1, 2, now);
		assert_true(knows(1, 2, &right));
		assert_true(known_fresh(known, &c, now));
	}
	known_used(known, 1, 2, now);
	assert_false(knows(1, 2, &right));
	assert_false(known_fresh(known, &c, now));
	/* An open connection asked: the second begins again. */
	c.asked_ms = now;
	c.mode_epoch = 4;
	known_renew(known, &c);
	now += KNOWN_FRESH_MS;
	assert_false(knows(1, 2, &right));
	known_used(known, 1, 2, now);
	assert_true(knows(1, 2, &right));
	c = question(1, 2, &right);
	assert_true(known_get(known, &right, true, &c, now));
	assert_int_equal(c.mode_epoch, 4);
}

/* REST shows A each time: A proves it, and is not remembered. */
static void
test_without_a_handle(void **state)
{
	struct store_cred c = answer(1, 2), q = question(1, 2, &right);

	(void)state;
	c.proof = right;
	known_put(known, &right, &c);
	assert_false(known_get(known, &right, true, &q, now));
	assert_int_equal(q.inbox, 0);
	assert_true(known_get(known, &right, false, &q, now));
	assert_int_equal(q.inbox, 7);
	assert_true(secret_eq(&q.proof, &right));
	/* A handle stays through a request's answer. */
	secret_random(&c.proof, 24);
	known_put(known, &right, &c);
	q = question(1, 2, &right);
	q.asked_ms = now;
	known_put(known, &right, &q);
	assert_true(known_get(known, &right, true, &q, now));
	assert_true(secret_eq(&q.proof, &c.proof));
	/* But not for as long as requests come: it ends after ten minutes. */
	now += 4 * 60 * 1000;
	q = question(1, 2, &right);
	q.asked_ms = now;
	known_put(known, &right, &q);
	assert_false(known_get(known, &right, true, &q, now));
	assert_true(known_get(known, &right, false, &q, now));
}

static void
test_refused_or_revoked(void **state)
{
	struct store_cred c = answer(1, 2);

	(void)state;
	known_put(known, &right, &c);
	known_forget(known, 1, 2);
	assert_false(knows(1, 2, &right));
	known_forget(known, 1, 2);
	known_used(known, 1, 2, now);
	known_renew(known, &c);
	assert_false(knows(1, 2, &right));
	c.revoked = true;
	known_put(known, &right, &c);
	assert_false(knows(1, 2, &right));
}

static void
test_a_later_answer_replaces(void **state)
{
	struct store_cred c = answer(1, 2);

	(void)state;
	known_put(known, &right, &c);
	c.mode_epoch = 9;
	known_put(known, &wrong, &c); /* such as after a key was made anew */
	assert_false(knows(1, 2, &right));
	assert_true(knows(1, 2, &wrong));
}

static void
test_the_oldest_goes_first(void **state)
{
	struct store_cred c;
	int64_t i;

	(void)state;
	for (i = 1; i <= KNOWN_MAX + 10; i++) {
		c = answer(1, i);
		known_put(known, &right, &c);
	}
	assert_false(knows(1, 10, &right));
	assert_true(knows(1, 11, &right));
	assert_true(knows(1, KNOWN_MAX + 10, &right));
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	static const struct CMUnitTest tests[] = {
		T(test_facts_and_handle),
		T(test_only_with_the_key),
		T(test_an_answer_alone),
		T(test_use_prolongs_up_to_a_second),
		T(test_without_a_handle),
		T(test_refused_or_revoked),
		T(test_a_later_answer_replaces),
		T(test_the_oldest_goes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
