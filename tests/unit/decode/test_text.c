/* SPDX-License-Identifier: ISC */
/* decode/text.c: leaves and encoded words in many charsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <gmime/gmime.h>
#include <stdlib.h>
#include <string.h>

#include "decode/charset.h"
#include "decode/text.h"

#define REPLACED HELPER_FLAG_REPLACED
#define CUT HELPER_FLAG_CUT
#define NONE 0xffu /* not known */

static const struct {
	const char *charset;
	enum helper_encoding encoding;
	const char *bytes, *text;
	unsigned flags;
} leaves[] = {
	{ "us-ascii", HELPER_PLAIN, "plain\r\n", "plain\r\n", 0 },
	{ "UTF-8", HELPER_QP, "na=C3=AFve=\r\n =3D", "na\xc3\xafve =", 0 },
	{ "utf-8", HELPER_PLAIN, "\xef\xbb\xbfmark", "mark", 0 },
	{ "utf-8", HELPER_PLAIN, "a\xf6\xbf\x86\xb7z", "a\xef\xbf\xbdz",
	    REPLACED },
	{ "utf-8", HELPER_PLAIN, "\xf4\x90\x80\x80\xf4\x8f\xbf\xbf",
	    "\xef\xbf\xbd\xf4\x8f\xbf\xbf", REPLACED },
	{ "windows-1252", HELPER_PLAIN, "\x80 \x93q\x94", "€ “q”", 0 },
	{ "windows-1252", HELPER_PLAIN, "a\x81", "a\xef\xbf\xbd", REPLACED },
	{ "iso-8859-1", HELPER_QP, "=E9=96", "é–", 0 },
	{ "iso-8859-2", HELPER_QP, "p=F8=EDli=B9", "příliš", 0 },
	{ "iso-8859-15", HELPER_PLAIN, "\xa4", "€", 0 },
	{ "windows-1251", HELPER_PLAIN, "\xcf\xf0", "Пр", 0 },
	{ "koi8-r", HELPER_PLAIN, "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет", 0 },
	{ "ISO-2022-JP", HELPER_PLAIN, "\x1b$B@$3&\x1b(B.", "世界.", 0 },
	{ "iso-2022-jp", HELPER_PLAIN, "\x1b$B@$3", "世\xef\xbf\xbd",
	    REPLACED },
	{ "iso-2022-jp", HELPER_BASE64, "GyRCQCQzJhsoQg==", "世界", 0 },
	{ "shift_jis", HELPER_PLAIN, "\x8c\xa9\x90\xcf", "見積", 0 },
	{ "Shift_JIS", HELPER_PLAIN, "\x87\x40\x87\x8a", "①㈱", 0 },
	{ "euc-jp", HELPER_PLAIN, "\xc0\xa4\xb3\xa6", "世界", 0 },
	{ "euc-kr", HELPER_PLAIN, "\xc7\xd1\xb1\xb9", "한국", 0 },
	{ "ks_c_5601-1987", HELPER_PLAIN, "\x8c\x63", "똠", 0 },
	{ "gb18030", HELPER_PLAIN, "\xc4\xe3\xba\xc3\x94\x39\xfc\x36", "你好😀",
	    0 },
	{ "gb2312", HELPER_BASE64, "xOO6ww==\r\n", "你好", 0 },
	{ "big5", HELPER_PLAIN, "\xa7\x41\xa6\x6e", "你好", 0 },
	{ "big5", HELPER_PLAIN, "\xa7", "\xef\xbf\xbd", REPLACED },
	{ "utf-16", HELPER_BASE64, "//4fBEAEOAQ=", "При", 0 },
	{ "utf-16", HELPER_BASE64, "/v8EHwRABDg=", "При", 0 },
	{ "utf-16", HELPER_BASE64, "BB8EQAQ4", "При", 0 },
	{ "utf-16le", HELPER_BASE64, "ANhhAA==",
	    "\xef\xbf\xbd"
	    "a",
	    REPLACED },
	{ "utf-7", HELPER_PLAIN, "+AGE-", "", NONE },
	{ "hz-gb-2312", HELPER_PLAIN, "~{VPND~}", "", NONE },
	{ "iso-2022-kr", HELPER_PLAIN, "a", "", NONE },
	{ "iso-2022-cn-ext", HELPER_PLAIN, "a", "", NONE },
	{ "utf-8//translit", HELPER_PLAIN, "a", "", NONE },
	{ "../../etc/passwd", HELPER_PLAIN, "a", "", NONE },
	{ "koi8-r ", HELPER_PLAIN, "a", "", NONE },
	{ "", HELPER_PLAIN, "a", "", NONE },
};

