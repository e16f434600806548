/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "mail/address.h"

static const struct {
	const char *text, *canonical; /* NULL = refused */
} addresses[] = {
	{ "Ann@Example.ORG", "ann@example.org" },
	{ "a+tag@x.example", "a+tag@x.example" },
	{ "\"bob\"@x.example", "bob@x.example" },
	{ "\"b\\ob\"@x.example", "bob@x.example" },
	{ "\"a@b\"@c.example", "\"a@b\"@c.example" }, /* B10 */
	{ "\"a b\"@c.example", "\"a b\"@c.example" },
	{ "user+caf_=a_b=c@gmail.com", "user+caf_=a_b=c@gmail.com" },
	{ "u%other@ours.example", "u%other@ours.example" },
	{ "a@b\xc3\xbc"
	  "cher.example",
	    "a@xn--bcher-kva.example" },
	{ "a@XN--BCHER-KVA.example", "a@xn--bcher-kva.example" },
	{ "\xc3\xa9@x.example", "\xc3\xa9@x.example" },
	{ "e\xcc\x81@x.example", "\xc3\xa9@x.example" }, /* NFC */
	{ "a@[127.0.0.1]", "a@[127.0.0.1]" },
	{ "a@localhost", "a@localhost" },
	{ "", NULL },
	{ "a", NULL },
	{ "@x.example", NULL },
	{ "a@", NULL },
	{ ".a@x.example", NULL },
	{ "a.@x.example", NULL },
	{ "a..b@x.example", NULL },
	{ "a@x..example", NULL },
	{ "a@x.example.", NULL },
	{ "a@-x.example", NULL },
	{ "a@x_y.example", NULL },
	{ "a b@x.example", NULL },
	{ "a@b@x.example", NULL },
	{ "<a@x.example>", NULL },
	{ "a@x.example>", NULL },
	{ "\"a@x.example", NULL },
	{ "\"\"@x.example", NULL },
	{ "a\r\n@x.example", NULL },
	{ "a\x7f@x.example", NULL },
	{ "\xff@x.example", NULL },
	{ "a\xe2\x80\xae@x.example", NULL }, /* turns text */
	{ "a\xef\xbc\xa0"
	  "b@x.example",
	    NULL }, /* wide @ */
	{ "a@x.example, b@x.example", NULL },
	{ "a@xn--a.example", NULL },
};

static const struct {
	const char *text, *entry; /* NULL = refused */
} entries[] = {
	{ "Ann@Example.ORG", "ann@example.org" },
	{ "\"a\\nn\"@x.example", "ann@x.example" },
	{ "ann@b\xc3\xbc"
	  "cher.example",
	    "ann@xn--bcher-kva.example" },
	{ "@B\xc3\xbc"
	  "cher.example",
	    "@xn--bcher-kva.example" },
	{ "X.example", "@x.example" },
	{ "", NULL },
	{ "@", NULL },
	{ "@@x.example", NULL },
	{ "a b@x.example", NULL },
	{ "*@x.example", NULL },
	{ "x_y.example", NULL },
};

static void
test_entry(void **state)
{
	char out[ADDRESS_MAX + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		bool ok = address_entry_canonical(out, str_of(entries[i].text));

		if (ok != (entries[i].entry != NULL))
			fail_msg("%s", entries[i].text);
		if (ok)
			assert_string_equal(out, entries[i].entry);
	}
}

static void
test_parse(void **state)
{
	struct address a, again;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		enum address_result r =
		    address_parse(&a, str_of(addresses[i].text));

		if ((r == ADDRESS_OK) != (addresses[i].canonical != NULL))
			print_message("%s: %d\n", addresses[i].text, r);
		assert_int_equal(
		    r == ADDRESS_OK, addresses[i].canonical != NULL);
		if (r != ADDRESS_OK)
			continue;
		assert_string_equal(a.canonical, addresses[i].canonical);
		assert_string_equal(a.wire, addresses[i].text);
		/* What is emitted parses to the same. */
		assert_int_equal(
		    address_parse(&again, str_of(a.wire)), ADDRESS_OK);
		assert_true(address_eq(&a, &again));
	}
}

static void
test_path(void **state)
{
	static const struct {
		const char *text;
		enum address_result r;
		size_t used;
	} paths[] = {
		{ "<a@x.example> SIZE=1", ADDRESS_OK, 13 },
		{ "<>", ADDRESS_EMPTY, 2 },
		{ "<@a,@b:u@d.example>", ADDRESS_ROUTE, 19 },
		{ "<\"a>b\"@x.example>", ADDRESS_OK, 17 },
		{ "a@x.example", ADDRESS_SYNTAX, 0 },
		{ "<a@x.example", ADDRESS_SYNTAX, 0 },
		{ "<a b@x.example>", ADDRESS_SYNTAX, 15 },
	};
	struct address a;
	size_t i, used;

	(void)state;
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(
		    address_parse_path(&a, str_of(paths[i].text), &used),
		    paths[i].r);
		assert_int_equal(used, paths[i].used);
	}
}

static void
test_domain(void **state)
{
	static const struct {
		const char *text;
		bool is_public;
	} facts[] = { { "a@x.example", true }, { "a@localhost", false },
		{ "a@printer.local", false }, { "a@x.internal", false },
		{ "a@127.0.0.1", false }, { "a@2130706433", false },
		{ "a@[10.0.0.1]", false } };
	struct address a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		assert_int_equal(
		    address_parse(&a, str_of(facts[i].text)), ADDRESS_OK);
		assert_int_equal(address_domain_public(&a), facts[i].is_public);
	}
}

static void
test_inbox(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} facts[] = { { "bot@x.example", true },
		{ "a.b+c_d-1@x.example", true },
		{ "postmaster@x.example", false }, { "Root@x.example", false },
		{ "a.@x.example", false }, { "-a@x.example", false },
		{ "a-@x.example", false }, { "\"a b\"@x.example", false },
		{ "a!b@x.example", false }, { "\xc3\xa9@x.example", false },
		{ "a@[1.2.3.4]", false } };
	struct address a;
	const char *why;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		bool ok =
		    address_parse(&a, str_of(facts[i].text)) == ADDRESS_OK &&
		    address_inbox_valid(&a, &why);

		assert_int_equal(ok, facts[i].ok);
	}
}

/* B39: the same address in To, Cc and Bcc is one recipient. */
static void
test_fold(void **state)
{
	struct address_rcpt r[] = { { str_lit("b@x.example"), 'b' },
		{ str_lit("A@x.example"), 'c' },
		{ str_lit("B@X.example"), 't' },
		{ str_lit("\"a\"@x.example"), 'b' } };

	(void)state;
	assert_int_equal(address_rcpt_fold(r, 4), 2);
	assert_true(str_eq(r[0].wire, str_lit("A@x.example")));
	assert_int_equal(r[0].kind, 'c');
	assert_true(str_eq(r[1].wire, str_lit("b@x.example")));
	assert_int_equal(r[1].kind, 't');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_domain),
		cmocka_unit_test(test_inbox),
		cmocka_unit_test(test_fold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
