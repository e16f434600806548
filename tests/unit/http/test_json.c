/* SPDX-License-Identifier: ISC */
/* The reader beside jansson's: what it reads is what jansson reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "http/json.h"

#define DEPTH 4

/* Is it read, and not left to jansson? */
static bool
same(const char *p, size_t n)
{
	json_t *mine = http_json_read(p, n, DEPTH), *theirs;
	char *copy;

	if (mine == NULL)
		return false;
	theirs = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	if (theirs == NULL || !json_equal(mine, theirs))
		fail_msg("otherwise than jansson: %.*s", (int)n, p);
	copy = json_dumps(mine, JSON_COMPACT);
	json_decref(theirs);
	theirs = json_loads(copy, 0, NULL);
	assert_true(json_equal(mine, theirs)); /* all of it is UTF-8 */
	free(copy);
	json_decref(mine);
	json_decref(theirs);
	return true;
}

static const struct {
	const char *text;
	bool read;
} texts[] = {
	{ "{}", true },
	{ "[]", true },
	{ " { \"a\" : \"b\" , \"c\":[ 1 , -20, true,false,null , {} ] } ",
	    true },
	{ "\r\n\t{\"to\":[\"ann@example.org\"],\"text\":\"Hello\\n\\\"you\\\""
	  "\\\\ \\/ \\b\\f\\r\\t\"}",
	    true },
	{ "{\"\":\"\"}", true },
	{ "{\"n\":123456789012345678,\"z\":0}", true },
	{ "{\"u\":\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\"}",
	    true },
	{ "{\"u\":\"\x7f\"}", true },
	{ "[[[[]]]]", true },
	/* deeper, or too long: not ours */
	{ "[[[[[]]]]]", false },
	{ "{\"n\":1234567890123456789}", false },
	{ "{\"k\":\"\\u00fc\\ud83d\\ude00\"}", false },
	{ "{\"x\":1.5}", false },
	{ "{\"x\":1e3}", false },
	{ "{\"x\":-0}", false },
	/* nobody's */
	{ "", false },
	{ " ", false },
	{ "1", false },
	{ "\"a\"", false },
	{ "{\"a\":1,\"a\":2}", false },
	{ "{\"a\":1,}", false },
	{ "[1,]", false },
	{ "[,1]", false },
	{ "[1 2]", false },
	{ "[01]", false },
	{ "[-]", false },
	{ "[+1]", false },
	{ "[truer]", false },
	{ "[nul]", false },
	{ "[\"\t\"]", false },
	{ "[\"\\x\"]", false },
	{ "[\"\\", false },
	{ "[\"a", false },
	{ "{\"a\"}", false },
	{ "{a:1}", false },
	{ "{} {}", false },
	{ "{}x", false },
	{ "[\"\xff\"]", false },
	{ "[\"\xc0\xaf\"]", false },
	{ "[\"\xed\xa0\x80\"]", false },
	{ "{\"\xff\":1}", false },
	{ "{\"a\":1]", false },
	{ "[1}", false },
};

static void
test_reads_what_jansson_reads(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (same(texts[i].text, strlen(texts[i].text)) != texts[i].read)
			fail_msg("read or not: %s", texts[i].text);
	assert_false(same("[\"a\0b\"]", 7));
	assert_false(same("[1]\0", 4));
}

/* Cut anywhere, and with any byte anywhere. */
static void
test_changed_texts(void **state)
{
	static const char bytes[] = "\"\\{}[]:, \n0-1tfna\x01\x80\xc3\xff";
	size_t i, k, n, at;
	char text[200];

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		n = strlen(texts[i].text);
		assert_true(n < sizeof(text));
		for (at = 0; at < n; at++) {
			(void)same(texts[i].text, at);
			(void)same(texts[i].text + at, n - at);
			for (k = 0; k < sizeof(bytes); k++) {
				memcpy(text, texts[i].text, n);
				text[at] = bytes[k];
				(void)same(text, n);
			}
		}
	}
}

static void
check_written(json_t *v)
{
	char *theirs = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	struct buf mine = { 0 };

	http_json_write(&mine, v);
	assert_string_equal(buf_cstr(&mine), theirs);
	buf_free(&mine);
	free(theirs);
	json_decref(v);
}

static void
test_writes_what_jansson_writes(void **state)
{
	char all[128];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all); i++)
		all[i] = (char)i;
	check_written(json_stringn(all, sizeof(all)));
	check_written(json_string("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"));
	check_written(json_pack("{s:[i,b,b,n,f], s:{}, s:[], s:s}", "a b\"", -7,
	    1, 0, 1.25, "e", "f", "", ""));
	check_written(json_integer(INT64_MIN));
	check_written(json_null());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_what_jansson_reads),
		cmocka_unit_test(test_changed_texts),
		cmocka_unit_test(test_writes_what_jansson_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
