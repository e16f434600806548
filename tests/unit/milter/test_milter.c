/* SPDX-License-Identifier: ISC */
/*
 * What a filter is told, and what becomes of what it says or does not say.
 * tests/blackbox/test_filters.py has real ones.
 */
#include "tests/unit/milter/played.h"

static void
assert_told(struct world *w, const char *want)
{
	buf_putc(&w->told, '\0');
	assert_string_equal((char *)w->told.p, want);
	w->told.n--;
}

static void
test_what_it_is_told(void **state)
{
	static const char all[] =
	    "O\n"
	    "DCj|mx.example.org|{daemon_name}|postern|\nCagent|U\nHagent|\n"
	    "DMi|msg_1|{auth_type}|PLAIN|{auth_authen}|bot@example.org|"
	    "{mail_addr}|bot@example.org|\n"
	    "M<bot@example.org>|\nR<a@example.net>|\nR<b@example.net>|\n"
	    "DTi|msg_1|\nT\n"
	    "LFrom|bot@example.org|\nLSubject|a\n folded|\nLX-Empty||\nN\n"
	    "Bone\r\n\r\ntwo\r\n\nDEi|msg_1|\nE\n";
	static const char mail[] = MAIL;
	struct world *w = *state;
	size_t i;

	assert_int_equal(show(w)->verdict, MILTER_ACCEPT);
	assert_told(w, all);
	/* the same, a byte at a time, and answered a byte at a time */
	w->drip = event_new(loop_base(w->loop), -1, 0, on_drip, w);
	start(w);
	for (i = 0; i < sizeof(MAIL) - 1; i++)
		(void)milter_feed(w->m, &mail[i], 1);
	assert_int_equal(finish(w)->verdict, MILTER_ACCEPT);
	assert_told(w, all);
	assert_true(w->dripped > 40 && w->drops.n == 0);
	event_free(w->drip);
	w->drip = NULL;
	w->steps = MILTER_NO_CONNECT | MILTER_NO_HELO | MILTER_NO_MAIL |
		   MILTER_NO_RCPT | MILTER_NO_DATA | MILTER_NO_BODY |
		   MILTER_NO_EOH | MILTER_QUIET_HEADER | MILTER_LEADING_SPACE;
	assert_int_equal(show(w)->verdict, MILTER_ACCEPT);
	assert_told(w, "O\nLFrom| bot@example.org|\nLSubject| a\n folded|\n"
		       "LX-Empty||\nDEi|msg_1|\nE\n");
}

/* An old one would take DATA for nonsense; one from the future is none. */
static void
test_versions(void **state)
{
	static const struct {
		uint32_t version;
		bool fine, data;
	} facts[] = { { 1, false, false }, { 2, true, false },
		{ 3, true, false }, { 4, true, true }, { 6, true, true },
		{ 7, false, false } };
	struct world *w = *state;
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		w->version = facts[i].version;
		assert_int_equal(show(w)->verdict,
		    facts[i].fine ? MILTER_ACCEPT : MILTER_FAILED);
		assert_int_equal(
		    memmem(w->told.p, w->told.n, "\nT\n", 3) != NULL,
		    facts[i].data);
	}
}

#define P(n, s) "\0\0\0" n s
#define SAY(s)                                                                 \
	{                                                                      \
		s, sizeof(s) - 1                                               \
	}

