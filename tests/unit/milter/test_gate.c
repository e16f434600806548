/* SPDX-License-Identifier: ISC */
/* Messages take turns at a filter. */
#include "tests/unit/milter/played.h"

static struct milter *
begin_from(struct world *w, const char *from)
{
	static const struct str rcpt[] = { str_lit("a@example.net") };
	const struct milter_mail mail = { "mx.example.org", "msg_1", from, rcpt,
		1 };
	struct milter *m = milter_start(
	    w->loop, &w->conf, w->gate, &mail, on_done, on_room, w);

	assert_true(milter_feed(m, MAIL, sizeof(MAIL) - 1));
	return m;
}

static void
turn(struct world *w, unsigned done)
{
	while (w->done < done)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->done, done);
}

/* Who is over the number waits, in order, and only while it is patient. */
static void
test_gate(void **state)
{
	struct world *w = *state;
	struct milter *m[4];
	size_t i;

	w->gate = milter_gate_new(1);
	for (i = 0; i < 3; i++)
		m[i] = begin_from(w, "bot@example.org");
	event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->accepted, 0); /* not all is there */
	w->mute = true;
	for (i = 0; i < 3; i++)
		milter_finish(m[i]);
	while (w->accepted == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->accepted, 1);
	milter_free(m[1]); /* gives up its turn */
	bufferevent_free(w->peer); /* the first conversation breaks */
	w->peer = NULL;
	w->mute = false;
	turn(w, 2);
	assert_int_equal(milter_result(m[0])->verdict, MILTER_FAILED);
	assert_int_equal(milter_result(m[2])->verdict, MILTER_ACCEPT);
	assert_int_equal(w->accepted, 2);
	milter_free(m[0]);
	milter_free(m[2]);
	/* nobody lets go */
	w->mute = true;
	w->conf.timeout_ms = 5000;
	m[0] = begin_from(w, "bot@example.org");
	milter_finish(m[0]);
	w->conf.timeout_ms = 30;
	m[1] = begin_from(w, "bot@example.org");
	milter_finish(m[1]);
	turn(w, 3);
	assert_string_equal(
	    milter_result(m[1])->note, "it had too many messages at once");
	milter_free(m[1]);
	milter_free(m[0]);
	milter_gate_release(w->gate);
}

/* One inbox leaves half of it to others, who come earlier then. */
static void
test_gate_shares(void **state)
{
	static const char *const from[] = { "bot@example.org",
		"bot@example.org", "other@example.org" };
	struct world *w = *state;
	struct milter *m[3];
	size_t i;

	w->mute = true;
	w->gate = milter_gate_new(2);
	for (i = 0; i < 3; i++)
		m[i] = begin_from(w, from[i]);
	for (i = 0; i < 3; i++)
		milter_finish(m[i]);
	while (w->accepted < 2)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->accepted, 2);
	milter_free(m[2]); /* its place is not one for the second */
	event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->accepted, 2);
	milter_gate_limit(w->gate, 3);
	while (w->accepted < 3)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	milter_free(m[0]);
	milter_free(m[1]);
	milter_gate_release(w->gate);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_gate, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_gate_shares, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