static const struct {
	const char *charset, *words, *text; /* NULL: no reply */
	unsigned flags;
} words[] = {
	{ "iso-2022-jp", "=?ISO-2022-JP?B?GyRCQCQzJhsoQg==?=", "世界", 0 },
	{ "shift_jis", "=?Shift_JIS?B?jKk=?= =?SHIFT_JIS?Q?=90=CF_?=", "見積 ",
	    0 },
	{ "shift_jis", "=?shift_jis?B?jA==?==?shift_jis?B?qQ==?=", "見", 0 },
	{ "koi8-r", "=?koi8-r*ru?q?=F0_=D2?=", "П р", 0 },
	{ "big5", "=?big5?b?pw==?=", "\xef\xbf\xbd", REPLACED },
	{ "utf-7", "=?utf-7?Q?+AGE-?=", "", NONE },
	{ "koi8-r", "=?koi8-u?Q?x?=", NULL, 0 },
	{ "koi8-r", "=?koi8-r?X?x?=", NULL, 0 },
	{ "koi8-r", "=?koi8-r?Q?x", NULL, 0 },
	{ "koi8-r", "=?koi8-r?Q?x?", NULL, 0 },
	{ "koi8-r", "=?koi8-r?Q?x?=y", NULL, 0 },
	{ "koi8-r", "=", NULL, 0 },
};

static struct text_request
request(enum helper_kind kind, const char *charset, const char *bytes)
{
	return (struct text_request){ .kind = kind,
		.charset = charset,
		.charset_n = strlen(charset),
		.type = "text/plain",
		.type_n = 10,
		.bytes = (const unsigned char *)bytes,
		.n = strlen(bytes) };
}

static void
check(const struct text_request *r, const char *text, unsigned flags)
{
	unsigned char *reply;
	size_t n;

	print_message("%.*s\n", (int)r->charset_n, r->charset);
	reply = text_reply(r, &n);
	if (text == NULL) {
		assert_null(reply);
		return;
	}
	assert_non_null(reply);
	assert_int_equal(n, HELPER_REPLY_HEAD + strlen(text));
	assert_int_equal(
	    reply[4], flags == NONE ? HELPER_NO_CHARSET : HELPER_DECODED);
	assert_int_equal(reply[5], flags == NONE ? 0 : flags);
	assert_memory_equal(reply + HELPER_REPLY_HEAD, text, strlen(text));
	free(reply);
}

static void
test_leaves(void **state)
{
	struct text_request r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		r = request(HELPER_LEAF, leaves[i].charset, leaves[i].bytes);
		r.encoding = leaves[i].encoding;
		check(&r, leaves[i].text, leaves[i].flags);
	}
}

static void
test_words(void **state)
{
	struct text_request r;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		r = request(HELPER_WORD, words[i].charset, words[i].words);
		check(&r, words[i].text, words[i].flags);
	}
}

/* An open end is no mistake when more follows; the cut is between letters. */
static void
test_cut(void **state)
{
	struct text_request r = request(HELPER_LEAF, "big5", "\xa7\x41\xa7");
	unsigned char *big = malloc(HELPER_OUTPUT_MAX), *reply;
	size_t n;

	(void)state;
	r.more = true;
	check(&r, "你", CUT);
	assert_non_null(big);
	memset(big, 0xa7, HELPER_OUTPUT_MAX);
	for (n = 1; n < HELPER_OUTPUT_MAX; n += 2)
		big[n] = 0x41;
	r.more = false;
	r.bytes = big;
	r.n = HELPER_OUTPUT_MAX;
	reply = text_reply(&r, &n);
	assert_non_null(reply);
	assert_int_equal(reply[5], CUT);
	assert_int_equal(n - HELPER_REPLY_HEAD, HELPER_OUTPUT_MAX / 3 * 3);
	assert_memory_equal(reply + n - 3, "你", 3);
	free(reply);
	free(big);
}

/* HTML stays source; what is no text is not decoded. */
static void
test_types(void **state)
{
	struct text_request r =
	    request(HELPER_LEAF, "koi8-r", "<b>&amp;\xf0</b>");

	(void)state;
	r.type = "text/html";
	r.type_n = 9;
	check(&r, "<b>&amp;П</b>", 0);
	r.type = "image/png";
	check(&r, NULL, 0);
}

static void
test_requests(void **state)
{
	static const unsigned char good[] = "PDC1\1\0\0\6\012\0\0\0\0\0\0\3"
					    "koi8-rtext/plainabc";
	unsigned char bad[sizeof(good)];
	struct text_request r;
	const size_t n = sizeof(good) - 1;
	size_t i;

	(void)state;
	assert_true(text_request_parse(&r, good, n));
	assert_int_equal(r.kind, HELPER_LEAF);
	assert_int_equal(r.n, 3);
	assert_memory_equal(r.bytes, "abc", 3);
	assert_memory_equal(r.type, "text/plain", 10);
	for (i = 0; i < n; i++)
		assert_false(text_request_parse(&r, good, i));
	for (i = 0; i < HELPER_REQUEST_HEAD; i++) {
		memcpy(bad, good, sizeof(good));
		bad[i] = 0xf0;
		assert_false(text_request_parse(&r, bad, n));
	}
}

static int
set_up(void **state)
{
	(void)state;
	g_mime_init();
	charset_open_all();
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	charset_close_all();
	g_mime_shutdown();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_requests),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
