/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "admin/diff.h"
#include "admin/html.h"
#include "admin/message_read.h"
#include "admin/narrow.h"
#include "admin/view.h"
#include "admin/view_watch.h"
#include "base/buf.h"

#define NASTY "<img src=x onerror=alert(1)></script><script>\"'&"

static void
expect(struct buf *out, const char *want)
{
	assert_string_equal(buf_cstr(out), want);
	buf_clear(out);
}

static void
test_escapes(void **state)
{
	static const struct {
		const char *in, *text, *attr;
	} cases[] = {
		{ "plain", "plain", "plain" },
		{ "<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;",
		    "&lt;b&gt;&amp;&quot;&#39;" },
		{ "J\xc3\xa1na", "J\xc3\xa1na", "J\xc3\xa1na" },
		/* right-to-left override, zero width space */
		{ "a\xe2\x80\xae"
		  "b",
		    "a<span class=\"odd\">U+202E</span>b", "a[U+202E]b" },
		{ "\xe2\x80\x8b", "<span class=\"odd\">U+200B</span>",
		    "[U+200B]" },
		/* broken, overlong, surrogate */
		{ "\xff", "<span class=\"odd\">\\xFF</span>", "[\\xFF]" },
		{ "\xc0\xaf",
		    "<span class=\"odd\">\\xC0</span>"
		    "<span class=\"odd\">\\xAF</span>",
		    "[\\xC0][\\xAF]" },
		{ "\xc3", "<span class=\"odd\">\\xC3</span>", "[\\xC3]" },
		/* one line stays one line */
		{ "a\nb", "a<span class=\"odd\">U+000A</span>b", "a[U+000A]b" },
		{ "\x1b[1m", "<span class=\"odd\">U+001B</span>[1m",
		    "[U+001B][1m" },
	};
	struct buf out = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HTML(&out, TEXT(cases[i].in));
		expect(&out, cases[i].text);
		HTML(&out, ATTR(cases[i].in));
		expect(&out, cases[i].attr);
	}
	HTML(&out, LINES("a\r\nb\tc"));
	expect(&out, "a\nb\tc");
	HTML(&out, PATH("a/b?c=d&e #\"<\xc3\xa1"));
	expect(&out, "a%2Fb%3Fc%3Dd%26e%20%23%22%3C%C3%A1");
	HTML(&out, LIT("<p>"), NUM(-7), TEXT(NULL), LIT_IF(0, "x"));
	expect(&out, "<p>-7");
	buf_free(&out);
}

static const struct view_tenant tenants[] = { { 1, 1, NASTY },
	{ 2, 1, NASTY } };
static const struct view_only only = { .tenant = 1,
	.slug = NASTY,
	.tenants = tenants,
	.count = 2,
	.back = NASTY };
static const struct view_pause pause = {
	.level = "inbox", .name = NASTY, .who = NASTY, .reason = NASTY
};
static const struct view_shell shell = { .title = NASTY,
	.operator_name = NASTY,
	.csrf = NASTY,
	.notice = NASTY,
	.only = &only,
	.pauses = &pause,
	.pause_count = 1 };
static const struct view_queue_row row = { .id = NASTY,
	.inbox = NASTY,
	.to = NASTY,
	.subject = NASTY,
	.reasons = NASTY,
	.count = 3 };
static char found[] = NASTY, terms[] = NASTY;
static const struct narrow narrow = { found, terms };
static const struct view_queue queue = { .rows = &row,
	.row_count = 1,
	.query = NASTY,
	.narrow = &narrow,
	.inbox = NASTY,
	.box = NASTY,
	.next = NASTY };
static const struct view_history_row past = { .id = NASTY,
	.inbox = NASTY,
	.to = NASTY,
	.subject = NASTY,
	.state = NASTY };
static const struct view_history history = { .rows = &past,
	.row_count = 1,
	.show = NASTY,
	.since = NASTY,
	.query = NASTY,
	.next = NASTY };
static const struct view_rcpt rcpt = { .address = NASTY "@" NASTY,
	.name = NASTY,
	.unicode = NASTY,
	.delivery = 6,
	.reply = NASTY };
static const struct view_header header = { NASTY, NASTY, false };
static const struct view_file file = { .name = NASTY,
	.type = NASTY,
	.sniffed = NASTY,
	.sha256 = NASTY,
	.mismatch = true };
static const struct view_part part = { .label = NASTY,
	.type = NASTY,
	.text = NASTY,
	.text_n = sizeof(NASTY) - 1,
	.problem = NASTY,
	.code = true };
static struct diff_run words = { DIFF_ONLY_B, { NASTY, sizeof(NASTY) - 1 } };
static const struct diff differ = { &words, 1, false };
static struct view_message m = { .id = NASTY,
	.diff = &differ,
	.inbox = NASTY,
	.subject = NASTY,
	.state = "held",
	.digest = NASTY,
	.from = NASTY,
	.reply_to = NASTY,
	.mail_from = NASTY,
	.rcpts = &rcpt,
	.rcpt_count = 1,
	.headers = &header,
	.header_count = 1,
	.files = &file,
	.file_count = 1,
	.parts = &part,
	.part_count = 1,
	.raw = NASTY,
	.raw_n = sizeof(NASTY) - 1,
	.purpose = NASTY,
	.note = NASTY,
	.why = NASTY,
	.why_not = NASTY,
	.once = NASTY,
	.next = NASTY,
	.may_approve = true,
	.may_reject = true,
	.around = &row,
	.around_count = 1,
	.typed_note = NASTY };
