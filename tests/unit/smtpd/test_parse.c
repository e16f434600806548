/* SPDX-License-Identifier: ISC */
/* Facts about command lines: RFC 5321 4.1, 1870, 4954 and public bug reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "smtpd/parse.h"

#define LINE(s) s, sizeof(s) - 1

static const struct {
	const char *line;
	size_t n;
	enum smtp_verb verb;
	enum smtp_fault fault;
	const char *path; /* NULL: not looked at */
} lines[] = {
	{ LINE("EHLO client.example.org"), SMTP_EHLO, SMTP_FINE, NULL },
	{ LINE("ehlo [::1]"), SMTP_EHLO, SMTP_FINE, NULL },
	{ LINE("EHLO MY_PC"), SMTP_EHLO, SMTP_FINE, NULL },
	{ LINE("EHLO"), SMTP_EHLO, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("EHLO two words"), SMTP_EHLO, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("EHLO a\tb"), SMTP_EHLO, SMTP_BAD_BYTES, NULL },
	{ LINE("HELO x"), SMTP_HELO, SMTP_FINE, NULL },
	{ LINE("STARTTLS now"), SMTP_STARTTLS, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("STARTTLS "), SMTP_STARTTLS, SMTP_FINE, NULL },
	{ LINE("DATA x"), SMTP_DATA, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("NOOP anything at all"), SMTP_NOOP, SMTP_FINE, NULL },
	{ LINE("VRFY"), SMTP_VRFY, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("AUTH"), SMTP_AUTH, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("AUTH PLAIN a b"), SMTP_AUTH, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("BDAT 10 LAST"), SMTP_BDAT, SMTP_FINE, NULL },
	{ LINE("EXPN list"), SMTP_REFUSED, SMTP_FINE, NULL },
	{ LINE("GET / HTTP/1.1"), SMTP_FOREIGN, SMTP_FINE, NULL },
	{ LINE("\x16\x03\x01"), SMTP_FOREIGN, SMTP_BAD_BYTES, NULL },
	{ LINE("1234"), SMTP_FOREIGN, SMTP_FINE, NULL },
	{ LINE("MAILX FROM:<a@b>"), SMTP_UNKNOWN, SMTP_FINE, NULL },
	{ LINE("MAIL FROM:<a@b.org>"), SMTP_MAIL, SMTP_FINE, "a@b.org" },
	{ LINE("mail from:<a@b.org>"), SMTP_MAIL, SMTP_FINE, "a@b.org" },
	/* mox#101, KumoMTA#76: one space is what Outlook sends */
	{ LINE("MAIL FROM: <a@b.org>"), SMTP_MAIL, SMTP_FINE, "a@b.org" },
	{ LINE("MAIL FROM:  <a@b.org>"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL FROM:<>"), SMTP_MAIL, SMTP_FINE, "" },
	{ LINE("MAIL FROM:a@b.org"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL FROM:<a@b.org"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL FROM:<a@b.org>x"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL FROM:<a b@c>"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL FROM:<<a@b>>"), SMTP_MAIL, SMTP_BAD_SENDER, NULL },
	{ LINE("MAIL TO:<a@b.org>"), SMTP_MAIL, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("MAIL"), SMTP_MAIL, SMTP_BAD_ARGUMENT, NULL },
	{ LINE("MAIL FROM:<@r:a@b>"), SMTP_MAIL, SMTP_ROUTE_SENDER, NULL },
	/* kumomta#495: a quoted local part may hold @ and > */
	{ LINE("RCPT TO:<\"a@b\"@c.d>"), SMTP_RCPT, SMTP_FINE, "\"a@b\"@c.d" },
	{ LINE("RCPT TO:<\"a>b\"@c.d>"), SMTP_RCPT, SMTP_FINE, "\"a>b\"@c.d" },
	{ LINE("RCPT TO:<\"a\\\">b\"@c.d>"), SMTP_RCPT, SMTP_FINE,
	    "\"a\\\">b\"@c.d" },
	{ LINE("RCPT TO:<u+caf_=a_b=c@gmail.com>"), SMTP_RCPT, SMTP_FINE,
	    "u+caf_=a_b=c@gmail.com" },
	{ LINE("RCPT TO:<bad addr>"), SMTP_RCPT, SMTP_BAD_RECIPIENT, NULL },
	{ LINE("RCPT TO:<@a,@b:u@d>"), SMTP_RCPT, SMTP_ROUTE_RECIPIENT, NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY=NEVER"), SMTP_RCPT, SMTP_FINE, "x@y" },
	{ LINE("RCPT TO:<x@y> NOTIFY=success,FAILURE,Delay"), SMTP_RCPT,
	    SMTP_FINE, "x@y" },
	{ LINE("RCPT TO:<x@y> NOTIFY=NEVER,SUCCESS"), SMTP_RCPT, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY=SUCCESS,SUCCESS"), SMTP_RCPT,
	    SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY=SUCCESS,"), SMTP_RCPT, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY"), SMTP_RCPT, SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY="), SMTP_RCPT, SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> NOTIFY=NEVER NOTIFY=NEVER"), SMTP_RCPT,
	    SMTP_BAD_PARAM, NULL },
	/* OpenSMTPD#1084: what stands there is no address */
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;root"), SMTP_RCPT, SMTP_FINE,
	    "x@y" },
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;a+2Bb@c NOTIFY=DELAY"), SMTP_RCPT,
	    SMTP_FINE, "x@y" },
	{ LINE("RCPT TO:<x@y> ORCPT=utf-8;j\\x{F6}rg@c"), SMTP_RCPT, SMTP_FINE,
	    "x@y" },
	{ LINE("RCPT TO:<x@y> ORCPT=x"), SMTP_RCPT, SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> ORCPT=;x"), SMTP_RCPT, SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;"), SMTP_RCPT, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;a+0D+0Ab"), SMTP_RCPT,
	    SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;a+00b"), SMTP_RCPT, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("RCPT TO:<x@y> ORCPT=rfc822;a ORCPT=rfc822;a"), SMTP_RCPT,
	    SMTP_BAD_PARAM, NULL },
	{ LINE("RCPT TO:<x@y> SIZE=1"), SMTP_RCPT, SMTP_UNKNOWN_PARAM, NULL },
	/* parameters inside a quoted local part stay there (mail-send#42) */
	{ LINE("RCPT TO:<\"foo@evil> ORCPT=x\"@ok.com>"), SMTP_RCPT, SMTP_FINE,
	    "\"foo@evil> ORCPT=x\"@ok.com" },
	{ LINE("MAIL FROM:<a@b> SIZE=10 BODY=8bitmime"), SMTP_MAIL, SMTP_FINE,
	    "a@b" },
	{ LINE("MAIL FROM:<a@b> SIZE="), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SIZE=1x"), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SIZE=-1"), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SIZE=123456789012345678901"), SMTP_MAIL,
	    SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SIZE=1 SIZE=1"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> BODY=BINARYMIME"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> AUTH=<>"), SMTP_MAIL, SMTP_FINE, "a@b" },
	{ LINE("MAIL FROM:<a@b> AUTH=e+3Dmc2"), SMTP_MAIL, SMTP_FINE, "a@b" },
	{ LINE("MAIL FROM:<a@b> AUTH=e+0Ax"), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SMTPUTF8"), SMTP_MAIL, SMTP_FINE, "a@b" },
	{ LINE("MAIL FROM:<a@b> smtputf8 body=8bitmime"), SMTP_MAIL, SMTP_FINE,
	    "a@b" },
	{ LINE("MAIL FROM:<a@b> SMTPUTF8="), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> SMTPUTF8 SMTPUTF8"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> REQUIRETLS"), SMTP_MAIL, SMTP_FINE, "a@b" },
	{ LINE("MAIL FROM:<a@b> REQUIRETLS=1"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> RET=HDRS"), SMTP_MAIL, SMTP_FINE, "a@b" },
	{ LINE("MAIL FROM:<a@b> RET=full ENVID=QQ314159"), SMTP_MAIL, SMTP_FINE,
	    "a@b" },
	{ LINE("MAIL FROM:<a@b> RET=NONE"), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> RET=FULL RET=FULL"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> ENVID="), SMTP_MAIL, SMTP_BAD_PARAM, NULL },
	{ LINE("MAIL FROM:<a@b> ENVID=a+0Ab"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> ENVID=a+2bb"), SMTP_MAIL, SMTP_BAD_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> NOTIFY=NEVER"), SMTP_MAIL, SMTP_UNKNOWN_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b> MT-PRIORITY=3"), SMTP_MAIL, SMTP_UNKNOWN_PARAM,
	    NULL },
	{ LINE("MAIL FROM:<a@b>\0 SIZE=1"), SMTP_MAIL, SMTP_BAD_BYTES, NULL },
	{ LINE("MAIL FROM:<a@b>\r"), SMTP_MAIL, SMTP_BAD_BYTES, NULL },
	{ LINE(""), SMTP_UNKNOWN, SMTP_FINE, NULL },
};

