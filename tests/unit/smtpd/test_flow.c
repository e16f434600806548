/* SPDX-License-Identifier: ISC */
/*
 * Sessions over time: splits at every byte, smuggling, hang-ups in every
 * state, caps, back-pressure, drain.
 */
#include "tests/unit/smtpd/talk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/loop.h"
#include "net/ledger.h"
#include "net/peer.h"
#include "net/stream.h"
#include "smtpd/internal.h"
#include "tests/fake/fake_store.h"

/* The whole conversation, cut at every byte, gives the same replies. */
static void
test_every_split(void **state)
{
	static const char talk[] = SIGNED_IN ENVELOPE "DATA\r\n";
	static const char body[] = HEAD "a\r\n..b\r\n.\r\nQUIT\r\n";
	struct fixture *f = *state;
	size_t i;

	talk_dial(f, true);
	for (i = 0; i < sizeof talk - 1; i++)
		talk_say(f, talk + i, 1);
	for (i = 0; i < sizeof body - 1; i++)
		talk_say(f, body + i, 1);
	EXPECT(f, "220", "250-", "250-", "250-", "250-", "250-", "250-", "250-",
	    "250-", "250-", "250 ", "235", "250 2.1.0", "250 2.1.5", "354",
	    "250 2.6.0", "221");
	assert_true(f->closed);
	assert_int_equal(fake_store.finished, 1);
}

/* S1: nothing inside a message ever runs as a command. */
static void
test_smuggling(void **state)
{
	static const char *const ends[] = { "\n.\n", "\n.\r", "\r.\n", "\r.\r",
		"\n.\r\n", "\r.\r\n", "\r\n.\n", "\r\n.\r", "\r\n.\r\r\n",
		"\r\r\n.\r\r\n", "\r\n.\x0b\r\n" };
	struct fixture *f = *state;
	char text[512];
	size_t i;

	for (i = 0; i < sizeof ends / sizeof *ends; i++) {
		print_message("end %zu\n", i);
		talk_sign_in(f);
		SAY(f, ENVELOPE "DATA\r\n");
		f->seen_n = 0;
		snprintf(text, sizeof text,
		    HEAD "one%s" ENVELOPE "DATA\r\n" HEAD "two\r\n.\r\n",
		    ends[i]);
		talk_say(f, text, strlen(text));
		if (strchr(ends[i], '\x0b') != NULL)
			EXPECT(f, "250 2.6.0"); /* one message, as it is */
		else
			EXPECT(f, "554 5.6.0 [message_malformed]");
		SAY(f, "NOOP\r\n");
		EXPECT(f, "250 2.0.0");
		talk_hang_up(f);
	}
	assert_int_equal(fake_store.finished, 1);
}

static void
test_oversize_is_read_to_its_end(void **state)
{
	static char big[150000];
	struct fixture *f = *state;
	size_t i, at;

	for (i = 0; i < sizeof big; i++)
		big[i] = i % 64 == 62 ? '\r' : i % 64 == 63 ? '\n' : 'x';
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (at = 0; at < 149952; at += 7440) /* whole lines would hide CRs */
		talk_say(f, big + at, 149952 - at < 7440 ? 149952 - at : 7440);
	assert_int_equal(f->seen_n, 0);
	SAY(f, ".\n" ENVELOPE);
	assert_int_equal(f->seen_n, 0);
	SAY(f, "\r\n.\r\n");
	EXPECT(f, "552 5.3.4 [payload_too_large]");
	SAY(f, "QUIT\r\n");
	EXPECT(f, "221");
	assert_int_equal(fake_store.finished, 0);
}

static void
test_endless_data_is_cut(void **state)
{
	static char big[65536];
	struct fixture *f = *state;
	int i;

	memset(big, 'x', sizeof big);
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (i = 0; i < 6 && f->seen_n == 0; i++) {
		(void)!send(
		    f->fd, big, sizeof big, MSG_DONTWAIT | MSG_NOSIGNAL);
		talk_settle(f);
	}
	EXPECT(f, "552 5.3.4");
	assert_true(f->closed);
}

