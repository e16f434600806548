/* SPDX-License-Identifier: ISC */
#include "tests/unit/mail/freezing.h"

#include "mail/header.h"

/* The forms of espoofer, and more (smtp.md H1, H2). */
static const struct fact from_facts[] = {
	{ "plain", OK "\r\nx\r\n", E_NONE },
	{ "case", "FROM: BOT@EXAMPLE.ORG\r\n\r\n", E_NONE },
	{ "own address as name",
	    "From: \"bot@example.org\" <bot@example.org>\r\n\r\n", E_NONE },
	{ "none", TO "\r\n", E_SENDER_MISMATCH },
	{ "other", "From: ceo@example.org\r\n\r\n", E_SENDER_MISMATCH },
	{ "two fields", FROM "From: ceo@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "two, other case", FROM "fRoM: ceo@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "leading space", " From: ceo@example.org\r\n" FROM "\r\n",
	    E_SENDER_MISMATCH },
	{ "space before colon", "From : ceo@example.org\r\n" FROM "\r\n",
	    E_SENDER_MISMATCH },
	{ "folded name", "From\r\n : ceo@example.org\r\n" FROM "\r\n",
	    E_SENDER_MISMATCH },
	{ "sender only", "Sender: bot@example.org\r\n\r\n", E_SENDER_MISMATCH },
	{ "resent-from", OK "Resent-From: a@b.example\r\n\r\n",
	    E_MESSAGE_MALFORMED },
	{ "list", "From: bot@example.org, ceo@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "list, other first", "From: ceo@example.org, bot@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "encoded address",
	    "From: =?utf-8?B?Y2VvQGV4YW1wbGUub3Jn?= "
	    ",<bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "encoded name is an address",
	    "From: =?utf-8?B?Y2VvQGV4YW1wbGUub3Jn?= "
	    "<bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "route", "From: <@ceo@example.org:bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "route 2", "From: <@x.example:bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "escaped comma",
	    "From: <ceo@example.org>\\,<bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "bare comma", "From: ceo@example.org,<bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "text behind", "From: <bot@example.org>ceo@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "address before", "From: ceo@example.org <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "two brackets", "From: <ceo@example.org><bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "comment", "From: bot@example.org (ceo@example.org)\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "comment opens", "From: (a <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "name is an address",
	    "From: \"ceo@example.org\" <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "wide at",
	    "From: =?utf-8?Q?ceo=EF=BC=A0example.org?= "
	    "<bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "name with line end",
	    "From: =?utf-8?Q?a=0A=0DBcc:_x?= <bot@example.org>\r\n"
	    "\r\n",
	    E_SENDER_MISMATCH },
	{ "name with NUL", "From: =?utf-8?Q?ceo=00?= <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "name turns text",
	    "From: =?utf-8?Q?=E2=80=AEx?= <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "name in a foreign charset",
	    "From: =?iso-2022-jp?B?GyRC?= <bot@example.org>\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "group", "From: x:bot@example.org;\r\n\r\n", E_SENDER_MISMATCH },
	{ "empty group", "From: x:;\r\n\r\n", E_SENDER_MISMATCH },
	{ "empty", "From: \r\n\r\n", E_SENDER_MISMATCH },
	{ "null", "From: <>\r\n\r\n", E_SENDER_MISMATCH },
	{ "sub-domain", "From: bot@a.example.org\r\n\r\n", E_SENDER_MISMATCH },
	{ "plus", "From: bot+x@example.org\r\n\r\n", E_SENDER_MISMATCH },
	{ "header behind the body", TO "\r\n" FROM "\r\n", E_SENDER_MISMATCH },
	{ "sender same", OK "Sender: <bot@example.org>\r\n\r\n", E_NONE },
	{ "sender other", OK "Sender: ceo@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
	{ "two senders",
	    OK "Sender: bot@example.org\r\n"
	       "Sender: bot@example.org\r\n\r\n",
	    E_SENDER_MISMATCH },
};

static void
test_from(void **state)
{
	(void)state;
	CHECK(from_facts);
}

static void
test_bytes(void **state)
{
	static const struct fact facts[] = {
		{ "no body", OK, E_NONE },
		{ "no end", OK "\r\nx", E_NONE },
		{ "ends in CR", OK "\r\nx\r", E_NONE },
		{ "bare LF", OK "\r\na\nb\r\n", E_MESSAGE_MALFORMED },
		{ "bare CR", OK "\r\na\rb\r\n", E_MESSAGE_MALFORMED },
		{ "CR CR LF", OK "\r\na\r\r\n", E_MESSAGE_MALFORMED },
		{ "LF in header", FROM "X: a\nB: c\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "empty", "", E_SENDER_MISMATCH },
		{ "blank fold", FROM "X: a\r\n \r\n b\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "no name", FROM ": a\r\n\r\n", E_MESSAGE_MALFORMED },
		{ "mbox line", "From bot Thu\r\n" FROM "\r\n",
		    E_MESSAGE_MALFORMED },
		{ "escape", FROM "Subject: a\033b\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "two subjects", OK "Subject: b\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "two dates",
		    OK "Date: Sat, 28 Nov 2026 03:42:25 +0000\r\n"
		       "Date: Sat, 28 Nov 2026 03:42:25 +0000\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "date", OK "Date: tomorrow\r\n\r\n", E_MESSAGE_MALFORMED },
		{ "message-id", OK "Message-ID: x\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "to", FROM "To: a b@c d\r\n\r\n", E_MESSAGE_MALFORMED },
		{ "to group", FROM "To: undisclosed-recipients:;\r\n\r\n",
		    E_NONE },
		{ "nested group", FROM "To: a:b:c@d.example;;\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "quoted name (B30)",
		    FROM "To: \"\\\"Doe, John\\\"\" <u@x.example>\r\n\r\n",
		    E_NONE },
		{ "8-bit", FROM "Subject: \xc3\xa9\r\n\r\n",
		    E_SMTPUTF8_NEEDED },
		{ "8-bit body", OK "\r\n\xc3\xa9\r\n", E_MESSAGE_MALFORMED },
	};
	static const char nul[] = OK "\r\na\0b\r\n";

	(void)state;
	CHECK(facts);
	assert_int_equal(run((struct str){ nul, sizeof(nul) - 1 }, false),
	    E_MESSAGE_MALFORMED);
	assert_int_equal(
	    run(str_lit(FROM "Subject: \xc3\xa9\r\n\r\n"), true), E_NONE);
	assert_int_equal(run(str_lit(FROM "Subject: \xc3\r\n\r\n"), true),
	    E_MESSAGE_MALFORMED);
}

static void
test_line_length(void **state)
{
	static const char *const places[] = { OK "\r\n", OK "X: " };
	struct buf b = { 0 };
	int i, n;

	(void)state;
	for (i = 0; i < 2; i++) {
		for (n = 997; n <= 1001; n++) {
			buf_clear(&b);
			buf_puts(&b, places[i]);
			for (int k = i == 0 ? 0 : 3; k < n; k++)
				buf_putc(&b, 'a');
			buf_puts(&b, "\r\n\r\n");
			assert_int_equal(run(buf_str(&b), false),
			    n <= 998 ? E_NONE : E_MESSAGE_MALFORMED);
		}
	}
	buf_free(&b);
}

static void
test_header_limits(void **state)
{
	struct buf b = { 0 };
	int i;

	(void)state;
	buf_puts(&b, OK);
	for (i = 0; i < 998; i++)
		buf_puts(&b, "X: a\r\n");
	buf_puts(&b, "\r\n");
	assert_int_equal(run(buf_str(&b), false), E_MESSAGE_MALFORMED);
	buf_clear(&b);
	buf_puts(&b, OK);
	for (i = 0; i < 997; i++)
		buf_puts(&b, "X: a\r\n");
	buf_puts(&b, "\r\n");
	assert_int_equal(run(buf_str(&b), false), E_NONE);
	buf_clear(&b);
	buf_puts(&b, OK);
	for (i = 0; i < 200; i++)
		buf_printf(&b, "X: %0600d\r\n", i);
	buf_puts(&b, "\r\n");
	assert_int_equal(run(buf_str(&b), false), E_MESSAGE_MALFORMED);
	buf_clear(&b);
	buf_puts(&b, OK);
	for (i = 0; i < 100; i++)
		buf_puts(&b, "Received: by x\r\n");
	buf_puts(&b, "\r\n");
	assert_int_equal(run(buf_str(&b), false), E_LOOP);
	buf_free(&b);
}

/* The whole result, byte by byte. */
static void
test_result(void **state)
{
	static const char in[] =
	    "Return-Path: <x@y.example>\r\n" OK
	    "Cc: \"A, B\" <b@example.net>\r\nbcc: secret@example.net,\r\n"
	    " two@example.net\r\nX-Postern-Seen: yes\r\n"
	    "Postern-Purpose: invoice\r\nX-SMTPAPI: {\"to\":[\"e@v\"]}\r\n"
	    "DKIM-Signature: v=1; d=example.org; s=x; b=AA\r\n"
	    "DKIM-Signature: v=1; d=example.com; s=x; b=AA\r\n"
	    "Content-Type: text/plain\r\n"
	    "In-Reply-To: <a@b>\r\nReferences: <c@d>\r\n <a@b>\r\n"
	    "\r\n.\r\nbody\r\n";
	static const char want[] =
	    "Received: by mx.example.org (Postern) "
	    "with ESMTPSA id msg_01000000000000000000000000; "
	    "Tue, 14 Nov 2023 22:13:20 +0000\r\n" OK
	    "Cc: \"A, B\" <b@example.net>\r\n"
	    "DKIM-Signature: v=1; d=example.com; s=x; b=AA\r\n"
	    "Content-Type: text/plain\r\n"
	    "In-Reply-To: <a@b>\r\nReferences: <c@d>\r\n <a@b>\r\n"
	    "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"
	    "Message-ID: <01000000000000000000000000@example.org>\r\n"
	    "MIME-Version: 1.0\r\n"
	    "\r\n.\r\nbody\r\n";
	struct freeze *f = start(false, SIZE_MAX_HERE);
	const struct freeze_info *i;

	(void)state;
	(void)freeze_feed(f, in, sizeof(in) - 1);
	assert_int_equal(freeze_finish(f), E_NONE);
	assert_int_equal(frozen.n, sizeof(want) - 1);
	assert_memory_equal(frozen.p, want, sizeof(want) - 1);
	i = freeze_info(f);
	assert_string_equal(i->subject, "hi");
	assert_string_equal(i->header_from, "Bot <bot@example.org>");
	assert_string_equal(i->in_reply_to, "<a@b>");
	assert_false(i->has_message_id);
	assert_int_equal(i->size, sizeof(want) - 1);
	assert_true(str_eq(buf_str(&i->references), str_lit("<c@d>\n<a@b>")));
	assert_true(str_eq(buf_str(&i->rcpt),
	    str_lit("t ann@example.net\nc b@example.net\n"
		    "b secret@example.net\nb two@example.net\n")));
	assert_true(str_eq(
	    buf_str(&i->context), str_lit("Postern-Purpose: invoice\n")));
	freeze_free(f);
}

/* A long value may stand on the line behind its name, and many do so. */
static void
test_folded_at_once(void **state)
{
	static const char in[] =
	    "From:\r\n Bot <bot@example.org>\r\nTo:\r\n\tann@example.net\r\n"
	    "Subject:\r\n hi\r\nDate:\r\n Tue, 14 Nov 2023 22:13:20 +0000\r\n"
	    "Message-ID:\r\n\t<a@b.example>\r\nIn-Reply-To:\r\n <c@d>\r\n"
	    "MIME-Version:\r\n 1.0\r\n"
	    "Content-Type:\r\n text/plain;\r\n charset=utf-8\r\n"
	    "Content-Transfer-Encoding:\r\n quoted-printable\r\n"
	    "Content-Disposition:\r\n inline\r\n\r\n=C3=A9\r\n";
	struct freeze *f;
	const struct freeze_info *i;

	(void)state;
	assert_int_equal(run(str_of(in), false), E_NONE);
	f = start(false, SIZE_MAX_HERE);
	(void)freeze_feed(f, in, sizeof(in) - 1);
	assert_int_equal(freeze_finish(f), E_NONE);
	i = freeze_info(f);
	assert_string_equal(i->subject, "hi");
	assert_string_equal(i->message_id, "<a@b.example>");
	assert_string_equal(i->in_reply_to, "<c@d>");
	assert_true(str_eq(buf_str(&i->rcpt), str_lit("t ann@example.net\n")));
	freeze_free(f);
}

#define PART "--b\r\nContent-Type: text/plain\r\n\r\nhi\r\n"
#define TYPE(t) OK "MIME-Version: 1.0\r\n" t "\r\n\r\nx\r\n"

static const struct fact mime_facts[] = {
	/* 65, 71 and 73 characters, of every Office document */
	{ "xlsx",
	    OK "Content-Type: application/vnd.openxmlformats-officedocument."
	       "spreadsheetml.sheet\r\n\r\nPK",
	    E_NONE },
	{ "docx",
	    OK "Content-Type: application/vnd.openxmlformats-officedocument."
	       "wordprocessingml.document\r\n\r\nPK",
	    E_NONE },
	{ "pptx",
	    OK "Content-Type: application/vnd.openxmlformats-officedocument."
	       "presentationml.presentation\r\n\r\nPK",
	    E_NONE },
	{ "mixed", MIXED PART "--b--\r\n", E_NONE },
	{ "preamble", MIXED "This is MIME.\r\n" PART "--b--\r\nend\r\n",
	    E_NONE },
	{ "header in preamble",
	    MIXED "Content-Type: text/html\r\n" PART "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "not closed", MIXED PART, E_MESSAGE_MALFORMED },
	{ "no part", MIXED "--b--\r\n", E_MESSAGE_MALFORMED },
	{ "prefix line", MIXED PART "--bc\r\n--b--\r\n", E_MESSAGE_MALFORMED },
	{ "padding", MIXED PART "--b \r\n--b--\r\n", E_MESSAGE_MALFORMED },
	{ "goes on", MIXED PART "--b--\r\n" PART "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "header only",
	    MIXED "--b\r\nContent-Type: text/plain\r\n"
		  "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "two types",
	    TYPE("Content-Type: text/plain\r\n"
		 "Content-Type: text/html"),
	    E_MESSAGE_MALFORMED },
	{ "two encodings",
	    TYPE("Content-Transfer-Encoding: 7bit\r\n"
		 "content-transfer-encoding: base64"),
	    E_MESSAGE_MALFORMED },
	{ "two boundaries",
	    TYPE("Content-Type: multipart/mixed; boundary=a; "
		 "boundary=b"),
	    E_MESSAGE_MALFORMED },
	{ "boundary by 2231",
	    TYPE("Content-Type: multipart/mixed; boundary*=a"),
	    E_MESSAGE_MALFORMED },
	{ "no boundary", TYPE("Content-Type: multipart/mixed"),
	    E_MESSAGE_MALFORMED },
	{ "empty boundary",
	    TYPE("Content-Type: multipart/mixed; boundary=\"\""),
	    E_MESSAGE_MALFORMED },
	{ "encoded multipart",
	    OK "Content-Transfer-Encoding: base64\r\n"
	       "Content-Type: multipart/mixed; boundary=b\r\n\r\n" PART
	       "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "unknown encoding", TYPE("Content-Transfer-Encoding: x-uuencode"),
	    E_MESSAGE_MALFORMED },
	{ "utf-7", TYPE("Content-Type: text/plain; charset=utf-7"),
	    E_MESSAGE_MALFORMED },
	{ "comment in type", TYPE("Content-Type: text/plain (text/html)"),
	    E_MESSAGE_MALFORMED },
	{ "external body", TYPE("Content-Type: message/external-body"),
	    E_MESSAGE_MALFORMED },
	{ "partial", TYPE("Content-Type: message/partial; id=a"),
	    E_MESSAGE_MALFORMED },
	{ "names differ",
	    TYPE("Content-Type: text/plain; name=\"a.exe\"\r\n"
		 "Content-Disposition: attachment; "
		 "filename=\"a.txt\""),
	    E_MESSAGE_MALFORMED },
	{ "names differ 2231",
	    TYPE("Content-Disposition: attachment; filename=a.exe; "
		 "filename*=utf-8''a.txt"),
	    E_MESSAGE_MALFORMED },
	{ "names with fallback",
	    TYPE("Content-Disposition: attachment; filename=e.txt; "
		 "filename*=utf-8''%C3%A9.txt"),
	    E_NONE },
	{ "fallback of other kind",
	    TYPE("Content-Disposition: attachment; filename=e.exe; "
		 "filename*=utf-8''%C3%A9.txt"),
	    E_MESSAGE_MALFORMED },
	{ "continuation",
	    TYPE("Content-Disposition: attachment; filename*0=a;"
		 " filename*1=.txt"),
	    E_NONE },
	{ "continuation with a gap",
	    TYPE("Content-Disposition: attachment; filename*0=a;"
		 " filename*2=.txt"),
	    E_MESSAGE_MALFORMED },
	{ "mime 2", TYPE("MIME-Version: 1.0"), E_MESSAGE_MALFORMED },
	{ "inner boundary begins with outer",
	    MIXED "--b\r\nContent-Type: multipart/mixed; "
		  "boundary=b2\r\n\r\n--b2\r\n\r\nx\r\n--b2--\r\n"
		  "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "same boundary inside",
	    MIXED "--b\r\nContent-Type: multipart/mixed; "
		  "boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n"
		  "--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "inner not closed",
	    MIXED "--b\r\nContent-Type: multipart/mixed; "
		  "boundary=c\r\n\r\n--c\r\n\r\nx\r\n--b--\r\n",
	    E_MESSAGE_MALFORMED },
	{ "message inside",
	    MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\n"
		  "Subject: x\r\n\r\nbody\r\n--b--\r\n",
	    E_NONE },
};

static void
test_mime(void **state)
{
	(void)state;
	CHECK(mime_facts);
}

/* B28: comments and groups nested as far as a header goes. */
static void
test_nested_comments(void **state)
{
	static const char *const starts[] = {
		"From: ", FROM "To: ", FROM "Reply-To: "
	};
	struct buf b = { 0 };
	size_t i, k;

	(void)state;
	for (i = 0; i < 3; i++) {
		buf_clear(&b);
		buf_puts(&b, starts[i]);
		for (k = 0; k < 90000; k++)
			buf_puts(&b, k % 900 == 899 ? "(\r\n " : "(");
		buf_puts(&b, "bot@example.org\r\n\r\n");
		assert_int_equal(run(buf_str(&b), false),
		    i == 0 ? E_SENDER_MISMATCH : E_MESSAGE_MALFORMED);
		buf_clear(&b);
		buf_puts(&b, starts[i]);
		for (k = 0; k < 30000; k++)
			buf_puts(&b, k % 300 == 299 ? "a:\r\n " : "a:");
		buf_puts(&b, "bot@example.org;\r\n\r\n");
		assert_int_equal(run(buf_str(&b), false),
		    i == 0 ? E_SENDER_MISMATCH : E_MESSAGE_MALFORMED);
	}
	/* a few are fine where they may stand */
	assert_int_equal(
	    run(str_lit(FROM "To: (a (b (c))) ann@example.net\r\n\r\n"), false),
	    E_NONE);
	buf_free(&b);
}

/* B27: depth and number of parts. */
static void
test_bombs(void **state)
{
	struct buf b = { 0 };
	int i;

	(void)state;
	buf_puts(&b, OK "Content-Type: message/rfc822\r\n\r\n");
	for (i = 0; i < 60; i++)
		buf_puts(&b, "Content-Type: message/rfc822\r\n\r\n");
	assert_int_equal(run(buf_str(&b), false), E_MIME_TOO_COMPLEX);
	buf_clear(&b);
	buf_puts(&b, MIXED);
	for (i = 0; i < 999; i++)
		buf_puts(&b, "--b\r\n\r\nx\r\n");
	buf_puts(&b, "--b--\r\n");
	assert_int_equal(run(buf_str(&b), false), E_NONE);
	buf_clear(&b);
	buf_puts(&b, MIXED);
	for (i = 0; i < 1000; i++)
		buf_puts(&b, "--b\r\n\r\nx\r\n");
	assert_int_equal(run(buf_str(&b), false), E_MIME_TOO_COMPLEX);
	buf_free(&b);
}

/* Each byte at each place of lines of each length, as eight at a time see it.
 */
static void
test_header_bytes(void **state)
{
	char text[32];
	struct header h;
	const char *why;
	size_t n, at;
	int c;
	bool ok;

	(void)state;
	for (n = 1; n <= 18; n++) {
		for (at = 0; at < n * 256; at++) {
			c = (int)(at % 256);
			memset(text, '~', sizeof(text));
			memcpy(text, "a:", 2);
			text[2 + at / 256] = (char)c;
			memcpy(text + 2 + n, "\r\n", 2);
			ok =
			    header_parse(&h, (struct str){ text, n + 4 }, &why);
			assert_int_equal(
			    ok, c == '\t' || (c >= ' ' && c != 0x7f));
			assert_int_equal(ok && h.has_8bit, c > 0x7f);
			if (ok)
				header_free(&h);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_header_bytes),
		cmocka_unit_test(test_line_length),
		cmocka_unit_test(test_header_limits),
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_folded_at_once),
		cmocka_unit_test(test_mime),
		cmocka_unit_test(test_bombs),
		cmocka_unit_test(test_nested_comments),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
