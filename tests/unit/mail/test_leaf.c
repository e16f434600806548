/* SPDX-License-Identifier: ISC */
/* What the lines of a part may hold, and who wins when two things are wrong. */
#include "tests/unit/mail/freezing.h"

#include "mail/structure.h"

#define BODY(head, text) OK "MIME-Version: 1.0\r\n" head "\r\n\r\n" text "\r\n"
#define UTF8_8BIT                                                              \
	"Content-Type: text/plain; charset=utf-8\r\n"                          \
	"Content-Transfer-Encoding: 8bit"
#define BASE64 "Content-Transfer-Encoding: base64"
#define QP "Content-Transfer-Encoding: quoted-printable"
#define RFC822(head)                                                           \
	MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\n" head               \
	      "\r\nbody\r\n--b--\r\n"

static void
test_eight_bit(void **state)
{
	static const struct fact facts[] = {
		{ "declared", BODY(UTF8_8BIT, "\xc3\xa9"), E_NONE },
		{ "declared, and is not",
		    BODY(UTF8_8BIT, "4111\xff"
				    "1111"),
		    E_MESSAGE_MALFORMED },
		{ "declared, too long", BODY(UTF8_8BIT, "\xc0\xbc"),
		    E_MESSAGE_MALFORMED },
		{ "declared, cut by the line", BODY(UTF8_8BIT, "\xc3\r\n\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "declared latin-1",
		    BODY("Content-Type: text/plain; charset=iso-8859-1\r\n"
			 "Content-Transfer-Encoding: 8bit",
			"\xe9"),
		    E_NONE },
		{ "binary of no text",
		    BODY("Content-Type: application/x-a\r\n"
			 "Content-Transfer-Encoding: 8bit",
			"\xe9"),
		    E_NONE },
		{ "said to be 7bit",
		    BODY("Content-Type: text/plain; charset=utf-8\r\n"
			 "Content-Transfer-Encoding: 7bit",
			"\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "no encoding",
		    BODY("Content-Type: text/plain; charset=utf-8", "\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "no charset",
		    BODY("Content-Type: text/html\r\n"
			 "Content-Transfer-Encoding: 8bit",
			"\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "charset us-ascii",
		    BODY("Content-Type: text/plain; charset=US-ASCII\r\n"
			 "Content-Transfer-Encoding: 8bit",
			"\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "in base64", BODY(BASE64, "YWJj\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "in quoted-printable", BODY(QP, "a\xc3\xa9"),
		    E_MESSAGE_MALFORMED },
		{ "multipart says nothing, its part does",
		    MIXED "--b\r\n" UTF8_8BIT "\r\n\r\n\xc3\xa9\r\n--b--\r\n",
		    E_NONE },
		{ "in the header of a part",
		    MIXED "--b\r\nContent-Type: application/x-a; "
			  "name=\"\xc3\xa9\"\r\n\r\nx\r\n--b--\r\n",
		    E_SMTPUTF8_NEEDED },
		{ "in the header of a message inside",
		    RFC822("Subject: \xc3\xa9\r\n"), E_SMTPUTF8_NEEDED },
	};

	(void)state;
	CHECK(facts);
}

static void
test_encodings(void **state)
{
	static const struct fact facts[] = {
		{ "base64", BODY(BASE64, "YWJj\r\nYWI=\r\n"), E_NONE },
		{ "base64, nothing", BODY(BASE64, ""), E_NONE },
		{ "base64 over lines", BODY(BASE64, "YW\r\nJj"), E_NONE },
		{ "base64, two =", BODY(BASE64, "YQ=="), E_NONE },
		{ "base64, one = missing", BODY(BASE64, "YQ="),
		    E_MESSAGE_MALFORMED },
		{ "base64 cut off", BODY(BASE64, "YWJ"), E_MESSAGE_MALFORMED },
		{ "base64 goes on behind =", BODY(BASE64, "YWI=YWJj"),
		    E_MESSAGE_MALFORMED },
		{ "base64 goes on in the next line",
		    BODY(BASE64, "YWI=\r\nYWJj"), E_MESSAGE_MALFORMED },
		{ "base64, = too early", BODY(BASE64, "Y==="),
		    E_MESSAGE_MALFORMED },
		{ "base64, another alphabet", BODY(BASE64, "YW-_"),
		    E_MESSAGE_MALFORMED },
		{ "base64 with text", BODY(BASE64, "YWJj!!!!"),
		    E_MESSAGE_MALFORMED },
		{ "quoted-printable", BODY(QP, "a=3D=c3=A9=\r\nb = =20\r\n"),
		    E_MESSAGE_MALFORMED },
		{ "quoted-printable, right", BODY(QP, "a=3D=c3=A9=\r\nb=20"),
		    E_NONE },
		{ "quoted-printable, soft break with space",
		    BODY(QP, "4111 1111 1111 1= \r\n111"),
		    E_MESSAGE_MALFORMED },
		{ "quoted-printable, soft break with tab",
		    BODY(QP, "a=\t\r\nb"), E_MESSAGE_MALFORMED },
		{ "quoted-printable, space at the end",
		    BODY(QP, "a \r\nb=3D \r\n"), E_NONE },
		{ "quoted-printable, bare =", BODY(QP, "<a href=\"x\">"),
		    E_MESSAGE_MALFORMED },
		{ "quoted-printable, one digit", BODY(QP, "a=3"),
		    E_MESSAGE_MALFORMED },
	};

	(void)state;
	CHECK(facts);
}

static void
test_hidden_files(void **state)
{
	static const struct fact facts[] = {
		{ "uuencode", OK "\r\nbegin 644 a.exe\r\n#86)C\r\n`\r\nend\r\n",
		    E_MESSAGE_MALFORMED },
		{ "uuencode further down",
		    OK "\r\nhello\r\n\r\nbegin 0755 a b\r\n#86)C\r\n",
		    E_MESSAGE_MALFORMED },
		{ "prose", OK "\r\nbegin 644 times, and then\r\nstop.\r\n",
		    E_NONE },
		{ "begin alone", OK "\r\nbegin 644 a\r\n\r\n#86)C\r\n",
		    E_NONE },
		{ "in a program text", OK "\r\nbegin\r\n#86)C\r\nend\r\n",
		    E_NONE },
		{ "base64 in text", OK "\r\nbegin-base64 644 a\r\nYQ==\r\n",
		    E_MESSAGE_MALFORMED },
		{ "yEnc", OK "\r\n=ybegin line=128 size=1 name=a.exe\r\nk\r\n",
		    E_MESSAGE_MALFORMED },
		{ "in an attachment that is no text",
		    BODY("Content-Type: application/x-a",
			"begin 644 a.exe\r\n#86)C\r\n`\r\nend"),
		    E_NONE },
		{ "TNEF",
		    BODY("Content-Type: application/ms-tnef\r\n" BASE64,
			"eJ8+Ig=="),
		    E_MESSAGE_MALFORMED },
		{ "TNEF by name",
		    BODY("Content-Type: application/octet-stream\r\n"
			 "Content-Disposition: attachment; "
			 "filename=WinMail.dat\r\n" BASE64,
			"eJ8+Ig=="),
		    E_MESSAGE_MALFORMED },
	};

	(void)state;
	CHECK(facts);
}

/* What stands once in a mail stands once in a mail inside it. */
static void
test_message_inside(void **state)
{
	static const struct fact facts[] = {
		{ "plain", RFC822("From: a@b.example\r\nSubject: x\r\n"),
		    E_NONE },
		{ "any number of hosts",
		    RFC822("Received: by a\r\nReceived: by b\r\n"), E_NONE },
		{ "two From",
		    RFC822("From: a@b.example\r\nFrom: c@d.example\r\n"),
		    E_MESSAGE_MALFORMED },
		{ "two subjects", RFC822("Subject: x\r\nsubject: y\r\n"),
		    E_MESSAGE_MALFORMED },
		{ "two types",
		    RFC822("Content-Type: text/plain\r\n"
			   "Content-Type: text/html\r\n"),
		    E_MESSAGE_MALFORMED },
		{ "space before the colon", RFC822("Subject : x\r\n"),
		    E_MESSAGE_MALFORMED },
		{ "its base64", RFC822("Content-Transfer-Encoding: base64\r\n"),
		    E_NONE }, /* "body" is four digits of base64 */
		{ "its two lines of no base64",
		    MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\n" BASE64
			  "\r\n\r\nYQ\r\n--b--\r\n",
		    E_MESSAGE_MALFORMED },
		{ "two From where none can be sent from",
		    MIXED "--b\r\nFrom: a@b\r\nFrom: c@d\r\n\r\n\r\n--b--\r\n",
		    E_NONE },
	};

	(void)state;
	CHECK(facts);
}

/* What comes first decides, wherever the pieces were cut. */
static void
test_first_fault_wins(void **state)
{
	static const struct fact facts[] = {
		{ "foreign From, then a bare LF",
		    "From: ceo@example.org\r\n\r\na\nb\r\n",
		    E_SENDER_MISMATCH },
		{ "bare LF in the header, then a foreign From",
		    "X: a\nb\r\nFrom: ceo@example.org\r\n\r\n",
		    E_MESSAGE_MALFORMED },
		{ "bare CR, then broken MIME",
		    MIXED "--b\r\nContent-Type: text/plain\r\n\r\na\rb\r\n"
			  "--b--\r\n--b--\r\n",
		    E_MESSAGE_MALFORMED },
		{ "8-bit header of a part, then a NUL-less bare LF",
		    MIXED "--b\r\nX: \xc3\xa9\r\n\r\na\nb\r\n--b--\r\n",
		    E_SMTPUTF8_NEEDED },
		{ "8-bit header, then a bare CR", OK "X: \xc3\xa9\r\n\r\na\rb",
		    E_SMTPUTF8_NEEDED },
		{ "two lines that end early", OK "\r\na\nb\rc\r\n",
		    E_MESSAGE_MALFORMED },
	};
	static const char foreign[] = "From: ceo@example.org\r\n\r\nxxxxxxxxx";
	static const char large[] = OK "\r\nxxxxxxxxxxxxxxxxxxxx\nx";
	struct str s = str_of(foreign);

	(void)state;
	CHECK(facts);
	assert_int_equal(run_limited(s, false, 30), E_SENDER_MISMATCH);
	assert_int_equal(run_limited(s, false, 20), E_PAYLOAD_TOO_LARGE);
	s = str_of(large);
	assert_int_equal(run_limited(s, false, s.n), E_MESSAGE_MALFORMED);
	assert_int_equal(run_limited(s, false, s.n - 3), E_PAYLOAD_TOO_LARGE);
}

/* A last line without its end is given one, which counts. */
static void
test_size_is_exact(void **state)
{
	struct str s = str_lit(OK "\r\nabc"), whole = str_lit(OK "\r\nabc\r\n");

	(void)state;
	assert_int_equal(run_limited(whole, false, whole.n), E_NONE);
	assert_int_equal(
	    run_limited(whole, false, whole.n - 1), E_PAYLOAD_TOO_LARGE);
	assert_int_equal(run_limited(s, false, whole.n), E_NONE);
	assert_int_equal(
	    run_limited(s, false, whole.n - 1), E_PAYLOAD_TOO_LARGE);
}

/* The quick look at a text agrees with that at each character. */
static void
test_utf8_valid(void **state)
{
	static const unsigned char edges[] = { 0x00, 0x7f, 0x80, 0x8f, 0x90,
		0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec,
		0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff };
	enum { N = sizeof(edges) };
	char text[4];
	struct str rest;
	size_t i, n;
	bool valid;

	(void)state;
	assert_true(utf8_valid((struct str){ NULL, 0 }));
	for (i = 0; i < (size_t)N * N * N * N; i++) {
		text[0] = (char)edges[i % N];
		text[1] = (char)edges[i / N % N];
		text[2] = (char)edges[i / N / N % N];
		text[3] = (char)edges[i / N / N / N];
		for (n = 1; n <= sizeof(text); n++) {
			rest = (struct str){ text, n };
			for (valid = true; valid && rest.n > 0;)
				valid = utf8_next(&rest) >= 0;
			assert_int_equal(
			    utf8_valid((struct str){ text, n }), valid);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8_valid),
		cmocka_unit_test(test_eight_bit),
		cmocka_unit_test(test_encodings),
		cmocka_unit_test(test_hidden_files),
		cmocka_unit_test(test_message_inside),
		cmocka_unit_test(test_first_fault_wins),
		cmocka_unit_test(test_size_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