static void
test_auth_failures_are_capped(void **state)
{
	struct fixture *f = *state;
	int i;

	talk_dial(f, true);
	SAY(f, "EHLO x\r\n");
	f->seen_n = 0;
	for (i = 0; i < 4; i++) {
		SAY(f, "AUTH PLAIN AGEAYg==\r\n");
		EXPECT(f, "535 5.7.8");
	}
	SAY(f, "AUTH PLAIN AGEAYg==\r\n");
	EXPECT(f, "421 4.7.0 [too_many_errors]");
	assert_true(f->closed);
}

static void
test_errors_are_capped(void **state)
{
	struct fixture *f = *state;
	int i;

	talk_dial(f, false);
	f->seen_n = 0;
	for (i = 0; i < 10; i++) {
		SAY(f, "FOO\r\n");
		EXPECT(f, "500 5.5.2");
	}
	SAY(f, "FOO\r\n");
	EXPECT(f, "500 5.5.2", "421 4.7.0 [too_many_errors]");
	assert_true(f->closed);
}

/* A session that is kept for days is not cut for what went wrong in all. */
static void
test_a_message_wipes_errors(void **state)
{
	struct fixture *f = *state;
	int i, round;

	talk_sign_in(f);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 9; i++) {
			SAY(f, "FOO\r\n");
			EXPECT(f, "500 5.5.2");
		}
		SAY(f, ENVELOPE "DATA\r\n");
		SAY(f, HEAD ".\r\n");
		EXPECT(f, "250 2.1.0", "250 2.1.5", "354", "250 2.6.0");
	}
}

static void
test_idle_commands_are_capped(void **state)
{
	struct fixture *f = *state;
	int i;

	talk_dial(f, false);
	for (i = 0; i < 300 && !f->closed; i++) {
		f->seen_n = 0;
		(void)!send(f->fd, "NOOP\r\n", 6, MSG_NOSIGNAL);
		talk_settle(f);
	}
	assert_true(f->closed);
	assert_non_null(strstr(f->seen, "421 4.7.0"));
}

static void
test_endless_line_is_cut(void **state)
{
	static char big[20000];
	struct fixture *f = *state;

	memset(big, 'a', sizeof big);
	talk_dial(f, false);
	f->seen_n = 0;
	talk_say(f, big, sizeof big);
	EXPECT(f, "500 5.5.2");
	assert_true(f->closed);
	close(f->fd);
	memcpy(big, "auth plain ", 11); /* RFC 4954 6 */
	talk_dial(f, true);
	SAY(f, "EHLO x\r\n");
	f->seen_n = 0;
	talk_say(f, big, sizeof big);
	EXPECT(f, "500 5.5.6");
	assert_true(f->closed);
	close(f->fd);
	talk_dial(f, true);
	SAY(f, "EHLO x\r\nAUTH PLAIN\r\n");
	f->seen_n = 0;
	talk_say(f, big, sizeof big);
	EXPECT(f, "500 5.5.6");
	assert_true(f->closed);
}

/* A client that never reads replies is not fed for ever. */
static void
test_slow_reader(void **state)
{
	static char noops[6 * 4000];
	struct fixture *f = *state;
	struct smtpd_session *s;
	int i, small = 2048;

	for (i = 0; i < 4000; i++)
		memcpy(noops + i * 6, "VRFY a", 6);
	for (i = 0; i < 4000; i += 2)
		memcpy(noops + i * 6, "XXXX\r\n", 6);
	f->set.errors_max = 1000000;
	smtpd_configure(f->smtpd, &f->set);
	talk_dial(f, false);
	s = talk_session(f);
	setsockopt(net_stream_fd(s->stream), SOL_SOCKET, SO_SNDBUF, &small,
	    sizeof small);
	for (i = 0; i < 8; i++) {
		(void)!send(
		    f->fd, noops, sizeof noops, MSG_DONTWAIT | MSG_NOSIGNAL);
		event_base_loop(loop_base(f->loop), EVLOOP_NONBLOCK);
	}
	assert_true(
	    net_stream_output_size(s->stream) < SESSION_OUTPUT_MAX + 4096);
}

