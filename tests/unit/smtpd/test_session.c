/* SPDX-License-Identifier: ISC */
/* Every reply of smtp.md 1.4 and decision D24, as a table of facts. */
#include "tests/unit/smtpd/talk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mail/envelope.h"
#include "net/peer.h"
#include "smtpd/internal.h"
#include "tests/fake/fake_store.h"

static void
test_plain_offers(void **state)
{
	struct fixture *f = *state;

	talk_dial(f, false);
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
		talk_dial(f, secure);
		if (facts[i].before != NULL)
			talk_say(f, facts[i].before, strlen(facts[i].before));
		f->seen_n = 0;
		talk_say(f, facts[i].line, strlen(facts[i].line));
		EXPECT(f, facts[i].answer);
		assert_int_equal(f->closed, facts[i].closes);
		talk_hang_up(f);
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
		/* the same name in another spelling */
		{ "EHLO x\r\n",
		    "AUTH PLAIN ACJib3QiQEVYQU1QTEUub3JnAGdvb2Q=\r\n",
		    "235 2.7.0", false },
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
		    "250 2.1.0", false },
		{ SIGNED_IN, "MAIL FROM:<bot@example.org> HOLDFOR=9\r\n",
		    "555 5.5.4 [param_unsupported]", false },
		{ SIGNED_IN,
		    "MAIL FROM:<bot@example.org> RET=HDRS ENVID=q+2B1 "
		    "REQUIRETLS\r\n",
		    "250 2.1.0", false },
		{ SIGNED_IN, "MAIL FROM:<bot@example.org> RET=ALL\r\n",
		    "501 5.5.4", false },
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
		/* a body sent blindly is no commands, refused or not */
		{ SIGNED_IN "MAIL FROM:<bot@example.org>\r\n"
			    "RCPT TO:<a@localhost>\r\n",
		    "DATA\r\nRSET\r\n" ENVELOPE, "554 5.5.0", true },
		{ SIGNED_IN, "DATA\r\nx", "554 5.5.0", true },
		{ SIGNED_IN, "MAIL FROM:<bot@b\xc3\xbc.example>\r\n",
		    "550 5.6.7 [smtputf8_needed]", false },
		{ SIGNED_IN, "MAIL FROM:<bot@b\xc3\xbc.example> SMTPUTF8\r\n",
		    "550 5.7.1 [sender_mismatch]", false },
	};

	try_facts(*state, true, facts, sizeof facts / sizeof *facts);
}

