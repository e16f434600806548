/* SPDX-License-Identifier: ISC */
/*
 * The end of a message at every byte split: smuggling sets S1, S3 and S6,
 * haraka#3268, mox#129.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "smtpd/data.h"

#define TEXT(s) s, sizeof(s) - 1

static const struct {
	const char *in;
	size_t n;
	const char *out; /* content when it ends; NULL: it does not end */
	size_t out_n;
	unsigned flags;
	size_t rest; /* bytes behind the end */
} cases[] = {
	{ TEXT("a\r\n.\r\n"), TEXT("a\r\n"), 0, 0 },
	{ TEXT(".\r\n"), TEXT(""), 0, 0 },
	{ TEXT("\r\n.\r\n"), TEXT("\r\n"), 0, 0 },
	{ TEXT("a\r\n.\r\nQUIT\r\n"), TEXT("a\r\n"), 0, 6 },
	{ TEXT("..\r\n.\r\n"), TEXT(".\r\n"), 0, 0 },
	{ TEXT(".a\r\n..b\r\n.\r\n"), TEXT("a\r\n.b\r\n"), 0, 0 },
	{ TEXT("a.\r\n.\r\n"), TEXT("a.\r\n"), 0, 0 },
	/* S1: none of these ends anything */
	{ TEXT("a\n.\nX\r\n.\r\n"), TEXT("a\n.\nX\r\n"), SMTP_DATA_BARE_LF, 0 },
	{ TEXT("a\n.\rX\r\n.\r\n"), TEXT("a\n.\rX\r\n"),
	    SMTP_DATA_BARE_LF | SMTP_DATA_BARE_CR, 0 },
	{ TEXT("a\r.\nX\r\n.\r\n"), TEXT("a\r.\nX\r\n"),
	    SMTP_DATA_BARE_LF | SMTP_DATA_BARE_CR, 0 },
	{ TEXT("a\r.\rX\r\n.\r\n"), TEXT("a\r.\rX\r\n"), SMTP_DATA_BARE_CR, 0 },
	{ TEXT("a\n.\r\nX\r\n.\r\n"), TEXT("a\n.\r\nX\r\n"), SMTP_DATA_BARE_LF,
	    0 },
	{ TEXT("a\r.\r\nX\r\n.\r\n"), TEXT("a\r.\r\nX\r\n"), SMTP_DATA_BARE_CR,
	    0 },
	{ TEXT("a\r\n.\nX\r\n.\r\n"), TEXT("a\r\n\nX\r\n"), SMTP_DATA_BARE_LF,
	    0 },
	{ TEXT("a\r\n.\rX\r\n.\r\n"), TEXT("a\r\n\rX\r\n"), SMTP_DATA_BARE_CR,
	    0 },
	{ TEXT("a\r\n.\r\r\nX\r\n.\r\n"), TEXT("a\r\n\r\r\nX\r\n"),
	    SMTP_DATA_BARE_CR, 0 },
	/* the second is a true end behind a bare CR */
	{ TEXT("a\r\r\n.\r\n"), TEXT("a\r\r\n"), SMTP_DATA_BARE_CR, 0 },
	{ TEXT("a\r\r\n.\r\r\nX\r\n.\r\n"), TEXT("a\r\r\n\r\r\nX\r\n"),
	    SMTP_DATA_BARE_CR, 0 },
	{ TEXT("a\r\n\0.\r\nX\r\n.\r\n"), TEXT("a\r\n\0.\r\nX\r\n"),
	    SMTP_DATA_NUL, 0 },
	{ TEXT("a\r\n.\0\r\nX\r\n.\r\n"), TEXT("a\r\n\0\r\nX\r\n"),
	    SMTP_DATA_NUL, 0 },
	{ TEXT("a\r\n.\x0b\r\nX\r\n.\r\n"), TEXT("a\r\n\x0b\r\nX\r\n"), 0, 0 },
	/* not ended yet */
	{ TEXT("a\r\n."), NULL, 0, 0, 0 },
	{ TEXT("a\r\n.\r"), NULL, 0, 0, 0 },
	{ TEXT("a\r"), NULL, 0, 0, 0 },
	{ TEXT(""), NULL, 0, 0, 0 },
};

/* Feed in pieces; `cut` bit i set = a piece ends before byte i. */
static size_t
feed(struct smtp_data *d, const char *in, size_t n, size_t first, size_t step,
    unsigned char *out, size_t *out_n)
{
	size_t at = 0, take, got, eaten;

	smtp_data_init(d);
	*out_n = 0;
	while (at < n && !d->ended) {
		take = at == 0 && first > 0 ? first : step;
		if (take > n - at)
			take = n - at;
		eaten = smtp_data_feed(d, (const unsigned char *)in + at, take,
		    out + *out_n, &got);
		assert_true(got <= take + SMTP_DATA_EXTRA);
		*out_n += got;
		at += eaten;
		assert_true(eaten == take || d->ended);
	}
	return n - at;
}

