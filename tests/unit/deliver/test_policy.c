/* SPDX-License-Identifier: ISC */
/*
 * MTA-STS records and policies (RFC 8461 3), and TLSA records (RFC 6698 2.1),
 * good and broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "deliver/sts_file.h"
#include "deliver/sts_policy.h"
#include "deliver/tlsa.h"

static void
test_records(void **state)
{
	static const struct {
		const char *txt, *id;
	} facts[] = {
		{ "v=STSv1; id=20160831085700Z;", "20160831085700Z" },
		{ "v=STSv1;id=1", "1" },
		{ "v=STSv1 ; a=b; id=x9 ; c=d;", "x9" },
		{ "v=STSv1; id=1; id=2;", "1" },
		{ "v=STSv1; id=;", NULL },
		{ "v=STSv1;", NULL },
		{ "v=STSv2; id=1;", NULL },
		{ "id=1; v=STSv1;", NULL },
		{ "v=STSv1; id=a-b;", NULL },
		{ "v=STSv1; id=123456789012345678901234567890123;", NULL },
		{ "", NULL },
	};
	char id[STS_ID_MAX + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		bool ok = sts_record_parse(id, str_of(facts[i].txt));

		print_message("%s\n", facts[i].txt);
		assert_int_equal(ok, facts[i].id != NULL);
		if (ok)
			assert_string_equal(id, facts[i].id);
	}
}

#define HEAD "version: STSv1\r\n"
#define AGE "max_age: 86400\r\n"

static void
test_policies(void **state)
{
	static const struct {
		const char *text;
		int mode; /* -1: not a policy */
	} facts[] = {
		{ HEAD "mode: enforce\r\nmx: a.example\r\n" AGE,
		    STS_MODE_ENFORCE },
		{ HEAD "mode: testing\nmx: *.a.example\n" AGE,
		    STS_MODE_TESTING },
		{ HEAD "mode: none\r\n" AGE, STS_MODE_NONE },
		{ AGE "mx:a.example\r\nmode:enforce  \r\nversion: STSv1",
		    STS_MODE_ENFORCE },
		{ HEAD "mode: testing\r\nmode: enforce\r\nmx: a.b\r\n" AGE,
		    STS_MODE_TESTING },
		{ HEAD "x-new: thing\r\n\r\nmode: enforce\r\nmx: a.b\r\n" AGE,
		    STS_MODE_ENFORCE },
		{ HEAD "mode: enforce\r\n" AGE, -1 },
		{ HEAD "mode: enforce\r\nmx: a.b\r\n", -1 },
		{ HEAD "mx: a.b\r\n" AGE, -1 },
		{ "mode: enforce\r\nmx: a.b\r\n" AGE, -1 },
		{ "version: STSv2\r\nmode: none\r\n" AGE, -1 },
		{ HEAD "mode: Enforce\r\nmx: a.b\r\n" AGE, -1 },
		{ HEAD "mode: enforce\r\nmx: a..b\r\n" AGE, -1 },
		{ HEAD "mode: enforce\r\nmx: a.*.b\r\n" AGE, -1 },
		{ HEAD "mode: enforce\r\nmx:\r\n" AGE, -1 },
		{ HEAD "mode: none\r\nmax_age: -1\r\n", -1 },
		{ HEAD "mode: none\r\nmax_age: 99999999999\r\n", -1 },
		{ "<html>no</html>", -1 },
		{ "", -1 },
	};
	struct sts_policy policy;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		bool ok = sts_policy_parse(&policy, str_of(facts[i].text));

		print_message("%s\n", facts[i].text);
		assert_int_equal(ok, facts[i].mode >= 0);
		if (ok)
			assert_int_equal(policy.mode, facts[i].mode);
		sts_policy_clear(&policy);
	}
	assert_true(sts_policy_parse(
	    &policy, str_of(HEAD "mode: none\r\nmax_age: 9999999999\r\n")));
	assert_int_equal(policy.max_age_s, STS_MAX_AGE_S);
	sts_policy_clear(&policy);
	assert_false(sts_policy_parse(
	    &policy, (struct str){ HEAD "mode: none\r\n" AGE "a\0b",
			 sizeof(HEAD "mode: none\r\n" AGE "a\0b") - 1 }));
}

