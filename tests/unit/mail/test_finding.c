/* SPDX-License-Identifier: ISC */
/*
 * Each finding: what has it, and its nearest innocent neighbours that do not.
 * What looks like a secret here is made up, and cut in two in this file.
 */
#include "tests/unit/mail/freezing.h"

#include "mail/finding.h"
#include "tests/unit/mail/wanted.h"

/* ---- names */

static void
test_headers(void **state)
{
	static const struct want all[] = {
		{ "Invoice \xe2\x80\xae"
		  "fdp.exe",
		    F(HEADER_CHARACTERS) },
		{ "Pay\xe2\x80\x8b"
		  "Pal",
		    F(HEADER_CHARACTERS) },
		{ "a\xe2\x80\x8c"
		  "b",
		    F(HEADER_CHARACTERS) },
		{ "x\xf3\xa0\x81\xa9", F(HEADER_CHARACTERS) },
		{ "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae", 0 },
		{ "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb hi", 0 },
		{ "Re: Gr\xc3\xbc\xc3\x9f"
		  "e",
		    0 },
		{ "Plain", 0 },
		{ "", 0 },
	};
	struct finding_marks m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		m.bits = 0;
		finding_search_header(str_of(all[i].text), finding_note, &m);
		differs(all[i].text, m.bits, all[i].bits);
	}
}

static void
test_files(void **state)
{
	static const struct {
		const char *name, *type;
		uint64_t bits;
	} all[] = {
		{ "report.pdf", "application/pdf", 0 },
		{ "Invoice 2026.xlsx", "application/octet-stream", 0 },
		{ "e-invoice.xml", "application/xml", 0 },
		{ "notes", "text/plain", 0 },
		{ "", "image/png", 0 },
		{ "exe", "application/octet-stream", 0 },
		{ "a.exe scr", "x/y", 0 },
		{ "a.msi msp", "x/y", 0 }, /* so they stand in the list */
		{ "a. exe", "x/y", 0 },
		{ "my.executive.summary", "text/plain", 0 },
		{ "invoice.pdf.exe", "application/pdf", F(FILE_PROGRAM) },
		{ "INVOICE.EXE", "x/y", F(FILE_PROGRAM) },
		{ "a.js. .", "text/plain", F(FILE_PROGRAM) },
		{ "a.lnk", "x/y", F(FILE_PROGRAM) },
		{ "x", "application/x-msdownload", F(FILE_PROGRAM) },
		{ "a.pdf          .scr", "x/y",
		    F(FILE_PROGRAM) | F(FILE_NAME) },
		{ "a\xe2\x80\xae"
		  "fdp.txt",
		    "text/plain", F(FILE_NAME) },
		{ "r\xc3\xa9sum\xc3\xa9.pdf", "application/pdf", 0 },
		{ "login.html", "text/html", F(FILE_PAGE) },
		{ "logo.svg", "image/svg+xml", F(FILE_PAGE) },
		{ "book.xlsm", "x/y", F(FILE_MACRO) },
		{ "../a.txt", "text/plain", F(FILE_NAME) },
		{ "a.txt\xef\xbf\xbd.b", "text/plain", F(FILE_NAME) },
		{ "a/b..c.txt", "text/plain", 0 },
		{ "old.xla", "x/y", F(FILE_MACRO) },
		{ "desk.rdp", "x/y", F(FILE_PROGRAM) },
		{ "book.xlsx",
		    "application/vnd.ms-excel.sheet."
		    "macroenabled.12",
		    F(FILE_MACRO) },
		{ "a.zip", "application/zip", F(FILE_ARCHIVE) },
		{ "a.tar.gz", "x/y", F(FILE_ARCHIVE) },
	};
	struct finding_marks m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		m.bits = 0;
		finding_search_file(
		    str_of(all[i].name), all[i].type, finding_note, &m);
		differs(all[i].name, m.bits, all[i].bits);
	}
	assert_true(finding_name_runs(str_lit("x/y/setup.EXE")));
	assert_false(finding_name_runs(str_lit("exe/readme.txt")));
}

