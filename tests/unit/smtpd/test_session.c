/* SPDX-License-Identifier: ISC */
/*
 * Sessions over a socketpair with the fake store: every reply of the table
 * in docs/smtp.md, hang-ups in every state, splits of every byte. TLS is
 * taken as given here (the flag is set); tests/blackbox has the real thing.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/loop.h"
#include "net/peer.h"
#include "smtpd/internal.h"
#include "tests/fake/fake_store.h"

#define SIGNED_IN "EHLO c\r\nAUTH PLAIN AGJvdEBleGFtcGxlLm9yZwBnb29k\r\n"
#define ENVELOPE "MAIL FROM:<bot@example.org>\r\nRCPT TO:<a@example.com>\r\n"
#define HEAD "From: bot@example.org\r\n\r\n"

struct fixture {
	struct loop *loop;
	struct store *store;
	struct smtpd *smtpd;
	struct smtpd_settings set;
	int fd; /* the client's end */
	char seen[65536];
	size_t seen_n;
	bool closed;
};

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	log_set_level(LOG_LEVEL_ERROR);
	f->loop = loop_new();
	f->store = fake_store_new(f->loop);
	snprintf(f->set.hostname, sizeof f->set.hostname, "mx.example.org");
	f->set.errors_max = 10;
	f->set.rcpt_max = 3;
	f->set.size_max = 100000;
	f->smtpd = smtpd_new(f->loop, f->store, NULL, 0, &f->set);
	f->fd = -1;
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	if (f->fd >= 0)
		close(f->fd);
	smtpd_free(f->smtpd);
	fake_store_free(f->store);
	loop_free(f->loop);
	free(f);
	return 0;
}

/* Let everything happen that can happen now. */
static void
settle(struct fixture *f)
{
	ssize_t n;
	int i;

	for (i = 0; i < 30; i++) {
		event_base_loop(loop_base(f->loop), EVLOOP_NONBLOCK);
		while (f->fd >= 0 && (n = recv(f->fd, f->seen + f->seen_n,
					  sizeof f->seen - 1 - f->seen_n,
					  MSG_DONTWAIT)) >= 0) {
			if (n == 0) {
				f->closed = true;
				break;
			}
			f->seen_n += (size_t)n;
		}
	}
	f->seen[f->seen_n] = '\0';
}

static struct smtpd_session *
session_of(struct fixture *f)
{
	return TAILQ_FIRST(&f->smtpd->sessions);
}

static void
dial(struct fixture *f, bool secure)
{
	struct net_peer peer;
	int fds[2];

	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	f->fd = fds[0];
	f->closed = false;
	f->seen_n = 0;
	net_peer_init(&peer, NULL);
	smtpd_accept(f->smtpd, fds[1], &peer, NULL, false);
	if (secure)
		session_of(f)->secure = true;
	settle(f);
}