/* No policy of a stranger takes more room than others need in all. */
static void
test_policies_are_small(void **state)
{
	struct buf text = { 0 };
	struct sts_policy policy;
	size_t i, at = 0;

	(void)state;
	for (i = 10; i <= STS_MX_MAX; i += STS_MX_MAX - 10) {
		buf_clear(&text);
		buf_puts(&text, HEAD "mode: enforce\r\n" AGE);
		for (at = 0; at < i; at++)
			buf_printf(&text, "mx: %0200d.example\r\n", (int)at);
		buf_printf(&text, "x: %060000d\r\n", 0);
		assert_int_equal(
		    sts_policy_parse(&policy, buf_str(&text)), i == 10);
		sts_policy_clear(&policy);
	}
	buf_free(&text);
}

static void
test_hosts(void **state)
{
	static const struct {
		const char *host;
		bool named;
	} facts[] = {
		{ "mail.example", true },
		{ "MAIL.Example.", true },
		{ "a.star.example", true },
		{ "a.b.star.example", false },
		{ "star.example", false },
		{ ".star.example", false },
		{ "xmail.example", false },
		{ "mail.example.org", false },
		{ "", false },
	};
	struct sts_policy policy;
	size_t i;

	(void)state;
	assert_true(sts_policy_parse(
	    &policy, str_of(HEAD "mode: enforce\r\nmx: mail.example\r\n"
				 "mx: *.star.example\r\n" AGE)));
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		print_message("%s\n", facts[i].host);
		assert_int_equal(
		    sts_policy_names(&policy, facts[i].host), facts[i].named);
	}
	sts_policy_clear(&policy);
}

/* An answer with one record of type `type` at "a." */
static size_t
answer(unsigned char *p, unsigned type, const unsigned char *data, size_t n)
{
	static const unsigned char head[] = { 0, 1, 0x81, 0xa0, 0, 1, 0, 1, 0,
		0, 0, 0, 1, 'a', 0, 0, 52, 0, 1 };
	const unsigned char rr[] = { 1, 'a', 0, 0, (unsigned char)type, 0, 1, 0,
		0, 0, 60, 0, (unsigned char)n };

	memcpy(p, head, sizeof head);
	memcpy(p + sizeof head, rr, sizeof rr);
	memcpy(p + sizeof head + sizeof rr, data, n);
	return sizeof head + sizeof rr + n;
}

static void
test_tlsa(void **state)
{
	static const struct {
		unsigned char usage, selector, matching;
		size_t n; /* of rdata, in all */
		bool usable;
	} facts[] = {
		{ 3, 1, 1, 35, true },
		{ 3, 0, 2, 67, true },
		{ 2, 0, 1, 35, true },
		{ 0, 1, 1, 35, false },
		{ 1, 1, 1, 35, false },
		{ 255, 1, 1, 35, false },
		{ 3, 2, 1, 35, false },
		{ 3, 1, 3, 35, false },
		{ 3, 1, 1, 34, false },
		{ 3, 1, 1, 36, false },
		{ 3, 1, 2, 66, false },
		{ 3, 0, 0, 40, false },
		{ 3, 1, 0, 4, false },
		{ 3, 1, 1, 3, false },
		{ 3, 1, 1, 1, false },
		{ 3, 1, 1, 0, false },
	};
	unsigned char p[256], data[128] = { 0 };
	struct tlsa_found found = { .packet = NULL }, copy = { .packet = NULL };
	size_t i, cut, n;

	(void)state;
	for (i = 0; i < sizeof facts / sizeof *facts; i++) {
		print_message("%zu\n", i);
		data[0] = facts[i].usage;
		data[1] = facts[i].selector;
		data[2] = facts[i].matching;
		n = answer(p, 52, data, facts[i].n);
		assert_true(tlsa_parse(&found, p, (int)n));
		assert_int_equal(found.n, facts[i].usable);
		tlsa_copy(&copy, &found);
		assert_int_equal(copy.n, found.n);
		if (copy.n > 0)
			assert_memory_equal(
			    copy.v[0].data, found.v[0].data, found.v[0].n);
		/* Cut anywhere it is less, and never read beyond. */
		for (cut = 0; cut < n; cut++) {
			(void)tlsa_parse(&found, p, (int)cut);
			assert_int_equal(found.n, 0);
		}
	}
	n = answer(p, 16, data, 35);
	assert_false(tlsa_parse(&found, p, (int)n));
	tlsa_clear(&found);
	tlsa_clear(&copy);
}

