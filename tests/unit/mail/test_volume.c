/* SPDX-License-Identifier: ISC */
/* More than an inbox used to send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mail/finding.h"

static void
test_volume(void **state)
{
	static const struct {
		int64_t recent, past, hours;
		bool odd;
	} facts[] = {
		{ 20, 0, 7 * 24, true },
		{ 19, 0, 28 * 24, false }, /* few */
		{ 20, 0, 7 * 24 - 1, false }, /* too short a past */
		{ 40, 280, 28 * 24, false }, /* four times the usual */
		{ 41, 280, 28 * 24, true },
		{ 5000, 1000, 24, true }, /* short, but enough of it */
		{ 4000, 1000, 24, false },
		{ 20000, 20000, 29 * 24, true },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		assert_int_equal(finding_volume_odd(facts[i].recent,
				     facts[i].past, facts[i].hours),
		    facts[i].odd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
