/* SPDX-License-Identifier: ISC */
/* admin/press.c: what is kept of a press, and how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "admin/session.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "http/conn.h"

#define PEOPLE 2

struct pages {
	struct admin admin;
	struct http_request req;
	struct admin_who who[PEOPLE];
	struct session_next next[PEOPLE];
};

static int
setup(void **state)
{
	static char path[] = "/pause";
	struct pages *s = xcalloc(1, sizeof(*s));
	size_t i;

	s->admin.loop = loop_new();
	presses_init(&s->admin);
	s->admin.presses.lasts_ms = 1;
	s->req.app = &s->admin;
	s->req.path = path;
	for (i = 0; i < PEOPLE; i++) {
		secret_random(&s->who[i].op.session, OPERATOR_SECRET);
		secret_random(&s->next[i].secret, OPERATOR_SECRET);
	}
	*state = s;
	return 0;
}

static int
teardown(void **state)
{
	struct pages *s = *state;

	presses_clear(&s->admin);
	loop_free(s->admin.loop);
	free(s);
	return 0;
}

static bool
is_kept(const struct pages *s, size_t i)
{
	const struct secret *next = &s->next[i].secret;
	const char *at = (const char *)s->admin.presses.row;
	const char *end = at + sizeof(s->admin.presses.row) - next->n;

	for (; at <= end; at++)
		if (memcmp(at, next->b, next->n) == 0)
			return true;
	return false;
}

static void
test_the_next_secret_goes_by_itself(void **state)
{
	struct pages *s = *state;
	size_t i;

	for (i = 0; i < PEOPLE; i++) {
		press_begin(&s->req, &s->who[i], &s->next[i]);
		press_turned(&s->admin, &s->who[i]);
	}
	/* The loop ends when there is nothing to wait for. */
	press_end(&s->admin, &s->who[0], NULL);
	loop_run(s->admin.loop);
	assert_false(is_kept(s, 0));
	assert_true(is_kept(s, 1));
	press_end(&s->admin, &s->who[1], "/pause?said=changed");
	loop_run(s->admin.loop);
	assert_false(is_kept(s, 1));
}

static void
test_a_press_is_known_until_then(void **state)
{
	struct pages *s = *state;
	struct secret session = s->who[0].op.session;

	s->admin.presses.lasts_ms = 60000;
	press_begin(&s->req, &s->who[0], &s->next[0]);
	press_turned(&s->admin, &s->who[0]);
	press_end(&s->admin, &s->who[0], NULL);
	press_follow(&s->admin, &session);
	assert_true(secret_eq(&session, &s->next[0].secret));
	assert_true(is_kept(s, 0));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_the_next_secret_goes_by_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_press_is_known_until_then, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