static void
test_back_pressure(void **state)
{
	static char line[8192];
	struct fixture *f = *state;
	int i;

	for (i = 0; i < 8192; i++)
		line[i] = i % 64 == 62 ? '\r' : i % 64 == 63 ? '\n' : 'x';
	fake_store.stingy = 1;
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (i = 0; i < 10; i++)
		talk_say(f, line, sizeof line);
	SAY(f, ".\r\n");
	EXPECT(f, "250 2.6.0");
	assert_int_equal(fake_store.message.n, 10 * sizeof line);
}

/* B39: hang up after the dot: the message stays ours. */
static void
test_hang_up_after_dot(void **state)
{
	struct fixture *f = *state;

	fake_store.hold = true;
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	SAY(f, HEAD ".\r\n");
	assert_int_equal(fake_store.finished, 1);
	talk_hang_up(f);
	fake_store_let_go();
	talk_settle(f);
	assert_int_equal(smtpd_count(f->smtpd), 0);
}

static void
test_half_close_after_dot(void **state)
{
	struct fixture *f = *state;

	fake_store.hold = true;
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	SAY(f, HEAD ".\r\n");
	shutdown(f->fd, SHUT_WR);
	talk_settle(f);
	fake_store_let_go();
	talk_settle(f);
	EXPECT(f, "250 2.6.0");
	assert_true(f->closed);
}

/* Its side is shut while the message waits for room: nothing more comes. */
static void
test_half_close_in_data(void **state)
{
	struct fixture *f = *state;

	fake_store.stingy = 1;
	fake_store.hold = true;
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	assert_int_equal(
	    send(f->fd, HEAD, sizeof HEAD - 1, MSG_NOSIGNAL), sizeof HEAD - 1);
	shutdown(f->fd, SHUT_WR);
	talk_settle(f);
	assert_false(f->closed);
	fake_store_let_go();
	talk_settle(f);
	assert_true(f->closed);
	assert_int_equal(smtpd_count(f->smtpd), 0);
	assert_int_equal(fake_store.cancelled, 1);
}

static void
test_hang_up_anywhere(void **state)
{
	static const char talk[] = SIGNED_IN ENVELOPE "DATA\r\n";
	static const char body[] = HEAD "a\r\n..b\r\n.\r";
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof talk + sizeof body - 2; i++) {
		talk_dial(f, true);
		talk_say(f, talk, i < sizeof talk - 1 ? i : sizeof talk - 1);
		if (i >= sizeof talk - 1)
			talk_say(f, body, i - (sizeof talk - 1));
		talk_hang_up(f);
		assert_int_equal(smtpd_count(f->smtpd), 0);
	}
	assert_int_equal(fake_store.finished, 0);
	assert_true(fake_store.cancelled > 0);
}

static void
on_drained(void *arg)
{
	*(bool *)arg = true;
}

static void
test_drain(void **state)
{
	struct fixture *f = *state;
	bool drained = false;

	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	smtpd_drain(f->smtpd, on_drained, &drained);
	talk_settle(f);
	assert_false(drained);
	SAY(f, HEAD ".\r\n"); /* what was begun is finished, and no more */
	EXPECT(f, "250 2.6.0", "421 4.3.2");
	assert_true(f->closed);
	talk_hang_up(f);
	assert_true(drained);
	talk_dial(f, false); /* a balancer's, whose header came late */
	EXPECT(f, "421 4.3.2 ");
	assert_true(f->closed);
}

