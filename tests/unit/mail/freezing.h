/* SPDX-License-Identifier: ISC */
/*
 * freezing.h - facts about freeze(): bytes, and what becomes of them.
 *
 * Every fact is tried at once, byte by byte and cut in two at every place:
 * code, reason and frozen bytes must always be the same.
 */
#ifndef TESTS_UNIT_MAIL_FREEZING_H
#define TESTS_UNIT_MAIL_FREEZING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "mail/freeze.h"

#define FROM "From: Bot <bot@example.org>\r\n"
#define TO "To: ann@example.net\r\n"
#define OK FROM TO "Subject: hi\r\n"
#define MIXED                                                                  \
	OK "MIME-Version: 1.0\r\n"                                             \
	   "Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n"

#define SIZE_MAX_HERE (1 << 20)

static struct buf frozen;

static void
collect(void *arg, const void *p, size_t n)
{
	(void)arg;
	buf_add(&frozen, p, n);
}

static struct freeze *
start(bool utf8, uint64_t size_max)
{
	static struct address inbox;
	struct freeze_conf conf = { .hostname = str_lit("mx.example.org"),
		.with = "ESMTPSA",
		.inbox = &inbox,
		.smtputf8 = utf8,
		.now_us = 1700000000000000,
		.size_max = size_max };

	assert_int_equal(
	    address_parse(&inbox, str_lit("bot@example.org")), ADDRESS_OK);
	conf.message.b[0] = 1;
	buf_clear(&frozen);
	return freeze_new(&conf, collect, NULL);
}

struct outcome {
	enum err_code code;
	char why[256];
	struct buf bytes;
};

/* Two pieces when `cut` is inside, else pieces of `step` bytes. */
static struct outcome
run_cut(struct str s, bool utf8, uint64_t size_max, size_t cut, size_t step)
{
	struct freeze *f = start(utf8, size_max);
	struct outcome o = { 0 };
	size_t i, n;

	for (i = 0; i < s.n; i += n) {
		n = i < cut ? cut - i : s.n - i;
		if (n > step)
			n = step;
		(void)freeze_feed(f, s.p + i, n);
	}
	o.code = freeze_finish(f);
	(void)snprintf(o.why, sizeof(o.why), "%s", freeze_why(f));
	if (o.code == E_NONE)
		buf_add(&o.bytes, frozen.p, frozen.n);
	freeze_free(f);
	return o;
}

static void
same(struct outcome *a, struct outcome b)
{
	assert_int_equal(a->code, b.code);
	assert_string_equal(a->why, b.why);
	assert_int_equal(a->bytes.n, b.bytes.n);
	if (b.bytes.n > 0)
		assert_memory_equal(a->bytes.p, b.bytes.p, b.bytes.n);
	buf_free(&b.bytes);
}

static enum err_code
run_limited(struct str s, bool utf8, uint64_t size_max)
{
	struct outcome all = run_cut(s, utf8, size_max, 0, s.n);
	size_t i, stride = s.n > 2000 ? s.n / 100 : 1;

	if (all.code != E_NONE)
		assert_string_not_equal(all.why, "");
	same(&all, run_cut(s, utf8, size_max, 0, 1));
	for (i = 1; i < s.n; i += stride)
		same(&all, run_cut(s, utf8, size_max, i, s.n));
	buf_clear(&frozen);
	buf_add(&frozen, all.bytes.p, all.bytes.n);
	buf_free(&all.bytes);
	return all.code;
}

static enum err_code
run(struct str s, bool utf8)
{
	return run_limited(s, utf8, SIZE_MAX_HERE);
}

struct fact {
	const char *name, *text;
	enum err_code code;
};

static void
check(const struct fact *f, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		enum err_code got = run(str_of(f[i].text), false);

		if (got != f[i].code)
			print_message(
			    "%s: %d, not %d\n", f[i].name, got, f[i].code);
		assert_int_equal(got, f[i].code);
	}
}
#define CHECK(t) check(t, sizeof(t) / sizeof((t)[0]))

static int
teardown(void **state)
{
	(void)state;
	buf_free(&frozen);
	return 0;
}

#endif
