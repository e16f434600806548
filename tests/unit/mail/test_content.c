/* SPDX-License-Identifier: ISC */
/* What a message says, read back from its frozen bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <openssl/evp.h>

#include "mail/content.h"
#include "mail/transfer.h"

#define MIXED                                                                  \
	"Subject: x\r\nMIME-Version: 1.0\r\n"                                  \
	"Content-Type: multipart/mixed; boundary=b\r\n\r\n"

static void
collect(void *arg, const void *p, size_t n)
{
	buf_add(arg, p, n);
}

static struct content *
read_cut(const char *text, size_t step, const char *want, struct buf *got)
{
	struct content *c = content_new();
	size_t i, n = strlen(text);

	if (want != NULL)
		content_want(c, want, collect, got);
	for (i = 0; i < n; i += step)
		assert_true(
		    content_feed(c, text + i, n - i < step ? n - i : step));
	assert_true(content_finish(c));
	return c;
}

static void
text_is(const struct content *c, bool html, const char *want)
{
	const struct content_text *t = content_text(c, html);

	assert_int_equal(t->present, want != NULL);
	assert_int_equal(t->text.n, want != NULL ? strlen(want) : 0);
	if (want != NULL)
		assert_memory_equal(t->text.p, want, t->text.n);
}

static void
attachment_is(const struct content *c, size_t i, const char *path,
    const char *name, const char *type, const char *bytes)
{
	const struct content_attachment *a = content_attachment(c, i);
	unsigned char sum[32];

	assert_true(i < content_attachments(c));
	assert_string_equal(a->path, path);
	assert_string_equal(a->filename, name);
	assert_string_equal(a->type, type);
	assert_int_equal(a->size, strlen(bytes));
	assert_true(
	    EVP_Digest(bytes, strlen(bytes), sum, NULL, EVP_sha256(), NULL));
	assert_memory_equal(a->sha256, sum, 32);
}

/* All of it, at once and byte by byte. */
static void
test_parts(void **state)
{
	static const char text[] = MIXED
	    "preamble\r\n--b\r\n"
	    "Content-Type: multipart/alternative; boundary=c\r\n\r\n"
	    "--c\r\nContent-Type: text/plain; charset=utf-8\r\n"
	    "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
	    "gr=C3=BC=C3=9Fe =\r\n  a_b=3D \r\n.\r\n"
	    "--c\r\nContent-Type: text/html\r\n\r\n<p>x</p>\r\n\r\n--c--\r\n"
	    "--b\r\nContent-Type: application/x-a; name=a.bin\r\n"
	    "Content-Transfer-Encoding: base64\r\n\r\nYWJj\r\nZA\r\n==\r\n"
	    "--b\r\nContent-Type: message/rfc822\r\n\r\n"
	    "Subject: in\r\nContent-Type: multipart/mixed; boundary=d\r\n\r\n"
	    "--d\r\n\r\nhi\r\n--d--\r\n\r\n--b\r\n"
	    "Content-Type: text/plain; charset=koi8-r\r\n\r\nabc\r\n"
	    "--b\r\nContent-Type: text/plain\r\n\r\nfooter\r\n--b--\r\n";
	static const size_t steps[] = { 1, 2, 7, 100, sizeof(text) };
	const char *inner = "Subject: in\r\nContent-Type: multipart/mixed; "
			    "boundary=d\r\n\r\n--d\r\n\r\nhi\r\n--d--\r\n";
	struct content *c;
	struct buf got = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		buf_clear(&got);
		c = read_cut(text, steps[i], "3", &got);
		text_is(c, false, "grüße   a_b=\n.\nfooter");
		text_is(c, true, "<p>x</p>\n");
		assert_int_equal(content_attachments(c), 3);
		attachment_is(c, 0, "2", "a.bin", "application/x-a", "abcd");
		attachment_is(c, 1, "3", "", "message/rfc822", inner);
		attachment_is(c, 2, "4", "", "text/plain", "abc");
		assert_true(content_attachment(c, 2)->is_inline);
		assert_false(content_attachment(c, 0)->is_inline);
		assert_string_equal(
		    content_attachment(c, 2)->charset, "koi8-r");
		assert_int_equal(got.n, strlen(inner));
		assert_memory_equal(got.p, inner, got.n);
		assert_int_equal(content_header(c).n, strlen(MIXED) - 2);
		content_free(c);
	}
	buf_free(&got);
}