static void
test_recipients_and_data(void **state)
{
	static const struct fact facts[] = {
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
		    "250 2.1.5", false },
		{ SIGNED_IN ENVELOPE,
		    "RCPT TO:<a@c.org> NOTIFY=NEVER,DELAY\r\n", "501 5.5.4",
		    false },
		{ SIGNED_IN ENVELOPE, "RCPT TO:<a@c.org> ORCPT=rfc822;root\r\n",
		    "250 2.1.5", false },
		{ SIGNED_IN "MAIL FROM:<bot@example.org> SMTPUTF8\r\n",
		    "RCPT TO:<j\xc3\xb6rg@c.org>\r\n", "250 2.1.5", false },
		{ SIGNED_IN "MAIL FROM:<bot@example.org> SMTPUTF8\r\n",
		    "RCPT TO:<j\xc3rg@c.org>\r\n", "501 5.1.3", false },
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

	talk_sign_in(f);
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

/* What is said of one message is not said of the next (OpenSMTPD#499). */
static void
test_params_are_of_one_transaction(void **state)
{
	struct fixture *f = *state;
	static const unsigned char notify[] = { ENVELOPE_NEVER, 0,
		ENVELOPE_SUCCESS | ENVELOPE_DELAY };

	talk_sign_in(f);
	SAY(f, "MAIL FROM:<bot@example.org> SMTPUTF8 RET=full REQUIRETLS\r\n"
	       "RCPT TO:<a@example.com> NOTIFY=never ORCPT=rfc822;x\r\n"
	       "RCPT TO:<j\xc3\xb6rg@B\xc3\xbc"
	       "cher.example>\r\n"
	       "RCPT TO:<b@example.com> NOTIFY=DELAY,SUCCESS\r\nDATA\r\n");
	EXPECT(f, "250 2.1.0", "250 2.1.5", "250 2.1.5", "250 2.1.5", "354 ");
	SAY(f, HEAD ".\r\n");
	EXPECT(f, "250 2.6.0");
	assert_true(fake_store.smtputf8 && fake_store.require_tls);
	assert_int_equal(fake_store.ret, ENVELOPE_RET_FULL);
	assert_int_equal(fake_store.notify.n, sizeof notify);
	assert_memory_equal(fake_store.notify.p, notify, sizeof notify);
	assert_true(str_eq(buf_str(&fake_store.rcpts),
	    str_lit("a@example.com\nj\xc3\xb6rg@xn--bcher-kva.example\n"
		    "b@example.com\n")));
	SAY(f, ENVELOPE "DATA\r\n");
	f->seen_n = 0;
	SAY(f, HEAD ".\r\n");
	EXPECT(f, "250 2.6.0");
	assert_false(fake_store.smtputf8 || fake_store.require_tls);
	assert_int_equal(fake_store.ret, ENVELOPE_RET_NONE);
	assert_int_equal(fake_store.notify.p[0], 0);
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
		fake_store.stale = false;
		talk_sign_in(f);
		for (i = 0; i < at; i++)
			talk_say(f, steps[i], strlen(steps[i]));
		fake_store.revoked = true;
		fake_store.stale = true;
		f->seen_n = 0;
		talk_say(f, steps[at], strlen(steps[at]));
		EXPECT(f, "550 5.7.1 [unknown_api_key]");
		assert_true(f->closed);
		talk_hang_up(f);
	}
}

static void
test_touch_down_is_temporary(void **state)
{
	struct fixture *f = *state;

	talk_sign_in(f);
	fake_store.touch_down = true;
	fake_store.stale = true;
	SAY(f, "MAIL FROM:<bot@example.org>\r\n");
	EXPECT(f, "451 4.3.0 [store_unavailable]");
	fake_store.touch_down = false;
	SAY(f, ENVELOPE);
	EXPECT(f, "250 2.1.0", "250 2.1.5");
}

/* What comes may have been stored before: the dot says. */
static void
test_inbox_may_not(void **state)
{
	struct fixture *f = *state;

	fake_store.mode = 0;
	fake_store.unverified = true;
	talk_sign_in(f);
	SAY(f, ENVELOPE);
	EXPECT(f, "250 2.1.0", "250 2.1.5");
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
		{ E_INBOX_READ_ONLY, "550 5.7.1 [inbox_read_only]" },
		{ E_DOMAIN_NOT_VERIFIED, "550 5.7.1 [domain_not_verified]" },
		{ E_MISSING_PERMISSION, "550 5.7.1 [missing_permission]" },
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
	talk_sign_in(f);
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
		talk_settle(f);
		EXPECT(f, facts[i].answer);
		assert_true(f->closed);
		talk_hang_up(f);
	}
}

static void
test_rset_and_ehlo_forget(void **state)
{
	struct fixture *f = *state;

	talk_sign_in(f);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_plain_offers),
		T(test_without_tls),
		T(test_with_tls),
		T(test_signed_in),
		T(test_recipients_and_data),
		T(test_held_reply_is_exact),
		T(test_params_are_of_one_transaction),
		T(test_revoked_between),
		T(test_touch_down_is_temporary),
		T(test_inbox_may_not),
		T(test_outcomes),
		T(test_early_talk),
		T(test_rset_and_ehlo_forget),
	};

	signal(SIGPIPE, SIG_IGN); /* as daemon_init() does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
