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

/* All mail goes by the smarthost: it has no places to share. */
static void
test_the_smarthost(void **state)
{
	struct house *h = *state;
	struct job *job = xcalloc(1, sizeof(*job));
	struct shares s = {
		.row = { { THEIRS, PLACES, PLACES } }, .n = 1, .dests = h->dests
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
		    test_the_smarthost, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
