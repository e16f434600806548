/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "http/cut.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct buf got;

static bool
collect(void *arg, const void *p, size_t n)
{
	(void)arg;
	buf_add(&got, p, n);
	return true;
}

/* In two pieces; the rest is compared, and what was cut out. */
static void
check(const char *text, size_t at, const char *rest, const char *bytes)
{
	static struct http_cut c;
	size_t n = strlen(text);

	buf_clear(&got);
	http_cut_init(&c, TOKEN, 4096, collect, NULL);
	assert_true(http_cut_feed(&c, text, at));
	assert_true(http_cut_feed(&c, text + at, n - at));
	assert_string_equal(buf_cstr(&c.rest), rest);
	assert_string_equal(buf_cstr(&got), bytes);
	http_cut_free(&c);
}

static void
check_all(const char *text, const char *rest, const char *bytes)
{
	size_t i;

	for (i = 0; i <= strlen(text); i++)
		check(text, i, rest, bytes);
}

static void
test_contents_are_cut_out(void **state)
{
	(void)state;
	check_all("{\"a\":1, \"attachments\" : [ {\"content\" : \"YWJj\"}]}",
	    "{\"a\":1, \"attachments\" : [ {\"content\" : \"" TOKEN ":0\"}]}",
	    "abc");
	check_all("{\"attachments\":[{\"x\":{\"content\":\"no\"},\"content\":"
		  "\"Yg==\",\"f\":\"content\"},{\"content\":\"\"},"
		  "{\"content\":\"Pz8\\/Pz\\u0038\\u002f\"}],\"t\":\"e\"}",
	    "{\"attachments\":[{\"x\":{\"content\":\"no\"},\"content\":"
	    "\"" TOKEN ":0\",\"f\":\"content\"},{\"content\":\"" TOKEN
	    ":1\"},{\"content\":\"" TOKEN ":2\"}],\"t\":\"e\"}",
	    "b??????");
}

/* Not at this place, not a string, not this name: all is left as it is. */
static void
test_the_rest_is_left(void **state)
{
	static const char *const same[] = {
		"{\"content\":\"YWJj\"}",
		"{\"attachments\":{\"content\":\"YWJj\"}}",
		"{\"attachments\":[[{\"content\":\"YWJj\"}]]}",
		"[{\"attachments\":[{\"content\":\"YWJj\"}]}]",
		"{\"a\":{\"attachments\":[{\"content\":\"YWJj\"}]}}",
		"{\"attachments\":[{\"\\u0063ontent\":\"YWJj\"}]}",
		"{\"attachments\":[{\"content\":{\"content\":\"YWJj\"}}]}",
		"{\"attachments\":[{\"content\":[\"YWJj\"]}]}",
		"{\"attachments\":[{\"content\":7,\"filename\":\"YWJj\"}]}",
		"{\"attachment\":[{\"content\":\"YWJj\"}]}",
		"{\"attachmentss\":[{\"content\":\"YWJj\"}]}",
		"{\"x\":\"attachments\",\"y\":[{\"content\":\"YWJj\"}]}",
		"{\"attachments\":[],\"z\":[{\"content\":\"YWJj\"}]}",
		"{\"x\":\"\\\"attachments\\\":[{\\\"content\\\":\"}",
		"]]]}}}{\"attachments\"",
		"{\"attachments\":[{\"content\"",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		check_all(same[i], same[i], "");
}

static bool
is_bad(const char *content)
{
	static struct http_cut c;
	char text[16384], name[64];
	const struct http_cut_part *part;
	bool bad;

	(void)snprintf(text, sizeof(text),
	    "{\"attachments\":[{\"content\":\"%s\"}]}", content);
	buf_clear(&got);
	http_cut_init(&c, TOKEN, 4096, collect, NULL);
	assert_true(http_cut_feed(&c, text, strlen(text)));
	(void)snprintf(name, sizeof(name), TOKEN ":0");
	part = http_cut_find(&c, str_of(name));
	assert_non_null(part);
	assert_null(http_cut_find(&c, str_lit(TOKEN ":1")));
	assert_null(http_cut_find(&c, str_lit("YWJj")));
	bad = part->bad;
	http_cut_free(&c);
	return bad;
}

static void
test_what_is_no_base64(void **state)
{
	char text[8200];
	size_t n;

	(void)state;
	assert_false(is_bad(""));
	assert_false(is_bad("YQ=="));
	assert_true(is_bad("Y"));
	assert_true(is_bad("YQ="));
	assert_true(is_bad("YQ==YQ=="));
	assert_true(is_bad("YW\\nJj"));
	assert_true(is_bad("YW Jj"));
	assert_true(is_bad("YW_j"));
	assert_true(is_bad("YWJj\\u00e4AAA"));
	assert_true(is_bad("\\u00g1"));
	/* around the end of a block */
	for (n = HTTP_CUT_BLOCK - 8; n <= HTTP_CUT_BLOCK + 8; n++) {
		memset(text, 'A', n);
		text[n] = '\0';
		assert_int_equal(is_bad(text), n % 4 != 0);
		if (n % 4 != 0)
			continue;
		text[n - 1] = text[n - 2] = '=';
		assert_false(is_bad(text));
		assert_int_equal(got.n, n / 4 * 3 - 2);
		memset(text + n, 'A', 4);
		text[n + 4] = '\0';
		assert_true(is_bad(text));
	}
}

static void
test_the_rest_has_a_bound(void **state)
{
	static struct http_cut c;
	char text[64];

	(void)state;
	memset(text, ' ', sizeof(text));
	http_cut_init(&c, TOKEN, 100, collect, NULL);
	assert_true(http_cut_feed(&c, text, 64));
	assert_true(http_cut_feed(&c, text, 36));
	assert_false(http_cut_feed(&c, text, 1));
	assert_true(c.too_large);
	http_cut_free(&c);
}

static void
test_no_more_parts_than_it_knows(void **state)
{
	static struct http_cut c;
	const char *open = "{\"attachments\":[",
		   *one = "{\"content\":\"YQ==\"},";
	int i;

	(void)state;
	buf_clear(&got);
	http_cut_init(&c, TOKEN, 65536, collect, NULL);
	assert_true(http_cut_feed(&c, open, strlen(open)));
	for (i = 0; i < 3 * HTTP_CUT_MAX; i++)
		assert_true(http_cut_feed(&c, one, strlen(one)));
	assert_int_equal(c.part_count, HTTP_CUT_MAX);
	assert_int_equal(got.n, HTTP_CUT_MAX - 1);
	http_cut_free(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contents_are_cut_out),
		cmocka_unit_test(test_the_rest_is_left),
		cmocka_unit_test(test_what_is_no_base64),
		cmocka_unit_test(test_the_rest_has_a_bound),
		cmocka_unit_test(test_no_more_parts_than_it_knows),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	buf_free(&got);
	return rc;
}
