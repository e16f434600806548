/* SPDX-License-Identifier: ISC */
/* Domains that look alike in any script, and their innocent neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mail/finding_spoof.h"

static void
test_spoof(void **state)
{
	struct finding_spoof *s = finding_spoof_new();
	char reads[256];

	(void)state;
	assert_non_null(s);
	assert_true(finding_spoof_like(s, "xn--pypal-4ve.com", "paypal.com"));
	/* all Cyrillic: no script is mixed, yet it reads epic */
	assert_true(finding_spoof_like(s, "xn--e1awd7f.com", "epic.com"));
	assert_true(finding_spoof_like(s, "rnicrosoft.com", "microsoft.com"));
	assert_true(finding_spoof_like(s, "paypa1.com", "paypal.com"));
	assert_false(finding_spoof_like(s, "paypal.com", "paypal.com"));
	assert_false(finding_spoof_like(s, "paypal.org", "paypal.com"));
	assert_false(finding_spoof_like(s, "ymail.com", "gmail.com"));
	assert_false(finding_spoof_like(s, "xn--mnchen-3ya.de", "munchen.de"));
	finding_spoof_free(s);
	assert_true(finding_domain_reads(reads, "xn--mnchen-3ya.de"));
	assert_string_equal(reads, "m\xc3\xbcnchen.de");
	assert_false(finding_domain_reads(reads, "example.org"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spoof),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
