/* SPDX-License-Identifier: ISC */
/* What hosts on the way do changes no hash; what a forger does changes one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "mail/header.h"
#include "mail/identity.h"
#include "mail/report.h"

struct hashes {
	unsigned char body[32], head[32], rcpt[IDENTITY_RCPT];
};

static struct hashes
hash(const char *text, size_t cut)
{
	struct identity_scan *s = identity_scan_new(true);
	const unsigned char salt[IDENTITY_SALT] = { 7 };
	size_t n = strlen(text);
	struct hashes h;
	struct str head;

	identity_scan_add(s, text, cut);
	identity_scan_add(s, text + cut, n - cut);
	identity_scan_end(s, h.body, &head);
	identity_head_hash(h.head, head, str_lit("x-a"));
	identity_rcpt_hash(h.rcpt, salt, str_lit("Ann@X.example"), head);
	identity_scan_free(s);
	return h;
}

#define HEAD "From: <bot@x.example>\r\nTo: <ann@x.example>\r\nSubject: a b\r\n"

static void
test_same(void **state)
{
	static const char *const same[] = {
		HEAD "\r\none\r\n\r\ntwo\r\n",
		HEAD "\r\none\r\n\r\ntwo", /* no last line end */
		HEAD "\r\none\r\n\r\ntwo\r\n\r\n\r\n", /* empty ones after */
		"Received: x\r\n y\r\n" HEAD "\r\none\r\n\r\ntwo\r\n",
		"X-B: 1\r\n" HEAD "Other: 1\r\nX-Spam-Score: 1\r\n"
		"Arc-Seal: 1\r\nContent-Length: 9\r\n\r\none\r\n\r\ntwo\r\n",
		"From: <bot@x.example>\nTo: <ann@x.example>\nSubject: a b\n"
		"\none\n\ntwo\n",
		"from:<bot@x.example>\r\nTO: <ann@x.example>\r\nsubject: a\r\n"
		"  b \r\n\r\none\r\n\r\ntwo\r\n",
	};
	struct hashes want = hash(same[0], 0), got;
	size_t i, cut;

	(void)state;
	for (i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		for (cut = 0; cut <= strlen(same[i]); cut++) {
			got = hash(same[i], cut);
			assert_memory_equal(got.body, want.body, 32);
			if (i == 6) /* "From:<" has other words */
				continue;
			assert_memory_equal(got.head, want.head, 32);
			assert_memory_equal(got.rcpt, want.rcpt, IDENTITY_RCPT);
		}
	}
}

static void
test_other(void **state)
{
	static const char *const other[] = {
		HEAD "\r\none\r\ntwo\r\n",
		HEAD "\r\none\r\n\r\ntwo \r\n",
		HEAD "\r\none\r\n\r\n\r\ntwo\r\n",
		HEAD "\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "\r\none\r\r\n\r\ntwo\r\n",
		HEAD "Cc: <eve@x.example>\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "Subject: a b\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "X-A: 1\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "x-a : 1\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "Content-ID: <a@b>\r\n\r\none\r\n\r\ntwo\r\n",
		HEAD "LIST-Any: 1\r\n\r\none\r\n\r\ntwo\r\n",
		"Bcc: <eve@x.example>\r\n" HEAD "\r\none\r\n\r\ntwo\r\n",
		"From: <bot@x.example>\r\nTo: <ann@x.example>\r\n"
		"Subject: a c\r\n\r\none\r\n\r\ntwo\r\n",
	};
	struct hashes want = hash(HEAD "\r\none\r\n\r\ntwo\r\n", 0), got;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		got = hash(other[i], 0);
		assert_true(memcmp(got.body, want.body, 32) != 0 ||
			    memcmp(got.head, want.head, 32) != 0);
	}
}

#define MORE(head, wanted)                                                     \
	do {                                                                   \
		struct buf b = { 0 };                                          \
		identity_more(&b, str_lit(head));                              \
		assert_string_equal(buf_cstr(&b), wanted);                     \
		buf_free(&b);                                                  \
	} while (0)

/* What is covered only because it is there. */
static void
test_names(void **state)
{
	struct buf head = { 0 }, more = { 0 };
	size_t i;

	(void)state;
	MORE("", "");
	MORE(HEAD, "");
	MORE("Received: x\r\nX-Spam-A: 1\r\nDKIM-Signature: x\r\n", "");
	MORE("X-B: 1\r\n" HEAD "X-a : 1\r\nx-b:\r\n 2\r\nUser-Agent: 1\r\n",
	    "x-b:x-a:user-agent");
	/* As many as there is room for, then all. */
	for (i = 0; more.n == 0 || more.p[0] != '*'; i++) {
		assert_true(more.n <= IDENTITY_MORE_MAX);
		buf_printf(&head, "X-Name-%03zu: 1\r\n", i);
		buf_clear(&more);
		identity_more(&more, buf_str(&head));
	}
	assert_int_equal(more.n, 1);
	assert_int_equal(i, (IDENTITY_MORE_MAX + 1) / 11 + 1);
	assert_true(identity_covers(str_lit("Any"), buf_str(&more)));
	assert_false(identity_covers(str_lit("Received"), buf_str(&more)));
	assert_false(identity_covers(str_lit("Any"), str_lit("an:anyone")));
	buf_free(&head);
	buf_free(&more);
}

