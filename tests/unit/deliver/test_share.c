/* SPDX-License-Identifier: ISC */
/* What one tenant has of the places, when its hosts hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "base/clock.h"
#include "deliver/client.h"
#include "deliver/job_internal.h"
#include "deliver/share.h"

#define PLACES 20
#define JOBS 200

enum { THEIRS = 1, OURS };

/* Jobs as the worker has them; none does anything. */
struct house {
	struct job_context ctx;
	struct dests *dests;
	struct job *jobs[JOBS];
	size_t n;
};

static int
setup(void **state)
{
	struct house *h = xcalloc(1, sizeof(*h));

	h->dests = dests_new(PLACES);
	*state = h;
	return 0;
}

static int
teardown(void **state)
{
	struct house *h = *state;

	while (h->n > 0)
		free(h->jobs[--h->n]);
	dests_free(h->dests);
	free(h);
	return 0;
}

/* The domain took so much that all places could be its own. */
static void
prove(struct house *h, const char *domain)
{
	int i;

	for (i = 0; i < PLACES; i++) {
		assert_int_equal(dest_begin(h->dests, domain, 0), DEST_BEGUN);
		dest_end(h->dests, domain, false, DEST_REACHED, 0);
	}
}

/* As many as may begin; each wants a place as the worker gives it. */
static size_t
fill(struct house *h, int64_t tenant, const char *domain)
{
	struct shares s;
	struct job *job;
	size_t n = 0;

	for (;;) {
		assert_true(h->n < JOBS);
		job = xcalloc(1, sizeof(*job));
		job->ctx = &h->ctx;
		job->lease.tenant = tenant;
		(void)snprintf(
		    job->lease.domain, sizeof(job->lease.domain), "%s", domain);
		shares_count(&s, h->jobs, h->n, h->dests);
		if (share_begin(&s, h->dests, job, 0) != DEST_BEGUN)
			break;
		job->place = job->lease.domain;
		h->jobs[h->n++] = job;
		n++;
	}
	free(job);
	return n;
}

/* All take longer than a second, and no place is left. */
static void
hang(struct house *h)
{
	size_t i;

	assert_false(dests_have_room(h->dests));
	for (i = 0; i < h->n; i++)
		if (!h->jobs[i]->slow)
			h->jobs[i]->slow =
			    dest_long(h->dests, h->jobs[i]->place);
}

static void
end(struct house *h, int64_t tenant)
{
	size_t i;

	for (i = 0; i < h->n; i++) {
		struct job *job = h->jobs[i];

		if (job->place == NULL || job->lease.tenant != tenant)
			continue;
		dest_end(h->dests, job->place, job->slow, DEST_NOTHING, 0);
		job->place = NULL;
	}
}

static void
test_hosts_that_hang(void **state)
{
	static const char *const hosts[] = { "a.example", "b.example",
		"c.example", "d.example", "e.example" };
	const size_t n = sizeof(hosts) / sizeof(hosts[0]);
	struct house *h = *state;
	size_t i;

	prove(h, "live.example");
	for (i = 0; i < n; i++)
		prove(h, hosts[i]);
	/* One that is alone has all, while some can be moved. */
	for (i = 0; i < 3; i++) {
		assert_int_equal(fill(h, THEIRS, hosts[i]), PLACES);
		hang(h);
	}
	for (; i < n; i++)
		assert_int_equal(
		    fill(h, THEIRS, hosts[i]), i == 3 ? PLACES / 2 : 0);
	/* What is new, and has a place of its own, begins; so do others. */
	assert_int_equal(fill(h, THEIRS, "new.example"), 1);
	assert_true(dests_have_room(h->dests));
	assert_int_equal(fill(h, OURS, "live.example"), PLACES / 2);
	assert_int_equal(fill(h, OURS, "live.example"), 0);
	/* Who has no sessions that take long has no share. */
	end(h, THEIRS);
	assert_int_equal(fill(h, OURS, "a.example"), PLACES / 2);
	assert_false(dests_have_room(h->dests));
	end(h, OURS);
	assert_int_equal(fill(h, THEIRS, "e.example"), PLACES);
}

/* Whoever sends to many domains that are new leaves room for others' first
 * mail to one: a quarter of these places. */
static void
test_new_domains(void **state)
{
	const size_t most = PLACES * DEST_UNPROVEN_SHARE * 3 / 4;
	struct house *h = *state;
	struct shares s;
	size_t i, begun = 0;

	for (h->n = 0; h->n < most + 20; h->n++) {
		struct job *job = xcalloc(1, sizeof(*job));

		h->jobs[h->n] = job;
		job->ctx = &h->ctx;
		job->lease.tenant = THEIRS;
		(void)snprintf(job->lease.domain, sizeof(job->lease.domain),
		    "d%zu.example", h->n);
	}
	/* All in one look at the line. */
	shares_count(&s, h->jobs, h->n, h->dests);
	for (i = 0; i < h->n; i++) {
		if (share_begin(&s, h->dests, h->jobs[i], 0) != DEST_BEGUN)
			continue;
		h->jobs[i]->place = h->jobs[i]->lease.domain;
		begun++;
	}
	assert_int_equal(begun, most);
	shares_count(&s, h->jobs, h->n, h->dests);
	assert_int_equal(
	    share_begin(&s, h->dests, h->jobs[h->n - 1], 0), DEST_UNPROVEN);
	assert_int_equal(fill(h, OURS, "ours.example"), 1);
	/* One that was given back is theirs again. */
	dest_end(h->dests, h->jobs[0]->place, false, DEST_NOTHING, 0);
	h->jobs[0]->place = NULL;
	shares_count(&s, h->jobs, h->n, h->dests);
	assert_int_equal(share_begin(&s, h->dests, h->jobs[0], 0), DEST_BEGUN);
}