/* No view lets what a message says become markup. */
static void
test_views(void **state)
{
	struct buf out = { 0 };
	int tab;

	(void)state;
	view_queue(&out, &shell, &queue);
	view_history(&out, &shell, &history);
	for (tab = VIEW_TAB_TEXT; tab <= VIEW_TAB_RAW; tab++) {
		m.tab = (enum view_tab)tab;
		view_message(&out, &shell, &m);
	}
	m.state = "uncertain";
	m.may_settle = m.may_cancel = true;
	view_message(&out, &shell, &m);
	assert_non_null(strstr(buf_cstr(&out), "name=\"outcome\""));
	assert_null(strstr(buf_cstr(&out), "<img"));
	assert_null(strstr(buf_cstr(&out), "<script>"));
	assert_null(strstr(buf_cstr(&out), "x onerror=alert(1)></"));
	assert_null(strstr(buf_cstr(&out), "\"'&"));
	assert_non_null(strstr(buf_cstr(&out), "&lt;img src=x"));
	buf_free(&out);
}

static void
test_sniff(void **state)
{
	(void)state;
	assert_string_equal(sniff_type(str_lit("%PDF-1.7")), "PDF document");
	assert_string_equal(sniff_type(str_lit("MZ\x90")), "Windows program");
	assert_string_equal(
	    sniff_type(str_lit(" \n<SVG onload=x>")), "HTML, SVG or XML");
	assert_string_equal(sniff_type(str_lit("")), "empty");
	assert_string_equal(sniff_type(str_lit("hello")), "text");
	assert_false(
	    sniff_agrees("application/pdf", "a.pdf", "Windows program"));
	assert_false(
	    sniff_agrees("application/octet-stream", "a", "Windows program"));
	assert_true(sniff_agrees("application/pdf", "a.pdf", "PDF document"));
	assert_false(sniff_agrees("application/pdf", "a.pdf", "unknown bytes"));
	assert_false(sniff_agrees("image/png", "a.png", "text"));
	assert_true(sniff_agrees("text/csv", "a.csv", "text"));
}

/* Decoded text, files with hash, named addresses: from bytes alone. */
static void
test_read(void **state)
{
	static const char bytes[] =
	    "From: A <a@agents.example.com>\r\nTo: J <jana@example.org>\r\n"
	    "Cc: b@example.org\r\nSubject: =?utf-8?q?H=C3=A9?=\r\n"
	    "MIME-Version: 1.0\r\n"
	    "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
	    "--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
	    "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
	    "caf=E9 =\r\nend\r\n"
	    "--b\r\nContent-Type: application/pdf; name=x.pdf\r\n"
	    "Content-Disposition: attachment; filename=x.pdf\r\n"
	    "Content-Transfer-Encoding: base64\r\n\r\nYWJj\r\n--b--\r\n";
	struct message_read r = { .bytes = { bytes, sizeof(bytes) - 1 } };
	struct buf leaf = { 0 };
	struct arena mem = { 0 };
	char *name = NULL;

	(void)state;
	message_read(&r);
	assert_null(r.problem);
	assert_string_equal(r.subject, "H\xc3\xa9");
	assert_int_equal(r.named_count, 2);
	assert_string_equal(r.named[1].canonical, "b@example.org");
	assert_int_equal(r.part_count, 1);
	assert_string_equal(r.parts[0].text, "caf\xc3\xa9 end");
	assert_int_equal(r.file_count, 1);
	assert_string_equal(r.files[0].sha256,
	    "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
	assert_true(r.files[0].mismatch);
	assert_true(message_read_leaf(
	    r.bytes, (unsigned)r.files[0].index, &mem, &leaf, &name));
	assert_string_equal(buf_cstr(&leaf), "abc");
	assert_string_equal(name, "x.pdf");
	message_read_clear(&r);
	arena_free(&mem);
	buf_free(&leaf);
}

/* The largest page of the log stays within the budget of elements. */
static void
test_audit_is_bounded(void **state)
{
	char who[] = "op:1@ctl:root", name[] = "alice", slug[] = "acme",
	     event[] = "message.submitted", detail[] = "{\"n\": 1}";
	struct watch_row log[VIEW_AUDIT_ROWS];
	struct watch_rows rows = { .row = log, .n = VIEW_AUDIT_ROWS };
	struct view_audit audit = { .rows = &rows, .next = "1.2.3" };
	struct view_shell around = { .title = "Audit",
		.operator_name = "alice",
		.csrf = "c",
		.admin = true,
		.audits = true,
		.decides = true };
	struct buf out = { 0 };
	size_t i, elements = 0;

	(void)state;
	for (i = 0; i < VIEW_AUDIT_ROWS; i++)
		log[i] = (struct watch_row){ .at_us = 1,
			.actor = who,
			.by_name = name,
			.tenant_slug = slug,
			.event = event,
			.detail = detail,
			.has_message = true };
	view_audit(&out, &around, &audit);
	for (i = 0; i + 1 < out.n; i++)
		elements += out.p[i] == '<' && out.p[i + 1] != '/';
	assert_true(elements > 15 * VIEW_AUDIT_ROWS);
	assert_true(elements <= 1500);
	buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_views),
		cmocka_unit_test(test_sniff),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_audit_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