static void
test_domains(void **state)
{
	static const struct {
		const char *rcpt, *own;
		uint64_t bits;
	} all[] = {
		{ "ann@example.net", "example.org", 0 },
		{ "ann@example.org", "example.org", 0 },
		{ "ann@mx1.example.org", "mx2.example.org", 0 },
		{ "ann@Example.ORG", "example.org", 0 },
		{ "ann@exarnple.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@examp1e.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@exmaple.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@examplee.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@exampl.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@mail.examp1e.org", "example.org", F(DOMAIN_LOOKALIKE) },
		{ "ann@examp1e.co.uk", "example.co.uk", F(DOMAIN_LOOKALIKE) },
		{ "ann@a.example.co.uk", "example.co.uk", 0 },
		{ "ann@other.co.uk", "example.co.uk", 0 },
		{ "ann@example.co", "example.com", F(DOMAIN_LOOKALIKE) },
		{ "ann@example.de", "example.be", 0 }, /* one owner, mostly */
		{ "ann@sample.org", "example.org", 0 },
		{ "ann@abd.com", "abc.com", 0 }, /* too short to say */
		{ "ann@xn--mnchen-3ya.example", "example.org", F(DOMAIN_IDN) },
		{ "ann@m\xc3\xbcnchen.example", "example.org", F(DOMAIN_IDN) },
		/* p, Cyrillic a, ypal */
		{ "ann@p\xd0\xb0ypal.com", "example.org",
		    F(DOMAIN_IDN) | F(DOMAIN_MIXED) },
		{ "ann@xn--pypal-4ve.com", "example.org",
		    F(DOMAIN_IDN) | F(DOMAIN_MIXED) },
		{ "ann@\xe6\x9d\xb1\xe4\xba\xac\xe3\x83\x86\xe3\x83\xac"
		  "tv.example",
		    "example.org", F(DOMAIN_IDN) }, /* Japanese */
		{ "no address", "example.org", 0 },
	};
	struct finding_marks m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		m.bits = 0;
		finding_search_rcpt(
		    str_of(all[i].rcpt), str_of(all[i].own), finding_note, &m);
		differs(all[i].rcpt, m.bits, all[i].bits);
	}
}

/* ---- whole messages */

struct mail {
	const char *text;
	uint64_t bits;
	bool partial;
};

static struct freeze_info
frozen_cut(struct str s, size_t cut, size_t step)
{
	struct freeze *f = start(true, SIZE_MAX_HERE);
	struct freeze_info info;
	size_t i, n;

	for (i = 0; i < s.n; i += n) {
		n = i < cut ? cut - i : s.n - i;
		if (n > step)
			n = step;
		(void)freeze_feed(f, s.p + i, n);
	}
	if (freeze_finish(f) != E_NONE)
		print_message("%s\n", freeze_why(f));
	assert_int_equal(freeze_finish(f), E_NONE);
	info = *freeze_info(f);
	freeze_free(f);
	return info;
}

/* The same however the bytes come. */
static void
mails(const struct mail *w, size_t n)
{
	size_t i, cut;

	for (i = 0; i < n; i++) {
		struct str s = str_of(w[i].text);

		for (cut = 0; cut < s.n; cut++) {
			struct freeze_info got =
			    frozen_cut(s, cut, cut == 0 ? 1 : s.n);

			differs(s.p, got.findings.bits, w[i].bits);
			assert_int_equal(got.findings_partial, w[i].partial);
		}
	}
}
#define MAILS(t) mails(t, sizeof(t) / sizeof((t)[0]))

#define TEXT OK "\r\n"
#define B "\r\n--b\r\n"
#define END "\r\n--b--\r\n"
#define PEM                                                                    \
	"-----BEGIN EC "                                                       \
	"PRIVATE KEY-----"
#define BASE64 "Content-Transfer-Encoding: base64\r\n"
#define QP "Content-Transfer-Encoding: quoted-printable\r\n"