static void
on_kept(void *arg, struct sts_kept *kept)
{
	struct buf *out = arg;
	const char *mx = kept->policy.mx;
	size_t i;

	buf_printf(out, "%.*s %.*s %d %s", (int)kept->domain.n, kept->domain.p,
	    (int)kept->id.n, kept->id.p,
	    (int)(kept->expires_s - kept->fetched_s),
	    sts_mode_name(kept->policy.mode));
	for (i = 0; i < kept->policy.mx_n; i++, mx += strlen(mx) + 1)
		buf_printf(out, " %s", mx);
	buf_putc(out, '\n');
}

static void
add(const char *path, const char *domain, const char *text, int64_t at)
{
	struct sts_kept kept = {
		.domain = str_of(domain), .id = str_lit("7"), .fetched_s = at
	};

	assert_true(sts_policy_parse(&kept.policy, str_of(text)));
	kept.expires_s = at + kept.policy.max_age_s;
	assert_true(sts_file_add(path, &kept));
	sts_policy_clear(&kept.policy);
}

static void
append(const char *path, const char *text)
{
	FILE *f = fopen(path, "ae");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void
test_file(void **state)
{
	char dir[] = "/tmp/postern-sts-XXXXXX", path[64], link[64];
	struct buf out = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/f", dir);
	(void)snprintf(link, sizeof(link), "%s/l", dir);
	assert_int_equal(sts_file_load(path, 1000, on_kept, &out), 0);
	add(path, "a.example",
	    HEAD "mode: enforce\r\nmx: m.a.example\r\nmx: "
		 "*.b.example\r\n" AGE,
	    900);
	add(path, "old.example",
	    HEAD "mode: testing\r\nmx: x.example\r\n"
		 "max_age: 50\r\n",
	    900);
	add(path, "no.example", HEAD "mode: none\r\n" AGE, 900);
	/* What nobody wrote, and what a full disk cut short. */
	append(path, "\n\nx\na.example 7 900 87300 sometimes m.example\n"
		     "b.example 7 901 87300 enforce -\n"
		     "c.example 7 2000 87300 enforce m.example\n"
		     "d.example 7 900 99999999999 enforce m.example\n"
		     "e.example 7 900 87300 enforce mx.exa");
	add(path, "f.example", HEAD "mode: enforce\r\nmx: f.example\r\n" AGE,
	    950);
	append(path, "g.example 7 900 87300 enforce mx.exa");
	assert_int_equal(sts_file_load(path, 1000, on_kept, &out), 11);
	assert_string_equal(buf_cstr(&out),
	    "a.example 7 86400 enforce m.a.example *.b.example\n"
	    "no.example 7 86400 none\n");
	buf_clear(&out);
	/* Nothing holds any more; and no link is followed. */
	assert_int_equal(sts_file_load(path, 90000, on_kept, &out), 11);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(sts_file_load(link, 1000, on_kept, &out), 0);
	assert_int_equal(sts_file_load(dir, 1000, on_kept, &out), 0);
	assert_int_equal(out.n, 0);
	buf_free(&out);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_policies_are_small),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_tlsa),
		cmocka_unit_test(test_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
