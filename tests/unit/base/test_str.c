/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/str.h"

static void
test_compare(void **state)
{
	(void)state;
	assert_true(str_eq(str_lit("ab"), str_of("ab")));
	assert_false(str_eq(str_lit("ab"), str_lit("aB")));
	assert_true(str_ieq(str_lit("A-z@["), str_lit("a-Z@[")));
	assert_false(str_ieq(str_lit("@"), str_lit("`")));
	assert_true(str_istarts(str_lit("Subject: x"), str_lit("SUBJECT:")));
	assert_false(str_starts(str_lit("ab"), str_lit("abc")));
	assert_true(str_eq(str_of(NULL), str_lit("")));
}

static void
test_cut(void **state)
{
	struct str rest = str_lit("a,,bc"), part;

	(void)state;
	part = str_split(&rest, ',');
	assert_true(str_eq(part, str_lit("a")));
	part = str_split(&rest, ',');
	assert_int_equal(part.n, 0);
	part = str_split(&rest, ',');
	assert_true(str_eq(part, str_lit("bc")));
	assert_int_equal(rest.n, 0);
	assert_true(str_eq(str_trim(str_lit("\t x y ")), str_lit("x y")));
	assert_int_equal(str_trim(str_lit(" \t ")).n, 0);
}

static void
test_numbers(void **state)
{
	static const struct {
		const char *text;
		unsigned long long max, value;
		bool ok;
	} cases[] = {
		{ "0", 0, 0, true },
		{ "1", 0, 0, false },
		{ "5", 5, 5, true },
		{ "6", 5, 0, false },
		{ "15", 14, 0, false },
		{ "18446744073709551615", UINT64_MAX, UINT64_MAX, true },
		{ "18446744073709551616", UINT64_MAX, 0, false },
		{ "", 9, 0, false },
		{ "+1", 9, 0, false },
		{ " 1", 9, 0, false },
		{ "1x", 99, 0, false },
	};
	unsigned long long v;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		v = 0;
		print_message("%s <= %llu\n", cases[i].text, cases[i].max);
		assert_int_equal(
		    str_to_u64(str_of(cases[i].text), cases[i].max, &v),
		    cases[i].ok);
		if (cases[i].ok)
			assert_true(v == cases[i].value);
	}
}

static void
test_base32(void **state)
{
	const unsigned char id[16] = { 0x01, 0x89, 0, 0, 0, 0, 0x70, 0, 0x80, 0,
		0, 0, 0, 0, 0, 1 };
	const unsigned char ones[4] = { 255, 255, 255, 255 };
	unsigned char back[32], random[32];
	char text[64];
	int i;

	(void)state;
	base32_encode(text, id, sizeof(id));
	assert_string_equal(text, "01h4000000e008000000000001");
	assert_true(base32_decode(back, 16, text, 26));
	assert_memory_equal(back, id, 16);
	base32_encode(text, ones, 4);
	assert_string_equal(text, "3zzzzzz");
	/* Too large for 32 bits, upper case, wrong length, not in alphabet. */
	assert_false(base32_decode(back, 4, "4000000", 7));
	assert_false(base32_decode(back, 4, "3ZZZZZZ", 7));
	assert_false(base32_decode(back, 4, "000000", 6));
	assert_false(base32_decode(back, 4, "000000u", 7));
	assert_false(base32_decode(back, 4,
	    "00000\0"
	    "0",
	    7));
	memcpy(text, "0000000", 7);
	for (i = 0; i < 256; i++) {
		text[6] = (char)i;
		assert_int_equal(base32_decode(back, 4, text, 7),
		    i != 0 &&
			strchr("0123456789abcdefghjkmnpqrstvwxyz", i) != NULL);
	}
	for (i = 0; i < 32; i++)
		random[i] = (unsigned char)(i * 37 + 11);
	base32_encode(text, random, 32);
	assert_int_equal(strlen(text), 52);
	assert_true(base32_decode(back, 32, text, 52));
	assert_memory_equal(back, random, 32);
}

static void
test_hex_base64(void **state)
{
	static const char *const bad[] = { "AA=A", "A===", "AAA", "AA\nA",
		"!AAA", "====" };
	unsigned char back[16];
	char text[32];
	size_t n, i;

	(void)state;
	hex_encode(text, "\x00\xaf", 2);
	assert_string_equal(text, "00af");
	assert_true(hex_decode(back, 2, "00af", 4));
	assert_memory_equal(back, "\x00\xaf", 2);
	assert_false(hex_decode(back, 2, "00AF", 4));
	base64_encode(text, "any carnal pleas", 16);
	assert_string_equal(text, "YW55IGNhcm5hbCBwbGVhcw==");
	assert_true(base64_decode(back, &n, "AGE=", 4));
	assert_int_equal(n, 2);
	assert_memory_equal(back, "\0a", 2);
	assert_true(base64_decode(back, &n, "", 0));
	assert_int_equal(n, 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		print_message("%s\n", bad[i]);
		assert_false(base64_decode(back, &n, bad[i], strlen(bad[i])));
	}
	base64url_encode(text, "\xfb\xff\xfe\x01", 4);
	assert_string_equal(text, "-__-AQ");
	assert_true(base64url_decode(back, &n, "-__-AQ", 6));
	assert_int_equal(n, 4);
	assert_memory_equal(back, "\xfb\xff\xfe\x01", 4);
	assert_false(base64url_decode(back, &n, "+__-AQ", 6));
	assert_false(base64url_decode(back, &n, "AAAAA", 5));
}

static void
test_crc32(void **state)
{
	(void)state;
	assert_int_equal(crc32_ieee(0, "123456789", 9), 0xcbf43926U);
	assert_int_equal(
	    crc32_ieee(crc32_ieee(0, "1234", 4), "56789", 5), 0xcbf43926U);
}

static void
test_login(void **state)
{
	static const char *const good[] = { "a", "9", "Ann", "ann.b-c_d",
		"ann@example.org" };
	static const char *const bad[] = { "", ".a", "-a", "@a", "_a", "op:1",
		"a b", "a\tb", "a\n", "a\177",
		"a\xe2\x80\xae"
		"b",
		"\xd0\xb0"
		"dmin",
		"a/b", "a'b", "a\\b" };
	char text[65];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(str_is_login(str_of(good[i])));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(str_is_login(str_of(bad[i])));
	assert_false(str_is_login((struct str){ "a\0b", 3 }));
	memset(text, 'a', sizeof(text));
	assert_true(str_is_login((struct str){ text, 64 }));
	assert_false(str_is_login((struct str){ text, 65 }));
}

static void
test_has_8bit(void **state)
{
	char text[80];
	size_t n, i;

	(void)state;
	memset(text, 'a', sizeof(text));
	for (n = 0; n < sizeof(text); n++)
		for (i = 0; i < sizeof(text); i++) {
			text[i] = (char)0x80;
			assert_int_equal(
			    str_has_8bit((struct str){ text, n }), i < n);
			text[i] = 0x7f;
		}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_login),
		cmocka_unit_test(test_has_8bit),
		cmocka_unit_test(test_base32),
		cmocka_unit_test(test_hex_base64),
		cmocka_unit_test(test_crc32),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