static void
test_mails(void **state)
{
	static const struct mail all[] = {
		{ TEXT "Hello Ann,\r\n\r\nsee you.\r\n", 0, false },
		{ TEXT, 0, false },
		{ FROM TO "Reply-To: bot@example.org\r\n\r\nx", 0, false },
		{ FROM TO "Reply-To: help@example.org\r\n\r\nx",
		    F(REPLY_MAILBOX), false },
		{ FROM TO "Reply-To: a@desk.example.org\r\n\r\nx",
		    F(REPLY_MAILBOX), false },
		{ FROM TO "Reply-To: <a@badexample.org>\r\n\r\nx",
		    F(REPLY_DOMAIN), false },
		{ FROM TO "Reply-To: bot@example.org, a@examp1e.org\r\n\r\nx",
		    F(REPLY_DOMAIN) | F(DOMAIN_LOOKALIKE), false },
		{ FROM TO "Subject: =?utf-8?B?4oCuYWJj?=\r\n\r\nx",
		    F(HEADER_CHARACTERS), false },
		{ FROM "Cc: =?utf-8?Q?A=E2=80=8Bnn?= <ann@example.net>\r\n"
		       "\r\nx",
		    F(HEADER_CHARACTERS), false },
		{ FROM "To: =?utf-8?Q?J=C3=BCrgen?= <ann@example.net>\r\n"
		       "\r\nx",
		    0, false },
		{ FROM TO "Mail-Followup-To: a@badexample.org\r\n\r\nx",
		    F(REPLY_DOMAIN), false },
		/* what goes on in the next line is read on the page only */
		{ OK "Content-Type: text/plain; format=flowed; delsp=yes\r\n"
		     "\r\nsee \r\nyou\r\n",
		    0, true },
		{ OK "Content-Type: text/plain; format=flowed\r\n"
		     "\r\nsee \r\nyou\r\n",
		    0, false },
		{ TEXT PEM "\r\n", F(PRIVATE_KEY), false },
		{ TEXT PEM, F(PRIVATE_KEY), false },
		/* the same in base64, in odd lines; and cut by soft breaks */
		{ OK BASE64 "\r\nLS0tLS1CRUdJTiBFQy\r\nBQUklWQVRFIEtFWS0tL"
			    "S0t\r\n",
		    F(PRIVATE_KEY), false },
		{ OK QP "\r\n-----BEGIN=\r\n EC PRIV=41TE KE=\r\nY-----\r\n",
		    F(PRIVATE_KEY), false },
		{ OK QP "\r\n411=\r\n1 1111 1111 1111=\r\n", F(CARD_NUMBER),
		    false },
		{ OK "Content-Type: text/plain; charset=koi8-r\r\n\r\nx\r\n",
		    F(TEXT_UNREAD), true },
		{ OK "Content-Type: text/plain; charset=utf-8\r\n" BASE64
		     "\r\ncGFzc+KAi3dvcmQ=\r\n",
		    F(TEXT_INVISIBLE), false },
	};

	(void)state;
	MAILS(all);
}

