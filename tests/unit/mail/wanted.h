/* SPDX-License-Identifier: ISC */
/* What findings a text has, beside those that it is to have. */
#ifndef TESTS_UNIT_MAIL_WANTED_H
#define TESTS_UNIT_MAIL_WANTED_H

#include "mail/finding.h"

#define F(id) (UINT64_C(1) << FINDING_##id)

struct want {
	const char *text;
	uint64_t bits;
};

static void
differs(const char *text, uint64_t got, uint64_t want)
{
	int i;

	if (got == want)
		return;
	for (i = 0; i < FINDING_COUNT; i++)
		if (((got ^ want) >> i & 1) != 0)
			print_message("%s: %s %s\n", text, finding_code(i),
			    (got >> i & 1) != 0 ? "is not wanted" : "missing");
	fail();
}

#endif