/* What waits for a tenant's share keeps no other's from being claimed. */
static void
test_others_are_claimed(void **state)
{
	static const char *const hosts[] = { "a.example", "b.example",
		"c.example", "d.example" };
	struct house *h = *state;
	struct dests_due due;
	const char *skip[DEST_SKIP_MAX];
	struct shares s;
	struct job *job = xcalloc(1, sizeof(*job));
	uint64_t now = 1000;
	size_t i;

	prove(h, "live.example");
	for (i = 0; i < 4; i++)
		prove(h, hosts[i]);
	for (i = 0; i < 3; i++) {
		(void)fill(h, THEIRS, hosts[i]);
		hang(h);
	}
	assert_int_equal(fill(h, THEIRS, hosts[3]), PLACES / 2);
	job->ctx = &h->ctx;
	job->lease.tenant = THEIRS;
	(void)snprintf(
	    job->lease.domain, sizeof(job->lease.domain), "%s", "live.example");
	shares_count(&s, h->jobs, h->n, h->dests);
	dests_look(h->dests);
	for (i = 0; i < 3 * PLACES; i++)
		assert_int_equal(
		    share_begin(&s, h->dests, job, now), DEST_BEHIND);
	/* Enough of theirs waits; now and then a few more are asked for. */
	(void)dests_skip(h->dests, skip, now);
	dests_claimed(h->dests, now);
	assert_true(dests_due(h->dests, &due, now, false));
	for (i = 0; i < due.n; i++)
		assert_string_not_equal(due.skip[i], "live.example");
	assert_false(dests_due(h->dests, &due, now, false));
	assert_true(dests_due(h->dests, &due, now + 100, false));
	/* Theirs would fill the line for that: it goes back. */
	for (i = 0; i < 10 * PLACES &&
		    share_begin(&s, h->dests, job, now) == DEST_BEHIND;
	     i++)
		;
	assert_int_equal(share_begin(&s, h->dests, job, now), DEST_LEFT);
	assert_true(dests_due(h->dests, &due, now + 200, false));
	assert_int_equal(fill(h, OURS, "live.example"), PLACES / 2);
	free(job);
}

static size_t aborted;

void __wrap_client_abort(struct client *c, const char *why);

void
__wrap_client_abort(struct client *c, const char *why)
{
	(void)c;
	assert_non_null(why);
	aborted++;
}

/*
 * Hosts of those that are well have all places of the unproven with sessions
 * that are slow: some end, as many as others wait, and none that had its dot.
 */
static void
test_slow_ones_end(void **state)
{
	char name[32];
	struct house *h = *state;
	size_t i, k;
	int client;

	for (i = 0; i < 6; i++) {
		(void)snprintf(name, sizeof(name), "h%zu.example", i);
		prove(h, name);
		assert_int_equal(fill(h, 10 + (int)i, name), PLACES);
		for (k = 0; k < h->n; k++) {
			struct job *job = h->jobs[k];

			job->client = (struct client *)(void *)&client;
			job->began_ms =
			    (int64_t)clock_mono_ms() - DEST_SLOW_MS - 1000;
		}
		jobs_make_place(h->jobs, h->n, h->dests);
	}
	for (i = 0; i < h->n; i++)
		assert_true(h->jobs[i]->slow);
	assert_int_equal(aborted, 0);
	/* Nobody waits. */
	jobs_make_place(h->jobs, h->n, h->dests);
	assert_int_equal(aborted, 0);
	dests_look(h->dests);
	assert_int_equal(dest_begin(h->dests, "x.example", 0), DEST_UNPROVEN);
	assert_int_equal(dest_begin(h->dests, "y.example", 0), DEST_UNPROVEN);
	h->jobs[0]->phase = JOB_GATED;
	jobs_make_place(h->jobs, h->n, h->dests);
	assert_int_equal(aborted, 2);
	for (i = 0; i < h->n; i++)
		h->jobs[i]->client = NULL;
}

/* All mail goes by the smarthost: it has no places to share. */
static void
test_the_smarthost(void **state)
{
	struct house *h = *state;
	struct job *job = xcalloc(1, sizeof(*job));
	struct shares s = {
		.row = { { .tenant = THEIRS,
		    .active = PLACES,
		    .slow = PLACES } },
		.n = 1,
		.dests = h->dests,
		.crowded = true,
	};
	int i;

	job->lease.tenant = THEIRS;
	(void)snprintf(
	    job->lease.way, sizeof(job->lease.way), "%s", DEST_SMARTHOST);
	assert_true(shares_are_taken(&s, THEIRS));
	assert_false(shares_are_taken(&s, OURS));
	for (i = 0; i < PLACES; i++)
		assert_int_equal(share_begin(&s, h->dests, job, 0), DEST_BEGUN);
	assert_int_equal(share_begin(&s, h->dests, job, 0), DEST_FULL);
	free(job);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_hosts_that_hang, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_new_domains, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_others_are_claimed, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_slow_ones_end, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_the_smarthost, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
