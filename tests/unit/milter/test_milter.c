/* SPDX-License-Identifier: ISC */
/*
 * A filter that is played: what it is told, and what becomes of what it says
 * or does not say. tests/blackbox/test_filters.py has real ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/loop.h"
#include "milter/client.h"
#include "milter/wire.h"

#define MAIL                                                                   \
	"From: bot@example.org\r\nSubject: a\r\n folded\r\nX-Empty:\r\n\r\n"   \
	"one\r\n\r\ntwo\r\n"

struct world {
	struct loop *loop;
	struct evconnlistener *listener;
	struct bufferevent *peer;
	struct milter_conf conf;
	struct milter *m;
	uint32_t steps; /* the filter can do without */
	const char *at; /* letters answered by `say` instead of "c" */
	struct str say; /* packets */
	bool mute, drip;
	struct buf told; /* "letter data\n", NUL as '|' */
	unsigned done, rooms;
};

static void
reply(struct world *w, const void *p, size_t n)
{
	size_t i;

	if (!w->drip) {
		bufferevent_write(w->peer, p, n);
		return;
	}
	for (i = 0; i < n; i++) {
		bufferevent_write(w->peer, (const char *)p + i, 1);
		bufferevent_flush(w->peer, EV_WRITE, BEV_FLUSH);
		event_base_loop(loop_base(w->loop), EVLOOP_NONBLOCK);
	}
}

static uint32_t
quiet_bit(char letter)
{
	switch (letter) {
	case 'C':
		return MILTER_QUIET_CONNECT;
	case 'H':
		return MILTER_QUIET_HELO;
	case 'M':
		return MILTER_QUIET_MAIL;
	case 'R':
		return MILTER_QUIET_RCPT;
	case 'T':
		return MILTER_QUIET_DATA;
	case 'L':
		return MILTER_QUIET_HEADER;
	case 'N':
		return MILTER_QUIET_EOH;
	case 'B':
		return MILTER_QUIET_BODY;
	default:
		return 0;
	}
}

static void
answer(struct world *w, char letter)
{
	struct buf b = { 0 };
	size_t at;

	if (letter == 'O') {
		at = milter_packet_begin(&b, 'O');
		buf_u32(&b, 6);
		buf_u32(&b, 0x1ff);
		buf_u32(&b, w->steps);
		milter_packet_end(&b, at);
		reply(w, b.p, b.n);
		buf_free(&b);
	} else if (w->at != NULL && strchr(w->at, letter) != NULL) {
		reply(w, w->say.p, w->say.n);
	} else if (letter != 'D' && (w->steps & quiet_bit(letter)) == 0) {
		reply(w, "\0\0\0\1c", 5);
	}
}

static void
note(struct world *w, const struct milter_packet *p)
{
	size_t i;

	buf_putc(&w->told, p->letter);
	for (i = 0; i < p->data.n && p->letter != 'O'; i++)
		buf_putc(&w->told, p->data.p[i] == '\0' ? '|' : p->data.p[i]);
	buf_putc(&w->told, '\n');
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	struct world *w = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	struct milter_packet p;
	long n;

	while ((n = milter_packet_take(
		    &p, (struct str){ (char *)evbuffer_pullup(in, -1),
			    evbuffer_get_length(in) })) > 0) {
		char letter = p.letter;

		note(w, &p);
		evbuffer_drain(in, (size_t)n);
		if (!w->mute)
			answer(w, letter);
	}
	assert_true(n == 0);
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr,
    int len, void *arg)
{
	struct world *w = arg;

	(void)l, (void)addr, (void)len;
	w->peer = bufferevent_socket_new(
	    loop_base(w->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(w->peer, on_read, NULL, NULL, w);
	bufferevent_enable(w->peer, EV_READ | EV_WRITE);
}

static void
on_done(void *arg)
{
	((struct world *)arg)->done++;
}

static void
on_room(void *arg)
{
	((struct world *)arg)->rooms++;
}

static int
setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->loop = loop_new();
	w->listener = evconnlistener_new_bind(loop_base(w->loop), on_accept, w,
	    LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&in, sizeof(in));
	assert_non_null(w->listener);
	assert_int_equal(getsockname(evconnlistener_get_fd(w->listener),
			     (struct sockaddr *)&in, &len),
	    0);
	memcpy(&w->conf.addr, &in, sizeof(in));
	w->conf.addr_len = sizeof(in);
	w->conf.timeout_ms = 5000;
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	milter_free(w->m);
	if (w->peer != NULL)
		bufferevent_free(w->peer);
	if (w->listener != NULL)
		evconnlistener_free(w->listener);
	loop_free(w->loop);
	buf_free(&w->told);
	free(w);
	return 0;
}

static void
start(struct world *w)
{
	static const struct str rcpt[] = { str_lit("a@example.net"),
		str_lit("b@example.net") };
	const struct milter_mail mail = { "mx.example.org", "msg_1",
		"bot@example.org", rcpt, 2 };

	milter_free(w->m);
	if (w->peer != NULL)
		bufferevent_free(w->peer);
	w->peer = NULL;
	buf_clear(&w->told);
	w->done = 0;
	w->m = milter_start(w->loop, &w->conf, &mail, on_done, on_room, w);
}

static const struct milter_result *
finish(struct world *w)
{
	milter_finish(w->m);
	while (w->done == 0)
		event_base_loop(loop_base(w->loop), EVLOOP_ONCE);
	assert_int_equal(w->done, 1);
	return milter_result(w->m);
}

static const struct milter_result *
show(struct world *w)
{
	start(w);
	assert_true(milter_feed(w->m, MAIL, sizeof(MAIL) - 1));
	return finish(w);
}

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
	w->drip = true;
	start(w);
	for (i = 0; i < sizeof(MAIL) - 1; i++)
		(void)milter_feed(w->m, &mail[i], 1);
	assert_int_equal(finish(w)->verdict, MILTER_ACCEPT);
	assert_told(w, all);
	w->drip = false;
	w->steps = MILTER_NO_CONNECT | MILTER_NO_HELO | MILTER_NO_MAIL |
		   MILTER_NO_RCPT | MILTER_NO_DATA | MILTER_NO_BODY |
		   MILTER_NO_EOH | MILTER_QUIET_HEADER | MILTER_LEADING_SPACE;
	assert_int_equal(show(w)->verdict, MILTER_ACCEPT);
	assert_told(w, "O\nLFrom| bot@example.org|\nLSubject| a\n folded|\n"
		       "LX-Empty||\nDEi|msg_1|\nE\n");
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
	w->m = milter_start(w->loop, &w->conf, &mail, on_done, room, w);
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

	w->conf.timeout_ms = 30;
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