static void
test_lines(void **state)
{
	struct smtp_command cmd;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof lines / sizeof *lines; i++) {
		print_message("%s\n", lines[i].line);
		smtp_command_parse(&cmd, lines[i].line, lines[i].n);
		assert_int_equal(cmd.verb, lines[i].verb);
		assert_int_equal(cmd.fault, lines[i].fault);
		if (lines[i].path != NULL)
			assert_true(str_eq(cmd.path, str_of(lines[i].path)));
	}
}

static void
test_size_is_read(void **state)
{
	struct smtp_command cmd;

	(void)state;
	smtp_command_parse(&cmd, LINE("MAIL FROM:<a@b> SIZE=52428800"));
	assert_true(cmd.has_size);
	assert_int_equal(cmd.size, 52428800);
	smtp_command_parse(
	    &cmd, LINE("MAIL FROM:<a@b> SIZE=99999999999999999999"));
	assert_int_equal(cmd.fault, SMTP_FINE);
	assert_true(cmd.size == UINT64_MAX);
}

static void
test_long_lines(void **state)
{
	static char line[SMTP_AUTH_LINE_MAX + 2];
	struct smtp_command cmd;

	(void)state;
	memset(line, 'a', sizeof line);
	memcpy(line, "NOOP ", 5);
	smtp_command_parse(&cmd, line, SMTP_LINE_MAX);
	assert_int_equal(cmd.fault, SMTP_FINE);
	smtp_command_parse(&cmd, line, SMTP_LINE_MAX + 1);
	assert_int_equal(cmd.fault, SMTP_TOO_LONG);
	memcpy(line, "AUTH PLAIN ", 11);
	smtp_command_parse(&cmd, line, SMTP_AUTH_LINE_MAX);
	assert_int_equal(cmd.fault, SMTP_FINE);
	assert_int_equal(cmd.initial.n, SMTP_AUTH_LINE_MAX - 11);
	smtp_command_parse(&cmd, line, SMTP_AUTH_LINE_MAX + 1);
	assert_int_equal(cmd.fault, SMTP_TOO_LONG);
}