static void
test_verdicts(void **state)
{
	static const struct {
		const char *at;
		struct str say;
		enum milter_verdict verdict;
		bool quarantine, header, rewrite;
		const char *note;
	} facts[] = {
		{ "E", SAY(P("\1", "a")), MILTER_ACCEPT, 0, 0, 0, "" },
		{ "R", SAY(P("\1", "r")), MILTER_REJECT, 0, 0, 0, "" },
		{ "C", SAY(P("\1", "a")), MILTER_ACCEPT, 0, 0, 0, "" },
		{ "E", SAY(P("\1", "t")), MILTER_TEMPFAIL, 0, 0, 0, "" },
		{ "E", SAY(P("\1", "d")), MILTER_DISCARD, 0, 0, 0, "" },
		{ "E", SAY(P("\x10", "y550 5.7.1 Spam\0")), MILTER_REJECT, 0, 0,
		    0, "550 5.7.1 Spam" },
		{ "E", SAY(P("\x09", "y451 Busy")), MILTER_FAILED, 0, 0, 0,
		    "it does not speak the milter protocol" },
		{ "E", SAY(P("\6", "qEi\ncar\0") P("\1", "c")), MILTER_FAILED,
		    0, 0, 0, "it does not speak the milter protocol" },
		{ "E", SAY(P("\x08", "qEi\ncar\0") P("\1", "c")), MILTER_ACCEPT,
		    true, 0, 0, "Ei?car" },
		{ "E",
		    SAY(P("\x0c", "hX-Spam\0Yes\0") P("\1", "p") P("\1", "a")),
		    MILTER_ACCEPT, 0, true, 0, "X-Spam; = Yes" },
		{ "E", SAY(P("\x0b", "m\0\0\0\1Re\0No\0") P("\1", "c")),
		    MILTER_ACCEPT, 0, true, 0, "Re; = No" },
		{ "E", SAY(P("\x04", "bnew") P("\6", "+<a@b\0") P("\1", "c")),
		    MILTER_ACCEPT, 0, 0, true, "it would change the body" },
		{ "E", SAY(P("\1", "Z")), MILTER_FAILED, 0, 0, 0,
		    "it does not speak the milter protocol" },
		{ "E", SAY("\x7f\0\0\0x"), MILTER_FAILED, 0, 0, 0,
		    "it does not speak the milter protocol" },
	};
	struct world *w = *state;
	const struct milter_result *r;
	size_t i;

	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		print_message("%zu\n", i);
		w->at = facts[i].at;
		w->say = facts[i].say;
		r = show(w);
		assert_string_equal(r->note, facts[i].note);
		assert_int_equal(r->verdict, facts[i].verdict);
		assert_int_equal(r->quarantine, facts[i].quarantine);
		assert_int_equal(r->header, facts[i].header);
		assert_int_equal(r->rewrite, facts[i].rewrite);
	}
}

static void
test_silence(void **state)
{
	struct world *w = *state;
	const struct milter_result *r;

	w->conf.timeout_ms = 30;
	w->mute = true;
	r = show(w);
	assert_int_equal(r->verdict, MILTER_FAILED);
	assert_string_equal(r->note, "it did not answer in time");
	w->mute = false;
	w->at = "E";
	w->say = str_lit("");
	r = show(w);
	assert_int_equal(r->verdict, MILTER_FAILED);
	assert_string_equal(r->note, "it did not answer in time");
	/* nobody there */
	evconnlistener_free(w->listener);
	w->listener = NULL;
	w->conf.timeout_ms = 5000;
	r = show(w);
	assert_int_equal(r->verdict, MILTER_FAILED);
	assert_true(r->note[0] != '\0');
}

