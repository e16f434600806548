/* SPDX-License-Identifier: ISC */
/* What an envelope says beside addresses: RFC 3461, decision D4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mail/envelope.h"

static void
test_notify(void **state)
{
	static const struct {
		const char *in;
		unsigned want;
		const char *out;
	} facts[] = {
		{ "NEVER", ENVELOPE_NEVER, "NEVER" },
		{ "never", ENVELOPE_NEVER, "NEVER" },
		{ "DELAY,FAILURE,SUCCESS",
		    ENVELOPE_SUCCESS | ENVELOPE_FAILURE | ENVELOPE_DELAY,
		    "SUCCESS,FAILURE,DELAY" },
		{ "FAILURE", ENVELOPE_FAILURE, "FAILURE" },
		{ "", 0, "" },
		{ ",", 0, "" },
		{ "FAILURE,", 0, "" },
		{ ",FAILURE", 0, "" },
		{ "FAILURE,FAILURE", 0, "" },
		{ "NEVER,DELAY", 0, "" },
		{ "SOMETIMES", 0, "" },
	};
	struct buf b = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		print_message("%s\n", facts[i].in);
		assert_int_equal(
		    envelope_notify_parse(str_of(facts[i].in)), facts[i].want);
		buf_clear(&b);
		envelope_notify_put(&b, facts[i].want);
		assert_int_equal(b.n, str_of(facts[i].out).n);
		assert_true(
		    b.n == 0 || str_eq(buf_str(&b), str_of(facts[i].out)));
	}
	buf_free(&b);
}

static void
test_round_trip(void **state)
{
	static const struct str rcpt[] = { str_lit("\"a> NOTIFY=NEVER\"@x.org"),
		str_lit("a@x.org"), str_lit("b@x.org"),
		str_lit("j\xc3\xb6rg@x.org") };
	static const unsigned char notify[] = { ENVELOPE_SUCCESS, 0,
		ENVELOPE_NEVER, ENVELOPE_FAILURE | ENVELOPE_DELAY };
	static const char want[] =
	    "<\"a> NOTIFY=NEVER\"@x.org> NOTIFY=SUCCESS\n"
	    "<b@x.org> NOTIFY=NEVER\n"
	    "<j\xc3\xb6rg@x.org> NOTIFY=FAILURE,DELAY\n"
	    "REQUIRETLS=\nRET=HDRS\nSMTPUTF8=\n";
	struct envelope_params p = { ENVELOPE_RET_HDRS, true, true }, q;
	struct buf b = { 0 };
	size_t i;

	(void)state;
	envelope_params_write(&b, &p, rcpt, notify, 4);
	assert_true(str_eq(buf_str(&b), str_of(want)));
	assert_true(envelope_params_read(&q, buf_str(&b)));
	assert_true(q.require_tls && q.smtputf8);
	assert_int_equal(q.ret, ENVELOPE_RET_HDRS);
	for (i = 0; i < 4; i++)
		assert_int_equal(
		    envelope_notify_of(buf_str(&b), rcpt[i]), notify[i]);
	buf_clear(&b);
	p = (struct envelope_params){ 0 };
	envelope_params_write(&b, &p, rcpt, NULL, 4);
	assert_int_equal(b.n, 0);
	assert_true(envelope_params_read(&q, str_lit("")));
	assert_false(q.require_tls || q.smtputf8);
	buf_free(&b);
}

static void
test_what_is_not_ours(void **state)
{
	static const char *const texts[] = { "RET=FULL", "RET=NONE\n", "\n",
		"SMTPUTF8\n", "REQUIRETLS=1\n", "<a@b> NOTIFY=\n",
		"<a@b> NOTIFY=NEVER,DELAY\n", "a@b> NOTIFY=NEVER\n",
		"ENVID=x\n", "RET=FULL\nX=\n" };
	struct envelope_params p;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		print_message("%s\n", texts[i]);
		assert_false(envelope_params_read(&p, str_of(texts[i])));
	}
}

static void
test_xtext(void **state)
{
	struct buf b = { 0 };

	(void)state;
	envelope_xtext_put(&b, str_lit("a+b=c d\r\n\xc3@x.org"));
	assert_true(
	    str_eq(buf_str(&b), str_lit("a+2Bb+3Dc+20d+0D+0A+C3@x.org")));
	buf_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notify),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_what_is_not_ours),
		cmocka_unit_test(test_xtext),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
