/* SPDX-License-Identifier: ISC */
/* Where links say they lead, and where they do; is there one at all? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "mail/finding.h"
#include "mail/structure.h"

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
	{ "https://evil.example/x", "Shop.com", DIFFERS },
	{ "https://evil.example/x", "SHOP.DE", DIFFERS },
	{ "https://evil.example/x", "(shop.test)", DIFFERS },
	{ "https://evil.example/x", "\"shop.test\".", DIFFERS },
	{ "https://evil.example/x", "<https://shop.test/>", DIFFERS },
	{ "https://evil.example/x", "Sign in at shop.com now", DIFFERS },
	{ "https://evil.example/x", "Welcome to Shop.com!", DIFFERS },
	{ "https://evil.example/x", "allegro.pl", DIFFERS },
	{ "https://evil.example/x", "shop.net", DIFFERS },
	{ "https://evil.github.io/x", "shop.github.io", DIFFERS },
	{ "https://a.shop.github.io/x", "Shop.GitHub.IO", 0 },
	{ "https://a.shop.co.uk/x", "SHOP.CO.UK", 0 },
	/* words with dots that are no hosts */
	{ "https://x.example/", "report.pdf", 0 },
	{ "https://x.example/", "Invoice_2026.pdf", 0 },
	{ "https://x.example/", "notes.txt", 0 },
	{ "https://x.example/", "package.json", 0 },
	{ "https://x.example/", "build.tar.gz", 0 },
	{ "https://x.example/", "the file data.csv of May", 0 },
	{ "https://x.example/", "Mr.Smith", 0 },
	{ "https://x.example/", "Learn ASP.NET in a day", 0 },
	{ "https://x.example/", "see you at.de", 0 },
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
	{ "mailto:eve@evil.example", "Ann <ann@x.example>", DIFFERS },
	{ "mailto:ann@x.example", "Ann <Ann@x.example>,", 0 },
	{ "mailto:a@x.example,b@x.example?cc=c", "b@x.example", 0 },
	{ "mailto:ann@x.example", "write to @ann", 0 },
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

/* What the quick search says of a text that passes by, cut anywhere. */
static bool
has_links(const char *type, const char *charset, enum mime_encoding encoding,
    const char *text, size_t cut)
{
	struct finding_scan scan = { 0 };
	struct mime_part part = { .kind = MIME_LEAF, .encoding = encoding };
	bool got;

	(void)snprintf(part.type, sizeof(part.type), "%s", type);
	(void)snprintf(part.charset, sizeof(part.charset), "%s", charset);
	if (finding_watch.begin(&scan, &part)) {
		finding_watch.data(&scan, text, cut);
		finding_watch.data(&scan, text + cut, strlen(text) - cut);
	}
	finding_scan_part(&scan, &part);
	got = scan.links;
	finding_scan_free(&scan);
	return got;
}

static void
test_has_links(void **state)
{
	static const struct {
		const char *type, *charset, *text;
		enum mime_encoding encoding;
		bool has;
	} facts[] = {
		{ "text/plain", "utf-8", "Dear Ann: no. Bye", MIME_7BIT,
		    false },
		{ "text/plain", "", "see HTTPS://x.example", MIME_7BIT, true },
		{ "text/plain", "", "see WWW.x.example", MIME_7BIT, true },
		{ "text/plain", "", "ww.x w.w.w mailto", MIME_7BIT, false },
		{ "text/plain", "", "MailTo:a@x.example", MIME_8BIT, true },
		{ "text/plain", "", "ilto: ://", MIME_7BIT, true },
		{ "text/plain", "", "ww. ilto: :/", MIME_7BIT, false },
		{ "text/html", "", "ref REF hreF", MIME_7BIT, true },
		{ "text/html", "", "ref REF hre", MIME_7BIT, false },
		{ "text/plain", "", "an href", MIME_7BIT, false },
		{ "text/html", "", "<a HREF=//x>y</a>", MIME_7BIT, true },
		{ "text/html", "", "<p>a: b</p>", MIME_7BIT, false },
		{ "text/plain", "", "http:=2F=2Fx.example", MIME_QP, true },
		{ "text/plain", "", "aHR0cHM6Ly94LmV4YW1wbGU=", MIME_BASE64,
		    true },
		{ "text/plain", "utf-16", "x", MIME_8BIT, true }, /* unread */
		{ "image/png", "", "http://x.example", MIME_8BIT, false },
	};
	size_t i, cut;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		for (cut = 0; cut < strlen(facts[i].text); cut++) {
			/* pieces of such a text are whole lines */
			if (facts[i].encoding == MIME_QP && cut > 0)
				break;
			assert_int_equal(
			    has_links(facts[i].type, facts[i].charset,
				facts[i].encoding, facts[i].text, cut),
			    facts[i].has);
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_has_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