static void
test_auth_arguments(void **state)
{
	struct smtp_command cmd;

	(void)state;
	smtp_command_parse(&cmd, LINE("AUTH login dXNlcg=="));
	assert_true(str_ieq(cmd.mechanism, str_lit("LOGIN")));
	assert_true(cmd.has_initial);
	assert_true(str_eq(cmd.initial, str_lit("dXNlcg==")));
	smtp_command_parse(&cmd, LINE("AUTH PLAIN"));
	assert_false(cmd.has_initial);
}

static void
test_base64(void **state)
{
	static const char *const bad[] = { "a", "ab", "abc", "ab c", "abc=d",
		"====", "a===", "ab=c", "abc\n", "ab-_" };
	unsigned char out[64];
	size_t n, i;

	(void)state;
	assert_true(
	    smtp_base64_decode(str_lit("dXNlcg=="), out, sizeof out, &n));
	assert_int_equal(n, 4);
	assert_memory_equal(out, "user", 4);
	assert_true(smtp_base64_decode(str_lit("="), out, sizeof out, &n));
	assert_int_equal(n, 0);
	for (i = 0; i < sizeof bad / sizeof *bad; i++) {
		print_message("%s\n", bad[i]);
		assert_false(
		    smtp_base64_decode(str_of(bad[i]), out, sizeof out, &n));
	}
	assert_false(smtp_base64_decode(str_lit("dXNlcg=="), out, 4, &n));
}

static void
test_plain(void **state)
{
	struct str authzid, name, password;

	(void)state;
#define PLAIN(s)                                                               \
	smtp_plain_parse((const unsigned char *)(s), sizeof(s) - 1, &authzid,  \
	    &name, &password)
	assert_true(PLAIN("\0bot@x\0secret"));
	assert_int_equal(authzid.n, 0);
	assert_true(str_eq(name, str_lit("bot@x")));
	assert_true(str_eq(password, str_lit("secret")));
	assert_true(PLAIN("z\0n\0p"));
	assert_false(PLAIN("no nul at all"));
	assert_false(PLAIN("\0one"));
	assert_false(PLAIN("\0\0password"));
	assert_false(PLAIN("\0name\0"));
	assert_false(PLAIN("\0na\nme\0pass"));
	assert_false(PLAIN("\0name\0pa\0ss"));
}

/* Every prefix and every single-byte change of a good line: no crash. */
static void
test_mutations(void **state)
{
	static const char good[] =
	    "RCPT TO:<\"a\\>\"@b.org> SIZE=1 BODY=7BIT AUTH=+41";
	char line[sizeof good];
	struct smtp_command cmd;
	size_t i;
	int c;

	(void)state;
	for (i = 0; i < sizeof good; i++)
		smtp_command_parse(&cmd, good, i);
	for (i = 0; i < sizeof good - 1; i++)
		for (c = 0; c < 256; c++) {
			memcpy(line, good, sizeof good);
			line[i] = (char)c;
			smtp_command_parse(&cmd, line, sizeof good - 1);
			assert_true(cmd.path.n <= sizeof good);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_size_is_read),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_auth_arguments),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
