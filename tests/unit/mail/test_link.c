/* SPDX-License-Identifier: ISC */
/* mail/finding_link.c: where links say they lead, and where they do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mail/finding.h"

#define ODD (UINT64_C(1) << FINDING_LINK_ODD)
#define DIFFERS (UINT64_C(1) << FINDING_LINK_MISMATCH)

static const struct {
	const char *target, *text;
	uint64_t bits;
} links[] = {
	{ "https://shop.example/x", "our shop", 0 },
	{ "https://shop.example/x", "shop.example", 0 },
	{ "https://shop.example/x", "www.shop.example/y", 0 },
	{ "https://click.shop.example/?u=1", "https://shop.example/", 0 },
	{ "HTTPS://Shop.Example", "shop.example", 0 },
	{ "https://evil.example/x", "shop.example", DIFFERS },
	{ "https://evil.example/x", "https://shop.test/", DIFFERS },
	{ "https://evil.example/x", "go to https://shop.test/ now", DIFFERS },
	{ "https://evil.example/x", "see www.shop.test", DIFFERS },
	{ "https://shop.test.evil.example/", "shop.test", DIFFERS },
	{ "http:\\\\evil.example\\", "shop.test", DIFFERS },
	{ "//evil.example/", "shop.test", DIFFERS },
	/* words with dots that are no hosts */
	{ "https://nodejs.org/", "Node.js", 0 },
	{ "https://x.example/", "README.md", 0 },
	{ "https://x.example/", "ASP.NET", 0 },
	{ "https://x.example/", "version 1.2", 0 },
	{ "https://x.example/", "e.g. this", 0 },
	{ "https://x.example/", "1.2.3", 0 },
	{ "https://x.example/", "", 0 },
	{ "/relative", "shop.example", 0 },
	{ "#top", "top", 0 },
	{ "tel:+4930123", "030 123", 0 },
	{ "mailto:ann@x.example?subject=hi", "ann@x.example", 0 },
	{ "mailto:ann@x.example", "write to us", 0 },
	{ "mailto:eve@evil.example", "ann@x.example", DIFFERS },
	{ "http://127.0.0.1/", "x", ODD },
	{ "http://2130706433/", "x", ODD },
	{ "http://0x7f.1/", "x", ODD },
	{ "http://[::1]/", "x", ODD },
	{ "https://shop.test@evil.example/", "x", ODD },
	{ "https://shop.example/@ann", "x", 0 },
	{ "javascript:x()", "x", ODD },
	{ " JavaScript:x()", "x", ODD },
	{ "data:text/html,x", "x", ODD },
	{ "ms-word:ofe|u|x", "x", ODD },
	{ "webcal://shop.example/x", "x", 0 },
	{ "http://", "", 0 },
	{ "http:", "", 0 },
};

static void
test_links(void **state)
{
	struct finding_marks m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		m.bits = 0;
		finding_search_link(str_of(links[i].target),
		    str_of(links[i].text), finding_note, &m);
		if (m.bits != links[i].bits)
			print_message(
			    "%s %s\n", links[i].target, links[i].text);
		assert_int_equal(m.bits, links[i].bits);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