/* What a filter does not read does not pile up here. */
static void
test_room(void **state)
{
	struct world *w = *state;
	static char line[4096];
	size_t n = 0;

	memset(line, 'x', sizeof(line));
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	start(w);
	(void)milter_feed(w->m, "A: b\r\n\r\n", 8);
	while (milter_feed(w->m, line, sizeof(line)))
		assert_true(++n < 200);
	assert_int_equal(w->rooms, 0);
	while (w->rooms == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_int_equal(finish(w)->verdict, MILTER_ACCEPT);
	assert_true(w->told.n > n * sizeof(line));
}

static void
on_room_free(void *arg)
{
	struct world *w = arg;

	w->rooms++;
	milter_free(w->m);
	w->m = NULL;
}

/* Tell it more than it reads, which is nothing once the header has come. */
static void
fill(struct world *w, void (*room)(void *arg))
{
	static const struct str rcpt[] = { str_lit("a@example.net") };
	const struct milter_mail mail = { "mx.example.org", "msg_1",
		"bot@example.org", rcpt, 1 };
	static char line[4096];

	memset(line, 'x', sizeof(line));
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	w->m = milter_start(w->loop, &w->conf, NULL, &mail, on_done, room, w);
	(void)milter_feed(w->m, "A: b\r\n\r\n", 8);
	while (
	    w->told.n == 0 || memmem(w->told.p, w->told.n, "\nN\n", 3) == NULL)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	bufferevent_disable(w->peer, EV_READ);
	while (milter_feed(w->m, line, sizeof(line)))
		event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	assert_int_equal(w->rooms, 0);
}

/* Room may be the end: what comes next is refused, and nothing is kept. */
static void
test_freed_for_room(void **state)
{
	struct world *w = *state;

	fill(w, on_room_free);
	bufferevent_free(w->peer);
	w->peer = NULL;
	while (w->rooms == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_null(w->m);
	assert_int_equal(w->done, 0);
}

/* One that owes no reply, and reads no more, is silent too. */
static void
test_it_reads_no_more(void **state)
{
	struct world *w = *state;

	w->conf.timeout_ms = 1000; /* not before it has heard of the header */
	w->steps = MILTER_QUIET_CONNECT | MILTER_QUIET_HELO |
		   MILTER_QUIET_MAIL | MILTER_QUIET_RCPT | MILTER_QUIET_DATA |
		   MILTER_QUIET_HEADER | MILTER_QUIET_EOH | MILTER_QUIET_BODY;
	fill(w, on_room);
	while (w->rooms == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_int_equal(finish(w)->verdict, MILTER_FAILED);
	assert_string_equal(
	    milter_result(w->m)->note, "it did not answer in time");
}

/* One that wants to hear nothing holds nothing up. */
static void
test_it_wants_nothing(void **state)
{
	struct world *w = *state;
	static char line[4096];

	memset(line, 'x', sizeof(line));
	w->steps = MILTER_NO_CONNECT | MILTER_NO_HELO | MILTER_NO_MAIL |
		   MILTER_NO_RCPT | MILTER_NO_DATA | MILTER_NO_HEADERS |
		   MILTER_NO_EOH | MILTER_NO_BODY;
	start(w);
	(void)milter_feed(w->m, "A: b\r\n\r\n", 8);
	while (milter_feed(w->m, line, sizeof(line)))
		;
	while (w->rooms == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_int_equal(finish(w)->verdict, MILTER_ACCEPT);
}

static void
test_conf(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} facts[] = {
		{ "rspamd unix:/run/rspamd/milter.sock", true },
		{ "a inet:11332@127.0.0.1 30s accept", true },
		{ "a inet:11332@::1 tempfail 1s", true },
		{ "a  inet:1@localhost  hold ", true },
		{ "a inet:11332@192.0.2.1", false },
		{ "a inet:11332@example.org", false },
		{ "a inet:0@127.0.0.1", false },
		{ "a inet:11332", false },
		{ "a unix:relative", false },
		{ "a tcp:1@127.0.0.1", false },
		{ "A_B unix:/x", false },
		{ "a", false },
		{ "", false },
		{ "a unix:/x 0s", false },
		{ "a unix:/x 601s", false },
		{ "a unix:/x drop", false },
		{ "a unix:/x 2s hold max=1", true },
		{ "a unix:/x max=1000", true },
		{ "a unix:/x max=0", false },
		{ "a unix:/x max=1001", false },
		{ "a unix:/x max=", false },
	};
	struct milter_conf c;
	const char *why;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		print_message("%s\n", facts[i].text);
		assert_int_equal(
		    milter_conf_parse(&c, str_of(facts[i].text), &why),
		    facts[i].ok);
	}
	assert_true(milter_conf_parse(&c, str_lit("a unix:/x"), &why));
	assert_int_equal(c.timeout_ms, 10000);
	assert_int_equal(c.on_failure, MILTER_DEFAULT_HOLD);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_what_it_is_told),
		T(test_versions),
		T(test_verdicts),
		T(test_silence),
		T(test_room),
		T(test_freed_for_room),
		T(test_it_reads_no_more),
		T(test_it_wants_nothing),
		cmocka_unit_test(test_conf),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
