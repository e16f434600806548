/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/codec.h"
#include "mail/compose.h"
#include "mail/freeze.h"
#include "mail/header.h"
#include "mail/structure.h"

static struct buf frozen;

static void
collect(void *arg, const void *p, size_t n)
{
	(void)arg;
	buf_add(&frozen, p, n);
}

static const struct str to[] = { { "ann@example.net", 15 } };

static struct compose
basic(void)
{
	return (struct compose){ .from = str_lit("bot@example.org"),
		.to = to,
		.to_count = 1,
		.subject = str_lit("hi"),
		.text = str_lit("hello\n.\nMAIL FROM:<x@y>\n") };
}

/* What the builder makes passes the same rules as everything else. */
static void
freeze_all(const struct compose *c, struct freeze **out)
{
	struct compose_error err;
	struct address inbox;
	struct buf b = { 0 };
	struct freeze_conf conf = { .hostname = str_lit("mx"),
		.with = "HTTPS",
		.inbox = &inbox,
		.size_max = 1 << 24 };

	assert_int_equal(address_parse(&inbox, c->from), ADDRESS_OK);
	if (!compose_build(&b, c, &err))
		print_message("%s: %s\n", err.field, err.text);
	assert_int_equal(err.code, E_NONE);
	buf_clear(&frozen);
	*out = freeze_new(&conf, collect, NULL);
	(void)freeze_feed(*out, b.p, b.n);
	if (freeze_finish(*out) != E_NONE)
		print_message("%s\n%s\n", freeze_why(*out), buf_cstr(&b));
	assert_string_equal(freeze_why(*out), "");
	buf_free(&b);
}

/* Each way to end a line becomes CRLF, wherever it stands. */
static void
test_line_ends(void **state)
{
	static const char *const texts[][2] = {
		{ "a\nb\rc\r\nd", "a\r\nb\r\nc\r\nd" },
		{ "\n\ra\r\r\n\n", "\r\n\r\na\r\n\r\n\r\n" },
		{ "\r\n", "\r\n" },
		{ "\r", "\r\n" },
		{ "no end", "no end" },
	};
	char encoded[BASE64_LEN(40) + 1];
	struct compose_error err;
	struct buf b = { 0 };
	struct compose c = basic();
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		c.text = str_of(texts[i][0]);
		buf_clear(&b);
		assert_true(compose_build(&b, &c, &err));
		base64_encode(encoded, texts[i][1], strlen(texts[i][1]));
		assert_non_null(strstr(buf_cstr(&b), "\r\n\r\n"));
		assert_memory_equal(strstr(buf_cstr(&b), "\r\n\r\n") + 4,
		    encoded, strlen(encoded));
	}
	buf_free(&b);
}

/* B32: every special in names, subjects and file names comes back. */
static void
test_round_trip(void **state)
{
	static const char *const texts[] = { "plain", "A \"B\" (x)\\",
		"Doe, John", "a@b <c>", "=?utf-8?Q?x?=", "\xc3\xa9t\xc3\xa9",
		"a;b=c*'%", "trailing.", "x  y", "\xf0\x9f\x98\x80 smile",
		"a very long subject that has to be folded because it does "
		"not fit into seventy-six characters by any means, and more",
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac"
		"\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5"
		"\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.pdf" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct compose c = basic();
		struct compose_attachment a = { .filename = str_of(texts[i]),
			.content = str_lit("\0\1\2") };
		struct structure *s;
		struct mime_list l = { 0 };
		struct freeze *f;

		c.subject = str_of(texts[i]);
		c.html = str_lit("<p>hello</p>");
		c.attachment = &a;
		c.attachment_count = 1;
		freeze_all(&c, &f);
		assert_string_equal(freeze_info(f)->subject, texts[i]);
		assert_int_equal(freeze_info(f)->attachments, 1);
		freeze_free(f);
		s = structure_new(mime_list_add, &l);
		assert_int_equal(structure_feed(s, frozen.p, frozen.n), E_NONE);
		assert_int_equal(structure_finish(s), E_NONE);
		structure_free(s);
		mime_list_sort(&l);
		assert_int_equal(l.count, 5);
		assert_string_equal(l.part[4].filename, texts[i]);
		assert_string_equal(l.part[4].path, "2");
		assert_string_equal(l.part[2].type, "text/plain");
		assert_string_equal(l.part[3].path, "1.2");
		mime_list_free(&l);
	}
}

