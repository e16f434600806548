/* SPDX-License-Identifier: ISC */
/* Text in charsets that mail/ does not decode, and those who help with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "mail/header.h"
#include "mail/mailbox.h"
#include "mail/structure.h"

/* Writes down what it is asked, and answers "{charset}" to "known-...". */
struct help {
	char asked[1000];
	int times;
};

static bool
on_word(void *arg, struct str charset, struct str run, struct buf *text)
{
	struct help *help = arg;

	help->times++;
	(void)strncat(help->asked, run.p, run.n);
	(void)strcat(help->asked, ";");
	if (!str_istarts(charset, str_lit("known-")))
		return false;
	buf_printf(text, "{%.*s}\n\xff", (int)charset.n, charset.p);
	return true;
}

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *value, *text, *asked;
	bool undecoded;
} words[] = {
	{ "plain", "plain", "", false },
	{ "=?utf-8?Q?=C3=A9?=", "é", "", false },
	{ "=?known-a?B?eA==?=", "{known-a}" BAD BAD, "=?known-a?B?eA==?=;",
	    false },
	{ "=?known-a*ja?B?eA==?=\r\n =?KNOWN-A?Q?y?= z",
	    "{known-a}" BAD BAD " z", "=?known-a*ja?B?eA==?==?KNOWN-A?Q?y?=;",
	    false },
	{ "=?known-a?Q?x?= =?known-b?Q?y?=",
	    "{known-a}" BAD BAD "{known-b}" BAD BAD,
	    "=?known-a?Q?x?=;=?known-b?Q?y?=;", false },
	{ "=?koi8-r?Q?=F0?= =?utf-8?Q?=C3=A9?=", "=?koi8-r?Q?=F0?=é",
	    "=?koi8-r?Q?=F0?=;", true },
	{ "a =?koi8-r?Q?=F0?= b =?koi8-r?Q?=F0?=",
	    "a =?koi8-r?Q?=F0?= b =?koi8-r?Q?=F0?=",
	    "=?koi8-r?Q?=F0?=;=?koi8-r?Q?=F0?=;", true },
	/* text that only looks like a word once it is decoded is text */
	{ "=?utf-8?Q?=3D=3Fknown-a=3FQ=3Fx=3F=3D?=", "=?known-a?Q?x?=", "",
	    false },
};

static void
test_words(void **state)
{
	struct help help;
	struct buf out = { 0 };
	bool undecoded;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		print_message("%s\n", words[i].value);
		memset(&help, 0, sizeof(help));
		buf_clear(&out);
		header_decode_with(
		    &out, str_of(words[i].value), &undecoded, on_word, &help);
		assert_string_equal(buf_cstr(&out), words[i].text);
		assert_string_equal(help.asked, words[i].asked);
		assert_int_equal(undecoded, words[i].undecoded);
	}
	buf_free(&out);
}

static bool
on_mailbox(void *arg, const struct mailbox *m)
{
	struct help help = { 0 };

	mailbox_name_text_with(arg, m, on_word, &help);
	return true;
}

static void
test_mailbox(void **state)
{
	struct buf name = { 0 };
	const char *why;

	(void)state;
	assert_true(
	    mailbox_list_parse(str_lit("=?known-a?Q?x?= y <a@example.org>"),
		on_mailbox, &name, &why));
	assert_string_equal(buf_cstr(&name), "{known-a}" BAD BAD " y");
	buf_free(&name);
}

/* The one part of a message with this header; false: it is refused. */
static bool
read_part(struct mime_list *list, struct buf *bytes, const char *header)
{
	struct structure *s = structure_new(mime_list_add, list);
	bool ok;

	buf_printf(bytes, "MIME-Version: 1.0\r\n%s\r\n\r\nx\r\n", header);
	ok = structure_feed(s, bytes->p, bytes->n) == E_NONE &&
	     structure_finish(s) == E_NONE;
	structure_free(s);
	return ok;
}

#define FILE_HEAD                                                              \
	"Content-Type: application/x-a\r\nContent-Disposition: attachment; "

/* As kept, and as it reads with help; NULL: refused. */
static const struct {
	const char *header, *kept, *read;
} names[] = {
	{ FILE_HEAD "filename*=utf-8''%C3%A9", "é", "é" },
	{ FILE_HEAD "filename*=known-a''x%20y",
	    "=?known-a?B?eCB5?=", "{known-a}" BAD BAD },
	{ FILE_HEAD "filename*0*=known-a'ja'x; filename*1*=%20y",
	    "=?known-a?B?eCB5?=", "{known-a}" BAD BAD },
	{ FILE_HEAD "filename*=koi8-r''%F0",
	    "=?koi8-r?B?8A==?=", "=?koi8-r?B?8A==?=" },
	{ FILE_HEAD "filename=\"=?known-a?Q?x?=.txt\"", "=?known-a?Q?x?=.txt",
	    "{known-a}" BAD BAD ".txt" },
	{ "Content-Type: application/x-a; name=\"=?known-a?Q?x?=\"",
	    "=?known-a?Q?x?=", "{known-a}" BAD BAD },
	/* not decoded twice */
	{ FILE_HEAD "filename*=utf-8''%3D%3Fknown-a%3FQ%3Fx%3F%3D",
	    "=?known-a?Q?x?=", "=?known-a?Q?x?=" },
	{ FILE_HEAD "filename*=\"utf-8?Q?x?= =?utf-8''y\"", NULL, NULL },
	{ FILE_HEAD "filename*=''y", NULL, NULL },
	{ FILE_HEAD "filename=a.txt; filename*=known-a''x.txt", NULL, NULL },
};

static void
test_names(void **state)
{
	char name[STRUCTURE_NAME_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct mime_list list = { 0 };
		struct buf bytes = { 0 };
		struct help help = { 0 };

		print_message("%s\n", names[i].header);
		if (names[i].kept == NULL) {
			assert_false(read_part(&list, &bytes, names[i].header));
		} else {
			assert_true(read_part(&list, &bytes, names[i].header));
			assert_int_equal(list.count, 1);
			assert_string_equal(
			    list.part[0].filename, names[i].kept);
			mime_part_name(name, &list.part[0], buf_str(&bytes),
			    on_word, &help);
			assert_string_equal(name, names[i].read);
		}
		mime_list_free(&list);
		buf_free(&bytes);
	}
}

/* docs/decisions/0010 */
static void
test_charsets(void **state)
{
	static const struct {
		const char *charset;
		bool is_accepted;
	} cases[] = { { "iso-2022-jp", true }, { "ISO-2022-JP", true },
		{ "shift_jis", true }, { "koi8-r", true },
		{ "iso-2022-jp-2", false }, { "iso-2022-jp-3", false },
		{ "iso-2022-kr", false }, { "iso-2022-cn-ext", false },
		{ "hz-gb-2312", false }, { "utf-7", false },
		{ "utf-16", false }, { "utf-16le", false } };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mime_list list = { 0 };
		struct buf bytes = { 0 };
		char header[100] = "Content-Type: text/plain; charset=";

		print_message("%s\n", cases[i].charset);
		(void)strcat(header, cases[i].charset);
		assert_int_equal(
		    read_part(&list, &bytes, header), cases[i].is_accepted);
		mime_list_free(&list);
		buf_free(&bytes);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_mailbox),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_charsets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