/* Each claim as it stands: no line end in the Message-ID. */
static void
test_claims(void **state)
{
	const struct str rcpt = str_lit("ann@x.example");
	const struct identity id = { .inbox = str_lit("b\"ot@x.example"),
		.by_person = true,
		.approval = "msg_x.2.3",
		.approved_us = 1790000000999999,
		.front =
		    str_lit("List-Unsubscribe:\r\n <https://u.example>\r\n"),
		.head = str_lit(HEAD "Message-ID:\r\n  <one@x.example> \r\n"
				     "X-A\"b: 1\r\n"),
		.rcpt = &rcpt,
		.rcpt_count = 1 };
	static const char want[] =
	    "{\"inbox\":\"b\\u0022ot@x.example\",\"reviewed\":\"human\","
	    "\"approval\":\"msg_x.2.3\",\"approved_at\":1790000000,"
	    "\"message_id\":\"<one@x.example>\",\"body_sha256\":\""
	    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
	    "\"header_sha256\":\"-pamTZrd3-bFKDHc_wNu6DvDN09nCUbXKKB7JmgnJu8\","
	    "\"header_more\":\"x-a\\u0022b\",\"ai_generated\":true,"
	    "\"salt\":\"AAAAAAAAAAAAAAAA\","
	    "\"recipients\":[\"gqep5aRUR8aLlKm7jU374w\"]}";
	struct buf out = { 0 };

	(void)state;
	identity_claims(&out, &id);
	assert_string_equal(buf_cstr(&out), want);
	buf_free(&out);
}

static void
test_who_is_visible(void **state)
{
	const struct str head =
	    str_lit("To: Ann <ann@x.example>,\r\n \"b, c\" <bob@x.example>\r\n"
		    "Cc: group: carl@x.example;\r\nSubject: eve@x.example\r\n");

	(void)state;
	assert_true(identity_is_visible(head, str_lit("ANN@X.example")));
	assert_true(identity_is_visible(head, str_lit("bob@x.example")));
	assert_true(identity_is_visible(head, str_lit("carl@x.example")));
	assert_false(identity_is_visible(head, str_lit("eve@x.example")));
	assert_false(identity_is_visible(head, str_lit("nn@x.example")));
}

/* A peer's words stay in their field, and no line is longer than 998. */
static void
test_a_report_is_clean(void **state)
{
	char said[1024];
	struct report_rcpt to = { .address = str_lit("ann@x.example"),
		.code = 550,
		.enhanced = str_lit("5.7.1"),
		.text = { said, sizeof(said) } };
	struct report r = { .kind = REPORT_FAILED,
		.hostname = str_lit("gate.example"),
		.inbox = str_lit("bot@x.example"),
		.id = "msg_x",
		.remote = "mx.example",
		.rcpt = &to,
		.rcpt_count = 1,
		.head = str_lit("Subject: x\r\n") };
	struct buf out = { 0 };
	struct str rest, line;

	(void)state;
	memset(said, 'y', sizeof(said));
	memcpy(said, "a\r\nX-Evil: 1\r\n\r\n--=_msg_x_report\x1b\xff", 35);
	report_build(&out, &r);
	rest = buf_str(&out);
	while (rest.n > 0) {
		line = str_split(&rest, '\n');
		assert_true(line.n <= 999);
		assert_false(str_starts(line, str_lit("X-Evil")));
		assert_false(str_has_8bit(line));
	}
	assert_non_null(strstr(buf_cstr(&out), "550 5.7.1 a??X-Evil: 1"));
	buf_free(&out);
}

/* Of a dot that nobody answered it is not said that nothing arrived. */
static void
test_a_delay_in_doubt_says_so(void **state)
{
	struct report_rcpt to = { .address = str_lit("ann@x.example"),
		.text = str_lit("no answer") };
	struct report r = { .kind = REPORT_DELAYED,
		.hostname = str_lit("mx.example"),
		.inbox = str_lit("bot@agents.example"),
		.id = "msg_x",
		.remote = "",
		.head = str_lit("Subject: x\r\n"),
		.rcpt = &to,
		.rcpt_count = 1 };
	struct buf out = { 0 };

	(void)state;
	report_build(&out, &r);
	assert_non_null(strstr(buf_cstr(&out), "is not delivered yet"));
	buf_clear(&out);
	r.doubt = true;
	report_build(&out, &r);
	assert_null(strstr(buf_cstr(&out), "is not delivered yet"));
	assert_non_null(strstr(buf_cstr(&out), "may have arrived"));
	assert_non_null(strstr(buf_cstr(&out), "Do not send it again."));
	buf_free(&out);
}

/* The database stores reports up to a size, and drops others. */
static void
test_a_report_of_many_fits(void **state)
{
	static struct report_rcpt to[1000];
	static char said[400];
	struct report r = { .kind = REPORT_FAILED,
		.hostname = str_lit("gate.example"),
		.inbox = str_lit("bot@x.example"),
		.id = "msg_01h4000000e008000000000001",
		.remote = "mx.example",
		.rcpt = to,
		.rcpt_count = 1000,
		.head = str_lit("Subject: x\r\n") };
	struct buf out = { 0 };
	size_t i;

	(void)state;
	memset(said, 'y', sizeof(said));
	for (i = 0; i < 1000; i++)
		to[i] =
		    (struct report_rcpt){ str_lit("somebody.else@long.example"),
			    550, str_lit("5.7.1"), { said, sizeof(said) } };
	report_build(&out, &r);
	assert_true(out.n < 500000);
	buf_free(&out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_other),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_who_is_visible),
		cmocka_unit_test(test_a_report_is_clean),
		cmocka_unit_test(test_a_delay_in_doubt_says_so),
		cmocka_unit_test(test_a_report_of_many_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