/* Who has not sent all of it when time is up hears so; who has is answered. */
static void
test_expel(void **state)
{
	struct fixture *f = *state;
	bool drained = false;
	int i;

	for (i = 0; i < 2; i++) { /* also while it waits for room */
		fake_store.hold = i == 1;
		fake_store.stingy = i == 1;
		talk_sign_in(f);
		SAY(f, ENVELOPE "DATA\r\n");
		f->seen_n = 0;
		SAY(f, HEAD "more\r\n");
		assert_int_equal(f->seen_n, 0);
		smtpd_expel(f->smtpd);
		talk_settle(f);
		EXPECT(f, "421 4.3.2");
		assert_true(f->closed);
		talk_hang_up(f);
	}
	assert_int_equal(fake_store.cancelled, 2);
	fake_store.stingy = 0;
	talk_sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	SAY(f, HEAD ".\r\n");
	f->seen_n = 0;
	smtpd_drain(f->smtpd, on_drained, &drained);
	smtpd_expel(f->smtpd);
	talk_settle(f);
	assert_int_equal(f->seen_n, 0);
	fake_store_let_go();
	talk_settle(f);
	EXPECT(f, "250 2.6.0", "421 4.3.2");
	talk_hang_up(f);
	assert_true(drained);
}

/* Another connection; the client's end. */
static int
dial_too(struct fixture *f)
{
	struct net_peer peer;
	int fds[2];

	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	net_peer_init(&peer, NULL);
	smtpd_accept(f->smtpd, fds[1], &peer, NULL, false);
	return fds[0];
}

/* Who says nothing goes soon when places get rare, who is signed in later. */
static void
test_stress(void **state)
{
	struct fixture *f = *state;
	char text[512] = "";
	int other[2];
	ssize_t n;

	f->set.sessions_max = 4;
	f->set.stress_ms = 1000;
	smtpd_configure(f->smtpd, &f->set);
	talk_sign_in(f);
	other[0] = dial_too(f);
	assert_false(smtpd_stressed(f->smtpd));
	assert_true(talk_session(f)->deadline_ms > clock_mono_ms() + 10000);
	other[1] = dial_too(f);
	assert_true(smtpd_stressed(f->smtpd));
	assert_true(talk_session(f)->deadline_ms <= clock_mono_ms() + 3000);
	while (strstr(text, "421 4.4.2 [request_timeout]") == NULL) {
		event_base_loop(loop_base(f->loop), EVLOOP_ONCE);
		n = recv(other[0], text, sizeof text - 1, MSG_DONTWAIT);
		text[n < 0 ? 0 : n] = '\0';
	}
	close(other[0]);
	close(other[1]);
	talk_settle(f);
	assert_int_equal(smtpd_count(f->smtpd), 1);
	assert_non_null(talk_session(f)->cred);
	assert_false(smtpd_stressed(f->smtpd));
}

/* One inbox does not take all places; a session that ends gives its back. */
static void
test_sessions_of_an_inbox(void **state)
{
	struct fixture *f = *state;
	struct net_ledger *ledger = net_ledger_new();
	int i;

	f->smtpd->ledger = ledger;
	f->set.inbox_max = 1;
	smtpd_configure(f->smtpd, &f->set);
	for (i = 0; i < 2; i++) {
		int first;

		talk_sign_in(f);
		first = f->fd;
		talk_dial(f, true);
		SAY(f, SIGNED_IN);
		assert_non_null(strstr(f->seen,
		    "421 4.7.0 [too_many_errors] bot@example.org has 1 "));
		talk_hang_up(f);
		f->fd = first;
		talk_hang_up(f);
		assert_int_equal(smtpd_count(f->smtpd), 0);
	}
	f->smtpd->ledger = NULL;
	net_ledger_free(ledger);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_every_split),
		T(test_smuggling),
		T(test_oversize_is_read_to_its_end),
		T(test_endless_data_is_cut),
		T(test_auth_failures_are_capped),
		T(test_errors_are_capped),
		T(test_a_message_wipes_errors),
		T(test_idle_commands_are_capped),
		T(test_endless_line_is_cut),
		T(test_slow_reader),
		T(test_back_pressure),
		T(test_hang_up_after_dot),
		T(test_half_close_after_dot),
		T(test_half_close_in_data),
		T(test_hang_up_anywhere),
		T(test_drain),
		T(test_expel),
		T(test_stress),
		T(test_sessions_of_an_inbox),
	};

	signal(SIGPIPE, SIG_IGN); /* as daemon_init() does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
