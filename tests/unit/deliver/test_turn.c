/* SPDX-License-Identifier: ISC */
/* Whose turn is next among what a worker has leased. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "deliver/job_internal.h"
#include "deliver/turn.h"

#define JOBS 200

enum { THEIRS = 1, OURS, OTHERS };

/* Jobs as the line has them; none does anything. */
struct house {
	struct job_context ctx;
	struct job *jobs[JOBS];
	size_t n;
	uint64_t next; /* as the line has it */
};

static int
setup(void **state)
{
	*state = xcalloc(1, sizeof(struct house));
	return 0;
}

static int
teardown(void **state)
{
	struct house *h = *state;

	while (h->n > 0)
		free(h->jobs[--h->n]);
	free(h);
	return 0;
}

static void
add(struct house *h, int64_t tenant, const char *domain)
{
	struct job *job = xcalloc(1, sizeof(*job));
	size_t i;

	assert_true(h->n < JOBS);
	job->ctx = &h->ctx;
	job->lease.tenant = tenant;
	(void)snprintf(
	    job->lease.domain, sizeof(job->lease.domain), "%s", domain);
	i = turn_of(job, h->jobs, h->n, h->next);
	assert_true(i <= h->n);
	memmove(&h->jobs[i + 1], &h->jobs[i], (h->n - i) * sizeof(h->jobs[0]));
	h->jobs[i] = job;
	h->n++;
}

static void
add_many(struct house *h, int64_t tenant, const char *domain, size_t n)
{
	while (n-- > 0)
		add(h, tenant, domain);
}

/* The first that waits, for the domain if it is not NULL. */
static struct job *
first(struct house *h, const char *domain)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		if (job_is_waiting(h->jobs[i]) &&
		    (domain == NULL ||
			strcmp(domain, job_way(h->jobs[i])) == 0))
			return h->jobs[i];
	fail_msg("nobody waits");
	return NULL;
}

/* It begins, as line_go() does it; whose it is. */
static int64_t
begin(struct house *h, const char *domain)
{
	struct job *job = first(h, domain);

	job->place = job_way(job);
	if (job->turn.all > h->next)
		h->next = job->turn.all;
	return job->lease.tenant;
}

/* The one that began first is over. */
static void
end(struct house *h)
{
	size_t i;

	for (i = 0; i < h->n && h->jobs[i]->place == NULL; i++)
		;
	assert_true(i < h->n);
	free(h->jobs[i]);
	h->n--;
	memmove(&h->jobs[i], &h->jobs[i + 1], (h->n - i) * sizeof(h->jobs[0]));
}

static void
test_who_is_alone_goes_in_order(void **state)
{
	struct house *h = *state;
	struct job *job;
	size_t i;

	add(h, THEIRS, "a.example");
	job = h->jobs[0];
	add_many(h, THEIRS, "b.example", 3);
	add_many(h, THEIRS, "a.example", 3);
	assert_ptr_equal(h->jobs[0], job);
	for (i = 1; i < h->n; i++)
		assert_true(h->jobs[i - 1]->turn.all < h->jobs[i]->turn.all);
	for (i = 1; i < 4; i++)
		assert_string_equal(job_way(h->jobs[i]), "b.example");
}

/* One of ours behind all that they have leased, wherever it goes. */
static void
test_one_behind_many(void **state)
{
	static const char *const ways[] = { "a.example", "b.example" };
	struct house *h = *state;
	size_t i, n;

	add_many(h, THEIRS, "a.example", 100);
	for (i = 0; i < 2; i++) {
		for (n = 0; n < 20; n++)
			assert_int_equal(begin(h, NULL), THEIRS);
		add(h, OURS, ways[i]);
		assert_true(begin(h, NULL) == OURS || begin(h, NULL) == OURS);
	}
}

/* Two that have much take turns, at a way with one place, too. */
static void
test_turns(void **state)
{
	struct house *h = *state;
	size_t i, ours = 0;

	add_many(h, THEIRS, "a.example", 50);
	assert_int_equal(begin(h, NULL), THEIRS);
	add_many(h, OURS, "a.example", 50);
	for (i = 0; i < 40; i++) {
		end(h);
		ours += begin(h, NULL) == OURS;
		assert_true(ours >= (i + 1) / 2 && ours <= i / 2 + 1);
	}
	/* Who comes third waits for nobody's fifty. */
	add(h, OTHERS, "a.example");
	end(h);
	for (i = 0; i < 2 && begin(h, NULL) != OTHERS; i++)
		;
	assert_true(i < 2);
}

/* One message after the other is no way to be always next. */
static void
test_one_by_one(void **state)
{
	struct house *h = *state;
	size_t i, ours = 0;

	add_many(h, THEIRS, "a.example", 50);
	assert_int_equal(begin(h, NULL), THEIRS);
	for (i = 0; i < 20; i++) {
		add(h, OURS, "a.example");
		end(h);
		ours += begin(h, NULL) == OURS;
	}
	assert_true(ours >= 9 && ours <= 11);
}

/*
 * What waits for a domain that is full waits with an old turn, while all others
 * go on: there, too, who has nothing is next.
 */
static void
test_a_full_domain_has_turns_of_its_own(void **state)
{
	struct house *h = *state;
	size_t i;

	add_many(h, THEIRS, "full.example", 60);
	for (i = 0; i < 5; i++)
		(void)begin(h, "full.example");
	for (i = 0; i < 100; i++) {
		add(h, i % 2 == 0 ? THEIRS : OURS, "b.example");
		(void)begin(h, "b.example");
		h->jobs[h->n - 1]->phase = JOB_ENDING;
	}
	add(h, OURS, "full.example");
	assert_int_equal(begin(h, "full.example"), OURS);
	/* And their next is before our next. */
	add_many(h, OURS, "full.example", 2);
	assert_int_equal(begin(h, "full.example"), THEIRS);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_who_is_alone_goes_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_one_behind_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_one_by_one, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_full_domain_has_turns_of_its_own, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