static void
test_plain(void **state)
{
	struct content *c =
	    read_cut("Subject: x\r\n\r\na\r\n\r\nb\r\n", 1, NULL, NULL);

	(void)state;
	text_is(c, false, "a\n\nb\n");
	text_is(c, true, NULL);
	assert_int_equal(content_attachments(c), 0);
	content_free(c);
	c = read_cut("Subject: x\r\n\r\n", 1, NULL, NULL);
	text_is(c, false, "");
	content_free(c);
	/* The whole body is the attachment. */
	c = read_cut(
	    "Content-Type: application/x-a\r\n\r\nx\r\n", 1, NULL, NULL);
	text_is(c, false, NULL);
	attachment_is(c, 0, "", "", "application/x-a", "x\r\n");
	content_free(c);
}

static void
test_charsets(void **state)
{
	struct content *c =
	    read_cut("Content-Type: text/plain; charset=windows-1252\r\n"
		     "Content-Transfer-Encoding: 8bit\r\n\r\n\x80 \xfc\r\n",
		3, NULL, NULL);

	(void)state;
	text_is(c, false, "€ ü\n");
	content_free(c);
	c = read_cut("Content-Type: text/plain; charset=utf-8\r\n"
		     "Content-Transfer-Encoding: base64\r\n\r\nYQDDYg==\r\n",
	    3, NULL, NULL);
	text_is(c, false,
	    "a\xef\xbf\xbd\xef\xbf\xbd"
	    "b");
	content_free(c);
	/* No charset, not UTF-8: bytes to fetch, no guess. */
	c = read_cut("Content-Type: text/plain\r\n"
		     "Content-Transfer-Encoding: base64\r\n\r\n4Q==\r\n",
	    3, NULL, NULL);
	text_is(c, false, NULL);
	attachment_is(c, 0, "", "", "text/plain", "\xe1");
	content_free(c);
}

/* Longer than is shown: cut between characters, all of it as attachment. */
static void
test_long_text(void **state)
{
	struct buf b = { 0 };
	struct content *c;
	size_t i, size = 0;

	(void)state;
	buf_puts(&b, "Content-Type: text/plain; charset=utf-8\r\n"
		     "Content-Transfer-Encoding: 8bit\r\n\r\n");
	for (i = 0; i < 6000; i++) {
		buf_printf(&b, "%0*d\xe2\x82\xac\r\n", 85 + (int)(i % 7), 0);
		size += 85 + i % 7 + 5;
	}
	c = read_cut(buf_cstr(&b), 4096, NULL, NULL);
	assert_true(content_text(c, false)->truncated);
	assert_in_range(content_text(c, false)->text.n, CONTENT_TEXT_MAX - 8192,
	    CONTENT_TEXT_MAX);
	assert_int_equal(content_attachments(c), 1);
	assert_int_equal(content_attachment(c, 0)->size, size);
	content_free(c);
	buf_free(&b);
}

/* Lines as programs join them that know DelSp (RFC 3676). */
static void
test_joined_lines(void **state)
{
	static const char *const all[][2] = {
		{ "https://good.exa \r\nmple.evil.example\r\n",
		    "https://good.example.evil.example\r\n" },
		{ "one \ntwo \n three", "onetwothree\r\n" },
		{ "one  \r\ntwo\r\n", "one two\r\n" },
		{ "> one \r\n> two\r\n>> three \r\nfour\r\n",
		    "> onetwo\r\n>> three \r\nfour\r\n" },
		{ "-- \r\nAnn \r\n", "-- \r\nAnn \r\n" },
		{ "one \r\n\r\ntwo", "one\r\ntwo\r\n" }, { "", "" },
		{ "\r\n \r\n", "\r\n \r\n" }
	};
	struct buf b = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		buf_clear(&b);
		transfer_join(&b, str_of(all[i][0]));
		assert_string_equal(buf_cstr(&b), all[i][1]);
	}
	buf_free(&b);
}

static void
test_malformed_is_told(void **state)
{
	struct content *c = content_new();

	(void)state;
	assert_true(content_feed(c, MIXED, strlen(MIXED)));
	assert_false(content_finish(c));
	content_free(c);
	content_free(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_charsets),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_joined_lines),
		cmocka_unit_test(test_malformed_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