static void
say_bytes(struct fixture *f, const char *p, size_t n)
{
	assert_int_equal(send(f->fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
	settle(f);
}

/* What came back: only this, compared by the start of each line. */
static void
expect(struct fixture *f, const char *const *want, size_t n)
{
	char *line = f->seen, *end;
	size_t i;

	for (i = 0; i < n; i++) {
		end = strstr(line, "\r\n");
		if (end == NULL || strncmp(line, want[i], strlen(want[i])))
			print_error(
			    "want \"%s\", have \"%s\"\n", want[i], line);
		assert_non_null(end);
		assert_int_equal(strncmp(line, want[i], strlen(want[i])), 0);
		assert_true(end - line <= 510);
		line = end + 2;
	}
	if (*line != '\0')
		print_error("unexpected: %s\n", line);
	assert_int_equal(*line, '\0');
	f->seen_n = 0;
}

#define EXPECT(f, ...)                                                         \
	expect((f), (const char *const[]){ __VA_ARGS__ },                      \
	    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
#define SAY(f, text) say_bytes((f), text, sizeof(text) - 1)

static void
sign_in(struct fixture *f)
{
	dial(f, true);
	SAY(f, SIGNED_IN);
	EXPECT(f, "220 mx.example.org ESMTP", "250-mx.example.org",
	    "250-PIPELINING", "250-SIZE 100000", "250-8BITMIME",
	    "250-ENHANCEDSTATUSCODES", "250 AUTH PLAIN LOGIN", "235 2.7.0 ");
}

static void
test_plain_offers(void **state)
{
	struct fixture *f = *state;

	dial(f, false);
	EXPECT(f, "220 mx.example.org ESMTP");
	SAY(f, "EHLO x\r\nHELO x\r\n");
	EXPECT(f, "250-mx.example.org", "250-PIPELINING", "250-SIZE 100000",
	    "250-8BITMIME", "250-ENHANCEDSTATUSCODES", "250 STARTTLS",
	    "250 mx.example.org");
}

/* One line sent in a fresh session, and how the answer begins. */
struct fact {
	const char *before; /* said first; its answers are not looked at */
	const char *line;
	const char *answer;
	bool closes;
};

static void
try_facts(struct fixture *f, bool secure, const struct fact *facts, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		print_message("%s -> %s\n", facts[i].line, facts[i].answer);
		dial(f, secure);
		if (facts[i].before != NULL)
			say_bytes(f, facts[i].before, strlen(facts[i].before));
		f->seen_n = 0;
		say_bytes(f, facts[i].line, strlen(facts[i].line));
		EXPECT(f, facts[i].answer);
		assert_int_equal(f->closed, facts[i].closes);
		close(f->fd);
		f->fd = -1;
		settle(f);
		assert_int_equal(smtpd_count(f->smtpd), 0);
	}
}

static void
test_without_tls(void **state)
{
	static const struct fact facts[] = {
		{ NULL, "MAIL FROM:<a@b.org>\r\n", "503 5.5.1 [bad_sequence]",
		    false },
		{ "EHLO x\r\n", "MAIL FROM:<a@b.org>\r\n",
		    "530 5.7.0 [tls_required]", false },
		{ "EHLO x\r\n", "RCPT TO:<a@b.org>\r\n", "530 5.7.0", false },
		{ "EHLO x\r\n", "DATA\r\n", "530 5.7.0", false },
		{ "EHLO x\r\n", "AUTH PLAIN AGEAYg==\r\n",
		    "538 5.7.11 [tls_required]", false },
		{ NULL, "EHLO\r\n", "501 5.5.4 [syntax_error]", false },
		{ NULL, "NOOP x\r\n", "250 2.0.0", false },
		{ NULL, "RSET\r\n", "250 2.0.0", false },
		{ NULL, "VRFY a\r\n", "252 2.5.0", false },
		{ NULL, "HELP\r\n", "214 2.0.0", false },
		{ NULL, "EXPN a\r\n", "502 5.5.1", false },
		{ NULL, "ETRN a\r\n", "502 5.5.1", false },
		{ NULL, "BDAT 3\r\n", "502 5.5.1", true },
		{ NULL, "FOO\r\n", "500 5.5.2 [syntax_error]", false },
		{ NULL, "GET / HTTP/1.1\r\n", "521 5.5.2", true },
		{ NULL, "\r\n", "521 5.5.2", true },
		{ NULL, "\x16\x03\x01\x02", "521 5.5.2", true },
		{ NULL, "NOOP\n", "500 5.5.2", true },
		{ NULL, "NOOP\r\r\n", "500 5.5.2", false },
		{ NULL, "QUIT\r\n", "221 2.0.0", true },
		{ NULL, "QUIT x\r\n", "501 5.5.4", false },
		{ "EHLO x\r\n", "STARTTLS x\r\n", "501 5.5.4", false },
		{ "EHLO x\r\n", "STARTTLS\r\nNOOP\r\n",
		    "554 5.5.0 [protocol_violation]", true },
		{ "EHLO x\r\n", "STARTTLS\r\nx", "554 5.5.0", true },
	};

	try_facts(*state, false, facts, sizeof facts / sizeof *facts);
}

static void
test_with_tls(void **state)
{
	static const struct fact facts[] = {
		{ "EHLO x\r\n", "STARTTLS\r\n", "503 5.5.1", false },
		{ "EHLO x\r\n", "MAIL FROM:<a@b.org>\r\n",
		    "530 5.7.0 [missing_authorization]", false },
		{ NULL, "AUTH PLAIN AGEAYg==\r\n", "503 5.5.1", false },
		{ "EHLO x\r\n", "AUTH CRAM-MD5\r\n", "504 5.5.4", false },
		{ "EHLO x\r\n", "AUTH PLAIN !!!!\r\n", "501 5.5.2", false },
		{ "EHLO x\r\nAUTH PLAIN\r\n", "*\r\n", "501 5.5.2", false },
		{ "EHLO x\r\n", "AUTH PLAIN\r\n", "334 ", false },
		{ "EHLO x\r\n", "AUTH LOGIN\r\n", "334 VXNlcm5hbWU6", false },
		/* OpenSMTPD#422, .NET's lower case */
		{ "EHLO x\r\n", "auth login Ym90QGV4YW1wbGUub3Jn\r\n",
		    "334 UGFzc3dvcmQ6", false },
		{ "EHLO x\r\nAUTH LOGIN Ym90QGV4YW1wbGUub3Jn\r\n",
		    "Z29vZA==\r\n", "235 2.7.0", false },
		{ "EHLO x\r\nAUTH LOGIN Ym90QGV4YW1wbGUub3Jn\r\n", "YmFk\r\n",
		    "535 5.7.8 [unknown_api_key]", false },
		/* another name with a good key */
		{ "EHLO x\r\n",
		    "AUTH PLAIN AGV2aWxAZXhhbXBsZS5vcmcAZ29vZA=="
		    "\r\n",
		    "535 5.7.8", false },
		/* authzid of somebody else */
		{ "EHLO x\r\n",
		    "AUTH PLAIN YWJjAGJvdEBleGFtcGxlLm9yZwBnb29k\r\n",
		    "535 5.7.8", false },
		{ "EHLO x\r\n", "AUTH PLAIN AGJvdEBleGFtcGxlLm9yZwB3aWRl\r\n",
		    "535 5.7.8 [key_scope]", false },
		{ "EHLO x\r\n", "AUTH PLAIN AGJvdEBleGFtcGxlLm9yZwBkb3du\r\n",
		    "454 4.7.0 [store_unavailable]", false },
	};

	try_facts(*state, true, facts, sizeof facts / sizeof *facts);
}

static void
test_signed_in(void **state)
{
	static const struct fact facts[] = {
		{ SIGNED_IN, "AUTH PLAIN AGEAYg==\r\n", "503 5.5.1", false },
		{ SIGNED_IN, "MAIL FROM:<BOT@EXAMPLE.ORG>\r\n", "250 2.1.0",
		    false },
		{ SIGNED_IN, "MAIL FROM: <bot@example.org> SIZE=9\r\n",
		    "250 2.1.0", false },
		{ SIGNED_IN, "MAIL FROM:<ceo@example.org>\r\n",
		    "550 5.7.1 [sender_mismatch] MAIL FROM is "
		    "<ceo@example.org>; this key may send only as "
		    "bot@example.org.",
		    false },
		{ SIGNED_IN, "MAIL FROM:<>\r\n", "550 5.7.1", false },
		{ SIGNED_IN, "MAIL FROM:<bot@>\r\n", "501 5.1.7", false },
		{ SIGNED_IN, "MAIL FROM:<@a:bot@example.org>\r\n", "501 5.1.7",
		    false },
		{ SIGNED_IN, "MAIL FROM:<bot@example.org> SIZE=100001\r\n",
		    "552 5.3.4 [payload_too_large]", false },
		{ SIGNED_IN, "MAIL FROM:<bot@example.org> SIZE=x\r\n",
		    "501 5.5.4", false },
		{ SIGNED_IN, "MAIL FROM:<bot@example.org> SMTPUTF8\r\n",
		    "555 5.5.4 [param_unsupported]", false },
		{ SIGNED_IN, "RCPT TO:<a@b.org>\r\n", "503 5.5.1", false },
		{ SIGNED_IN, "DATA\r\n", "503 5.5.1", false },
		{ SIGNED_IN ENVELOPE, "MAIL FROM:<bot@example.org>\r\n",
		    "503 5.5.1", false },
		{ SIGNED_IN ENVELOPE, "AUTH PLAIN AGEAYg==\r\n", "503 5.5.1",
		    false },
		{ SIGNED_IN "MAIL FROM:<bot@example.org>\r\n", "DATA\r\n",
		    "503 5.5.1", false },
		{ SIGNED_IN "MAIL FROM:<bot@example.org>\r\n"
			    "RCPT TO:<a@localhost>\r\n",
		    "DATA\r\n", "554 5.5.1", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<a@[127.0.0.1]>\r\n",
		    "550 5.1.2 [recipient_domain_refused]", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<a@printer.local>\r\n",
		    "550 5.1.2", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<a b@c.org>\r\n", "501 5.1.3",
		    false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<>\r\n", "501 5.1.3", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<@r.org:a@c.org>\r\n",
		    "501 5.1.3", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<j\xc3\xb6rg@c.org>\r\n",
		    "550 5.6.7 [smtputf8_needed]", false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<a@c.org> NOTIFY=NEVER\r\n",
		    "555 5.5.4", false },
		{ SIGNED_IN ENVELOPE "RCPT TO:<b@c.org>\r\n"
				     "RCPT TO:<c@c.org>\r\n",
		    "RCPT TO:<d@c.org>\r\n", "452 4.5.3 [too_many_recipients]",
		    false },
		{ SIGNED_IN ENVELOPE, "DATA\r\nFrom: x\r\n",
		    "554 5.5.0 [protocol_violation]", true },
		{ SIGNED_IN ENVELOPE, "DATA\r\n", "354 ", false },
		{ SIGNED_IN ENVELOPE "DATA\r\n", HEAD "hi\r\n.\r\n",
		    "250 2.6.0 id=msg_", false },
		{ SIGNED_IN ENVELOPE "DATA\r\n", HEAD "hi\n.\r\n\r\n.\r\n",
		    "554 5.6.0 [message_malformed]", false },
		{ SIGNED_IN ENVELOPE "DATA\r\n", HEAD "h\ri\r\n.\r\n",
		    "554 5.6.0", false },
	};

	try_facts(*state, true, facts, sizeof facts / sizeof *facts);
}

static void
test_held_reply_is_exact(void **state)
{
	struct fixture *f = *state;
	char *tail;

	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	EXPECT(f, "250 2.1.0", "250 2.1.5", "354 ");
	SAY(f, HEAD "..dot\r\n.\r\n");
	tail = strstr(f->seen, " held for approval\r\n");
	assert_non_null(tail);
	assert_int_equal(tail - f->seen, strlen("250 2.6.0 id=msg_") + 26);
	assert_int_equal(fake_store.message.n, strlen(HEAD ".dot\r\n"));
	assert_memory_equal(
	    fake_store.message.p, HEAD ".dot\r\n", fake_store.message.n);
	f->seen_n = 0;
	fake_store.state = 2;
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	SAY(f, HEAD ".\r\n");
	assert_non_null(strstr(f->seen, " accepted for delivery\r\n"));
}

/* The whole conversation, cut at every byte, gives the same replies. */
static void
test_every_split(void **state)
{
	static const char talk[] = SIGNED_IN ENVELOPE "DATA\r\n";
	static const char body[] = HEAD "a\r\n..b\r\n.\r\nQUIT\r\n";
	struct fixture *f = *state;
	size_t i;

	dial(f, true);
	for (i = 0; i < sizeof talk - 1; i++)
		say_bytes(f, talk + i, 1);
	for (i = 0; i < sizeof body - 1; i++)
		say_bytes(f, body + i, 1);
	EXPECT(f, "220", "250-", "250-", "250-", "250-", "250-", "250 ", "235",
	    "250 2.1.0", "250 2.1.5", "354", "250 2.6.0", "221");
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
		sign_in(f);
		SAY(f, ENVELOPE "DATA\r\n");
		f->seen_n = 0;
		snprintf(text, sizeof text,
		    HEAD "one%s" ENVELOPE "DATA\r\n" HEAD "two\r\n.\r\n",
		    ends[i]);
		say_bytes(f, text, strlen(text));
		if (strchr(ends[i], '\x0b') != NULL)
			EXPECT(f, "250 2.6.0"); /* one message, as it is */
		else
			EXPECT(f, "554 5.6.0 [message_malformed]");
		SAY(f, "NOOP\r\n");
		EXPECT(f, "250 2.0.0");
		close(f->fd);
		f->fd = -1;
		settle(f);
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
	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (at = 0; at < 149952; at += 7440) /* whole lines would hide CRs */
		say_bytes(f, big + at, 149952 - at < 7440 ? 149952 - at : 7440);
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
	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (i = 0; i < 6 && f->seen_n == 0; i++) {
		(void)!send(
		    f->fd, big, sizeof big, MSG_DONTWAIT | MSG_NOSIGNAL);
		settle(f);
	}
	EXPECT(f, "552 5.3.4");
	assert_true(f->closed);
}

static void
test_revoked_between(void **state)
{
	static const char *const steps[] = { "MAIL FROM:<bot@example.org>\r\n",
		"RCPT TO:<a@example.com>\r\n", "DATA\r\n", HEAD "hi\r\n.\r\n" };
	struct fixture *f = *state;
	size_t at, i;

	for (at = 0; at < 4; at++) {
		print_message("revoked before step %zu\n", at);
		fake_store.revoked = false;
		sign_in(f);
		for (i = 0; i < at; i++)
			say_bytes(f, steps[i], strlen(steps[i]));
		fake_store.revoked = true;
		session_of(f)->checked_ms = 0;
		f->seen_n = 0;
		say_bytes(f, steps[at], strlen(steps[at]));
		EXPECT(f, "550 5.7.1 [unknown_api_key]");
		assert_true(f->closed);
		close(f->fd);
		f->fd = -1;
		settle(f);
	}
}

static void
test_touch_down_is_temporary(void **state)
{
	struct fixture *f = *state;

	sign_in(f);
	fake_store.touch_down = true;
	session_of(f)->checked_ms = 0;
	SAY(f, "MAIL FROM:<bot@example.org>\r\n");
	EXPECT(f, "451 4.3.0 [store_unavailable]");
	fake_store.touch_down = false;
	SAY(f, ENVELOPE);
	EXPECT(f, "250 2.1.0", "250 2.1.5");
}

static void
test_inbox_may_not(void **state)
{
	struct fixture *f = *state;

	fake_store.mode = 0;
	sign_in(f);
	SAY(f, "MAIL FROM:<bot@example.org>\r\n");
	EXPECT(f, "550 5.7.1 [inbox_read_only]");
	close(f->fd);
	fake_store.mode = 2;
	fake_store.unverified = true;
	settle(f);
	sign_in(f);
	SAY(f, "MAIL FROM:<bot@example.org>\r\n");
	EXPECT(f, "550 5.7.1 [domain_not_verified]");
}

static void
test_outcomes(void **state)
{
	static const struct {
		enum err_code code;
		const char *answer;
	} outcomes[] = {
		{ E_STORE_UNAVAILABLE, "451 4.3.0 [store_unavailable]" },
		{ E_STORAGE_FULL, "452 4.3.1 [storage_full]" },
		{ E_RATE_LIMITED, "451 4.7.1 [rate_limited]" },
		{ E_HELD_LIMIT, "451 4.7.1 [held_limit]" },
		{ E_LIMITER_UNAVAILABLE, "451 4.3.0 [limiter_unavailable]" },
		{ E_MESSAGE_REJECTED, "550 5.7.1 [message_rejected]" },
		{ E_SENDER_MISMATCH, "550 5.7.1 [sender_mismatch]" },
		{ E_MESSAGE_MALFORMED, "554 5.6.0 [message_malformed]" },
		{ E_MIME_TOO_COMPLEX, "550 5.6.0 [mime_too_complex]" },
		{ E_HEADER_FORBIDDEN, "554 5.6.0 [header_forbidden]" },
		{ E_LOOP, "554 5.4.6 [loop]" },
		{ E_SMTPUTF8_NEEDED, "550 5.6.7 [smtputf8_needed]" },
		{ E_INTERNAL_ERROR, "451 4.3.0 [internal_error]" },
	};
	struct fixture *f = *state;
	size_t i;

	f->set.errors_max = 100;
	smtpd_configure(f->smtpd, &f->set);
	sign_in(f);
	for (i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
		print_message("%s\n", outcomes[i].answer);
		fake_store.outcome = outcomes[i].code;
		SAY(f, ENVELOPE "DATA\r\n");
		f->seen_n = 0;
		SAY(f, HEAD ".\r\n");
		EXPECT(f, outcomes[i].answer);
	}
}

static void
test_auth_failures_are_capped(void **state)
{
	struct fixture *f = *state;
	int i;

	dial(f, true);
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

	dial(f, false);
	f->seen_n = 0;
	for (i = 0; i < 10; i++) {
		SAY(f, "FOO\r\n");
		EXPECT(f, "500 5.5.2");
	}
	SAY(f, "FOO\r\n");
	EXPECT(f, "500 5.5.2", "421 4.7.0 [too_many_errors]");
	assert_true(f->closed);
}

static void
test_idle_commands_are_capped(void **state)
{
	struct fixture *f = *state;
	int i;

	dial(f, false);
	for (i = 0; i < 300 && !f->closed; i++) {
		f->seen_n = 0;
		(void)!send(f->fd, "NOOP\r\n", 6, MSG_NOSIGNAL);
		settle(f);
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
	dial(f, false);
	f->seen_n = 0;
	say_bytes(f, big, sizeof big);
	EXPECT(f, "500 5.5.2");
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
	dial(f, false);
	s = session_of(f);
	setsockopt(bufferevent_getfd(s->bev), SOL_SOCKET, SO_SNDBUF, &small,
	    sizeof small);
	for (i = 0; i < 8; i++) {
		(void)!send(
		    f->fd, noops, sizeof noops, MSG_DONTWAIT | MSG_NOSIGNAL);
		event_base_loop(loop_base(f->loop), EVLOOP_NONBLOCK);
	}
	assert_true(evbuffer_get_length(bufferevent_get_output(s->bev)) <
		    SESSION_OUTPUT_MAX + 4096);
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
	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	for (i = 0; i < 10; i++)
		say_bytes(f, line, sizeof line);
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
	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	SAY(f, HEAD ".\r\n");
	assert_int_equal(fake_store.finished, 1);
	close(f->fd);
	f->fd = -1;
	settle(f);
	fake_store_let_go();
	settle(f);
	assert_int_equal(smtpd_count(f->smtpd), 0);
}

static void
test_half_close_after_dot(void **state)
{
	struct fixture *f = *state;

	fake_store.hold = true;
	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	SAY(f, HEAD ".\r\n");
	shutdown(f->fd, SHUT_WR);
	settle(f);
	fake_store_let_go();
	settle(f);
	EXPECT(f, "250 2.6.0");
	assert_true(f->closed);
}

static void
test_hang_up_anywhere(void **state)
{
	static const char talk[] = SIGNED_IN ENVELOPE "DATA\r\n";
	static const char body[] = HEAD "a\r\n..b\r\n.\r";
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof talk + sizeof body - 2; i++) {
		dial(f, true);
		say_bytes(f, talk, i < sizeof talk - 1 ? i : sizeof talk - 1);
		if (i >= sizeof talk - 1)
			say_bytes(f, body, i - (sizeof talk - 1));
		close(f->fd);
		f->fd = -1;
		settle(f);
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

	sign_in(f);
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	smtpd_drain(f->smtpd, on_drained, &drained);
	settle(f);
	assert_false(drained);
	SAY(f, HEAD ".\r\n"); /* what was begun is finished */
	EXPECT(f, "250 2.6.0");
	SAY(f, "NOOP\r\n");
	EXPECT(f, "421 4.3.2");
	assert_true(f->closed);
	close(f->fd);
	f->fd = -1;
	settle(f);
	assert_true(drained);
}

static void
test_early_talk(void **state)
{
	static const struct fact facts[] = {
		{ "EHLO x\r\n", NULL, "554 5.5.0", true },
		{ "GET / HTTP/1.0\r\n\r\n", NULL, "521 5.5.2", true },
		{ "\x16\x03\x01", NULL, "521 5.5.2", true },
	};
	struct fixture *f = *state;
	struct net_peer peer;
	size_t i;
	int fds[2];

	net_peer_init(&peer, NULL);
	for (i = 0; i < 3; i++) {
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
		    0);
		f->fd = fds[0];
		f->closed = false;
		(void)!write(f->fd, facts[i].before, strlen(facts[i].before));
		smtpd_accept(f->smtpd, fds[1], &peer, NULL, false);
		settle(f);
		EXPECT(f, facts[i].answer);
		assert_true(f->closed);
		close(f->fd);
		f->fd = -1;
		settle(f);
	}
}

static void
test_rset_and_ehlo_forget(void **state)
{
	struct fixture *f = *state;

	sign_in(f);
	SAY(f, ENVELOPE "RSET\r\nRCPT TO:<a@b.org>\r\n" ENVELOPE);
	EXPECT(f, "250 2.1.0", "250 2.1.5", "250 2.0.0", "503 5.5.1",
	    "250 2.1.0", "250 2.1.5");
	SAY(f, "EHLO again\r\n");
	f->seen_n = 0;
	SAY(f, "DATA\r\n");
	EXPECT(f, "503 5.5.1");
	SAY(f, ENVELOPE); /* still signed in */
	EXPECT(f, "250 2.1.0", "250 2.1.5");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_plain_offers),
		T(test_without_tls),
		T(test_with_tls),
		T(test_signed_in),
		T(test_held_reply_is_exact),
		T(test_every_split),
		T(test_smuggling),
		T(test_oversize_is_read_to_its_end),
		T(test_endless_data_is_cut),
		T(test_revoked_between),
		T(test_touch_down_is_temporary),
		T(test_inbox_may_not),
		T(test_outcomes),
		T(test_auth_failures_are_capped),
		T(test_errors_are_capped),
		T(test_idle_commands_are_capped),
		T(test_endless_line_is_cut),
		T(test_slow_reader),
		T(test_back_pressure),
		T(test_hang_up_after_dot),
		T(test_half_close_after_dot),
		T(test_hang_up_anywhere),
		T(test_drain),
		T(test_early_talk),
		T(test_rset_and_ehlo_forget),
	};

	signal(SIGPIPE, SIG_IGN); /* as daemon_init() does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
