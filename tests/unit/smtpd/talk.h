/* SPDX-License-Identifier: ISC */
/*
 * talk.h - a client and a session at the two ends of a socketpair, with the
 * fake store behind it. TLS is taken as given (the flag is set);
 * tests/blackbox has the real thing.
 */
#ifndef TESTS_TALK_H
#define TESTS_TALK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "smtpd/smtpd.h"

struct smtpd_session;

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

int talk_setup(void **state);
int talk_teardown(void **state);
/* Let everything happen that can happen now. */
void talk_settle(struct fixture *f);
struct smtpd_session *talk_session(struct fixture *f);
void talk_dial(struct fixture *f, bool secure);
void talk_hang_up(struct fixture *f);
void talk_say(struct fixture *f, const char *p, size_t n);
/* What came back: only this, compared by the start of each line. */
void talk_expect(struct fixture *f, const char *const *want, size_t n);
/* Dial, EHLO, AUTH, and nothing of it left to read. */
void talk_sign_in(struct fixture *f);

#define SAY(f, text) talk_say((f), text, sizeof(text) - 1)
#define EXPECT(f, ...)                                                         \
	talk_expect((f), (const char *const[]){ __VA_ARGS__ },                 \
	    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
#define T(name) cmocka_unit_test_setup_teardown(name, talk_setup, talk_teardown)

#endif
