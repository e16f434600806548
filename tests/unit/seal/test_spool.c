/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "seal/spool.h"

#define SIZE 100000

/* Put in pieces of all lengths, had from all places. */
static void
test_what_was_put_comes_back(void **state)
{
	static unsigned char in[SIZE], out[SIZE];
	struct err err = { 0 };
	struct spool *s = spool_new("/tmp", &err);
	size_t at, n;

	(void)state;
	assert_non_null(s);
	randombytes_buf(in, sizeof(in));
	for (at = 0, n = 1; at < SIZE; at += n, n = n * 3 % 1009) {
		if (n > SIZE - at)
			n = SIZE - at;
		assert_true(spool_put(s, in + at, n, &err));
	}
	assert_int_equal(spool_size(s), SIZE);
	assert_true(spool_get(s, 0, out, SIZE, &err));
	assert_memory_equal(in, out, SIZE);
	for (at = 0; at < 300; at++) {
		assert_true(spool_get(s, at, out, 70 + at, &err));
		assert_memory_equal(in + at, out, 70 + at);
	}
	assert_false(spool_get(s, SIZE - 5, out, 6, &err));
	assert_false(spool_get(s, SIZE + 1, out, 0, &err));
	spool_free(s);
}

/* A file of ours: no name, and nothing of what was put in its bytes. */
static void
test_the_disk_says_nothing(void **state)
{
	static const char text[] = "Nobody who reads the disk may read this.";
	char name[64], target[256], raw[sizeof(text)];
	struct err err = { 0 };
	struct spool *s;
	int fd, last = dup(0);
	ssize_t n;

	(void)state;
	close(last); /* the number that the spool will have */
	s = spool_new("/tmp", &err);
	assert_non_null(s);
	assert_true(spool_put(s, text, sizeof(text), &err));
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", last);
	n = readlink(name, target, sizeof(target) - 1);
	assert_true(n > 0);
	target[n] = '\0';
	assert_non_null(strstr(target, "postern-spool"));
	assert_non_null(strstr(target, "(deleted)"));
	fd = last;
	assert_int_equal(pread(fd, raw, sizeof(raw), 0), sizeof(raw));
	assert_memory_not_equal(raw, text, 16);
	spool_free(s);
}

static void
test_a_folder_that_is_not_there(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_null(spool_new("/nonexistent", &err));
	assert_non_null(strstr(err.text, "/nonexistent"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_put_comes_back),
		cmocka_unit_test(test_the_disk_says_nothing),
		cmocka_unit_test(test_a_folder_that_is_not_there),
	};

	return sodium_init() < 0 ? 1
				 : cmocka_run_group_tests(tests, NULL, NULL);
}