static void
test_parts(void **state)
{
	static const struct mail all[] = {
		{ MIXED "--b\r\n\r\nHello" B "Content-Type: text/html\r\n\r\n"
			"<p>4111 1111 1111 1111</p>" END,
		    F(HTML) | F(CARD_NUMBER), true },
		{ MIXED "--b\r\n\r\nHello" B
			"Content-Type: application/pdf; name=a.pdf\r\n" BASE64
			"\r\nJVBERg==" END,
		    F(FILE), true },
		{ MIXED "--b\r\n\r\nHello" B
			"Content-Disposition: attachment; filename=a.exe\r\n"
			"\r\nMZ" END,
		    F(FILE) | F(FILE_PROGRAM), true },
		/* a text file is searched like text */
		{ MIXED "--b\r\n\r\nHello" B
			"Content-Disposition: attachment; filename=id\r\n"
			"\r\n" PEM END,
		    F(FILE) | F(PRIVATE_KEY), true },
		{ MIXED "--b\r\n\r\nHello" B
			"Content-Type: image/png\r\nContent-ID: <l@x>\r\n"
			"Content-Disposition: inline\r\n" BASE64
			"\r\niVBORw0KGgo=" END,
		    0, true },
		{ MIXED "--b\r\n\r\nHello" B
			"Content-Type: message/rfc822\r\n\r\n"
			"Subject: x\r\n\r\n" PEM END,
		    F(FILE_MESSAGE) | F(PRIVATE_KEY), true },
		{ MIXED "Odd.\r\n--b\r\n\r\nHello" END, F(STRAY_TEXT), true },
		{ MIXED "--b\r\n\r\nHello" END "Odd.\r\n", F(STRAY_TEXT),
		    true },
		/* a number does not go on in the next part */
		{ MIXED "--b\r\n\r\n4111 1111" B "\r\n1111 1111" END, 0,
		    false },
	};

	(void)state;
	MAILS(all);
}

/* Whatever is found, nothing is refused or changed for it. */
static void
test_lets_pass(void **state)
{
	static const struct fact facts[] = {
		{ "secret", TEXT PEM "\r\n4111 1111 1111 1111\r\n", E_NONE },
		{ "reply", FROM TO "Reply-To: a@examp1e.org\r\n\r\nx", E_NONE },
		{ "program",
		    MIXED "--b\r\nContent-Disposition: attachment; "
			  "filename=a.exe\r\n\r\nMZ" END,
		    E_NONE },
	};

	(void)state;
	CHECK(facts);
}

/* Where two windows meet nothing is missed; past the limit it is said. */
static void
test_long(void **state)
{
	static const char line[] = "The quick brown fox jumps over it.\r\n";
	struct freeze_info got;
	size_t at;

	(void)state;
	for (at = 430; at < 480; at++) {
		struct buf b = { 0 };
		size_t i;

		buf_puts(&b, TEXT);
		for (i = 0; i < 900; i++)
			buf_puts(&b, i == at ? PEM "\r\n" : line);
		got = frozen_cut(buf_str(&b), 0, 4000);
		differs("long", got.findings.bits, F(PRIVATE_KEY));
		assert_false(got.findings_partial);
		if (at == 430) {
			for (; b.n < FINDING_SCAN_MAX + 5000;)
				buf_puts(&b, line);
			got = frozen_cut(buf_str(&b), 0, 4000);
			differs("longer", got.findings.bits,
			    F(PRIVATE_KEY) | F(TEXT_UNREAD));
			assert_true(got.findings_partial);
		}
		buf_free(&b);
	}
}

/* ---- risk */

static void
test_risk(void **state)
{
	struct finding_marks m = { 0 }, more;
	unsigned seed = 1;
	int i, n;

	(void)state;
	assert_int_equal(finding_risk(&m), FINDING_RISK_NONE);
	assert_int_equal(finding_max(&m), 0);
	for (i = 0; i < FINDING_COUNT; i++) {
		int w = finding_weight(i);

		assert_in_range(w, 1, 100);
		assert_true(w < 25 || w >= 50);
		more.bits = UINT64_C(1) << i;
		assert_int_equal(finding_max(&more), w);
		assert_true(finding_risk(&more) >= w);
		/* ordinary findings leave an ordinary mail below high */
		assert_true(w >= 50 || finding_risk(&more) < 50);
	}
	for (n = 0; n < 20000; n++) {
		seed = seed * 1103515245 + 12345;
		more = m;
		finding_mark(&more, (int)(seed >> 8) % FINDING_COUNT);
		assert_true(finding_risk(&more) >= finding_risk(&m));
		assert_true(finding_risk(&more) >= finding_max(&more));
		assert_true(finding_risk(&more) <= 100);
		m = n % 9 == 0 ? (struct finding_marks){ 0 } : more;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_domains),
		cmocka_unit_test(test_mails),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_lets_pass),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_risk),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