static void
check(size_t i, size_t first, size_t step)
{
	unsigned char out[256];
	struct smtp_data d;
	size_t n, rest;

	rest = feed(&d, cases[i].in, cases[i].n, first, step, out, &n);
	assert_int_equal(d.ended, cases[i].out != NULL);
	assert_int_equal(d.flags, cases[i].flags);
	if (!d.ended)
		return;
	assert_int_equal(rest, cases[i].rest);
	assert_int_equal(n, cases[i].out_n);
	assert_memory_equal(out, cases[i].out, n);
	assert_int_equal(d.size, n);
}

static void
test_every_split(void **state)
{
	size_t i, cut;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		print_message("case %zu\n", i);
		check(i, 0, 1);
		check(i, 0, 4096);
		for (cut = 1; cut < cases[i].n; cut++)
			check(i, cut, 4096);
	}
}

/* Eight octets at a time see what one at a time sees. */
static void
test_each_octet_at_each_place(void **state)
{
	unsigned char in[32], out[64], slow[64], *to;
	struct smtp_data d, one;
	size_t at, i, n, slow_n, got;
	unsigned c;

	(void)state;
	for (at = 0; at < sizeof in; at++) {
		for (c = 0; c < 256; c++) {
			memset(in, 'x', sizeof in);
			in[at] = (unsigned char)c;
			in[(at + 9) % sizeof in] = '\t';
			smtp_data_init(&d);
			assert_int_equal(
			    smtp_data_feed(&d, in, sizeof in, out, &n),
			    sizeof in);
			smtp_data_init(&one);
			for (i = slow_n = 0; i < sizeof in; i++) {
				to = slow + slow_n;
				assert_int_equal(
				    smtp_data_feed(&one, in + i, 1, to, &got),
				    1);
				slow_n += got;
			}
			assert_int_equal(n, slow_n);
			assert_memory_equal(out, slow, n);
			assert_memory_equal(&d, &one, sizeof d);
		}
	}
}

/* The terminator over the 4, 8 and 16 KiB edges. */
static void
test_buffer_edges(void **state)
{
	static const size_t edges[] = { 4096, 8192, 16384 };
	static char in[40000];
	static unsigned char out[sizeof in + 8];
	struct smtp_data d;
	size_t e, back, n, rest, at, i;

	(void)state;
	for (e = 0; e < 3; e++)
		for (back = 0; back < 8; back++) {
			at = edges[e] - back;
			for (i = 0; i < at; i++)
				in[i] = i % 80 == 78   ? '\r'
					: i % 80 == 79 ? '\n'
						       : 'x';
			in[at - 1] = in[at - 2] = 'x';
			memcpy(in + at, "\r\n.\r\nRSET\r\n", 11);
			rest = feed(&d, in, at + 11, 0, edges[e], out, &n);
			assert_true(d.ended);
			assert_int_equal(d.flags & ~SMTP_DATA_BARE_CR, 0);
			assert_int_equal(rest, 6);
			assert_int_equal(n, at + 2);
			assert_memory_equal(out, in, n);
		}
}

static void
test_line_length(void **state)
{
	static char in[1100];
	static unsigned char out[1200];
	struct smtp_data d;
	size_t n, len;

	(void)state;
	for (len = 996; len <= 1001; len++) {
		memset(in, 'y', len);
		memcpy(in + len, "\r\n.\r\n", 5);
		feed(&d, in, len + 5, 0, 7, out, &n);
		assert_int_equal(d.flags, len > 998 ? SMTP_DATA_LONG_LINE : 0);
	}
	/* a stuffed dot does not count */
	memset(in, 'y', 1000);
	memcpy(in, "..", 2);
	memcpy(in + 999, "\r\n.\r\n", 5);
	feed(&d, in, 1004, 0, 1, out, &n);
	assert_int_equal(d.flags, 0);
}

/* Random bytes of the alphabet that matters: splits never change a thing. */
static void
test_random_splits(void **state)
{
	static const char alphabet[] = "\r\n..a\r\n";
	char in[64];
	unsigned char a[80], b[80];
	struct smtp_data one, two;
	size_t an, bn, ra, rb, i, round;

	(void)state;
	srand(7);
	for (round = 0; round < 200000; round++) {
		for (i = 0; i < sizeof in; i++)
			in[i] = alphabet[(size_t)rand() % 7];
		ra = feed(&one, in, sizeof in, 0, sizeof in, a, &an);
		rb = feed(&two, in, sizeof in, (size_t)rand() % 5,
		    1 + (size_t)rand() % 9, b, &bn);
		assert_int_equal(one.ended, two.ended);
		assert_int_equal(one.flags, two.flags);
		assert_int_equal(ra, rb);
		assert_int_equal(an, bn);
		assert_memory_equal(a, b, an);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_each_octet_at_each_place),
		cmocka_unit_test(test_buffer_edges),
		cmocka_unit_test(test_line_length),
		cmocka_unit_test(test_random_splits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