/* H3, B33: nothing that could end a line gets into a header. */
static void
test_controls(void **state)
{
	static const char *const bad[] = { "a\rb", "a\nb", "a\r\nBcc: x@y",
		"a\tb", "a\x7f", "a\xc2\x85", "a\xe2\x80\xa8", "a\xe2\x80\xa9",
		"a\x1b", "a\xff" };
	size_t i, where;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		for (where = 0; where < 7; where++) {
			struct compose c = basic();
			struct compose_attachment a = { .filename =
							    str_lit("a") };
			struct compose_header h = { str_lit("X-A"),
				str_lit("a") };
			struct str s = str_of(bad[i]);
			struct compose_error err;
			struct buf b = { 0 };

			c.attachment = &a;
			c.header = &h;
			c.attachment_count = c.header_count = 1;
			c.reply_to_count = where == 6;
			c.reply_to = &s;
			*(where == 0     ? &c.subject
			    : where == 1 ? &a.filename
			    : where == 2 ? &a.content_type
			    : where == 3 ? &h.value
			    : where == 4 ? &h.name
			    : where == 5 ? &c.in_reply_to
					 : &c.from_name) = s;
			assert_false(compose_build(&b, &c, &err));
			assert_int_not_equal(err.code, E_NONE);
			assert_string_not_equal(err.field, "");
			assert_int_equal(b.n, 0);
			buf_free(&b);
		}
	}
}

static void
test_denied(void **state)
{
	static const char *const names[] = { "From", "sender", "TO", "cc",
		"BCC", "Date", "Received", "Return-Path", "Resent-To",
		"DKIM-Signature", "ARC-Seal", "Authentication-Results",
		"Content-Type", "MIME-Version", "X-Postern-A", "X-SMTPAPI",
		"a b", "a:", "" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_false(compose_header_allowed(str_of(names[i])));
	assert_true(compose_header_allowed(str_lit("X-Ticket")));
	assert_true(compose_header_allowed(str_lit("List-Unsubscribe")));
}

static void
test_address(void **state)
{
	static const struct {
		const char *given, *wire;
	} facts[] = { { "a@b.example", "a@b.example" },
		{ "Ann <a@b.example>", "a@b.example" },
		{ "\"Doe, J\" <a@b.example>", "a@b.example" },
		{ "a@b\xc3\xbc"
		  "cher.example",
		    "a@xn--bcher-kva.example" },
		{ "Ann <\xc3\xa9@b.example>", "\xc3\xa9@b.example" },
		{ "\xc3@b.example", NULL }, { "a", NULL },
		{ "a@b.example, c@d.example", NULL }, { "<>", NULL },
		{ "<a@b.example", NULL }, { "", NULL } };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		struct compose_error err;
		struct buf b = { 0 };
		bool ok = compose_address(&b, str_of(facts[i].given), &err);

		assert_int_equal(ok, facts[i].wire != NULL);
		if (ok)
			assert_string_equal(buf_cstr(&b), facts[i].wire);
		buf_free(&b);
	}
}

static void
test_name(void **state)
{
	static const struct {
		const char *name;
		bool valid;
	} facts[] = { { "", true }, { "Ann's bot, (new) \"x\"", true },
		{ "\xc3\x84nn", true }, { "bot@acme.example", true },
		{ "Bot@ACME.example", true }, { "ceo@acme.example", false },
		{ "Ann <a@b.example>", false }, { "a\nb", false },
		{ "=?utf-8?q?a=40b?=", false },
		{ "Ann \xe2\x80\xae", false }, /* U+202E */
		{ "Ann \xef\xbc\xa0 b", false }, /* U+FF20 */
		{ "\xff", false } };
	char most[258];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (compose_name_valid(str_of(facts[i].name),
			str_of("bot@acme.example")) != facts[i].valid)
			fail_msg("%s", facts[i].name);
	memset(most, 'a', sizeof(most) - 1);
	most[257] = '\0';
	assert_false(
	    compose_name_valid(str_of(most), str_of("bot@acme.example")));
	most[256] = '\0';
	assert_true(
	    compose_name_valid(str_of(most), str_of("bot@acme.example")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_ends),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_name),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	buf_free(&frozen);
	return rc;
}
