/* SPDX-License-Identifier: ISC */
/* RFC 6238, appendix B (SHA-1), and the edges of what is kept and typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "seal/key.h"
#include "seal/totp.h"

#define US INT64_C(1000000)

static struct secret
rfc_key(void)
{
	struct secret key;

	assert_true(secret_set(&key, "12345678901234567890", 20));
	return key;
}

static void
test_rfc6238(void **state)
{
	static const struct {
		uint64_t at;
		const char *code;
	} vectors[] = {
		{ 59, "94287082" },
		{ 1111111109, "07081804" },
		{ 1111111111, "14050471" },
		{ 1234567890, "89005924" },
		{ 2000000000, "69279037" },
		{ 20000000000, "65353130" },
	};
	const struct secret key = rfc_key();
	char code[9];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		seal_totp_code(code, &key, vectors[i].at / 30, 8);
		assert_string_equal(code, vectors[i].code);
		seal_totp_code(code, &key, vectors[i].at / 30, 6);
		assert_string_equal(code, vectors[i].code + 2);
	}
}

static void
test_neighbours(void **state)
{
	const struct secret key = rfc_key();
	uint64_t step = 0, at;
	char code[9];
	int64_t d;

	(void)state;
	for (d = -3; d <= 3; d++) {
		seal_totp_code(code, &key, (uint64_t)(41152263 + d), 6);
		at = 0;
		assert_int_equal(
		    seal_totp_find(&key, 1234567890 * US, str_of(code), &at),
		    d >= -1 && d <= 1);
		assert_int_equal(
		    at, d >= -1 && d <= 1 ? (uint64_t)(41152263 + d) : 0);
	}
	assert_false(
	    seal_totp_find(&key, 1234567890 * US, str_of("5924"), &step));
	assert_false(
	    seal_totp_find(&key, 1234567890 * US, str_of("89005924"), &step));
	assert_false(seal_totp_find(&key, 0, str_of("005924"), &step));
	assert_false(seal_totp_find(
	    &key, 1234567890 * US, (struct str){ NULL, 0 }, &step));
}

static void
test_text(void **state)
{
	const struct secret key = rfc_key();
	char text[SEAL_TOTP_TEXT];

	(void)state;
	seal_totp_text(text, &key);
	assert_string_equal(text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
}

static void
test_box(void **state)
{
	const struct secret key = rfc_key();
	unsigned char box[SEAL_TOTP_BOX];
	struct secret k, other, got;
	const struct str s = { (char *)box, sizeof(box) };

	(void)state;
	secret_random(&k, 32);
	secret_random(&other, 32);
	seal_totp_box(box, &k, 7, &key);
	assert_true(seal_totp_open(&got, &k, 7, s));
	assert_true(secret_eq(&got, &key));
	assert_false(seal_totp_open(&got, &k, 8, s)); /* another's row */
	assert_int_equal(got.n, 0);
	assert_false(seal_totp_open(&got, &other, 7, s));
	assert_false(seal_totp_open(&got, &k, 7, (struct str){ s.p, s.n - 1 }));
	box[30] ^= 1;
	assert_false(seal_totp_open(&got, &k, 7, s));
}

static void
test_recovery(void **state)
{
	unsigned char a[32], b[32];
	char code[SEAL_RECOVERY_TEXT], loud[64] = " ";
	size_t i;

	(void)state;
	seal_recovery_new(code);
	assert_int_equal(strlen(code), 19);
	assert_true(seal_recovery_hash(a, 1, str_of(code)));
	for (i = 0; code[i] != '\0'; i++)
		loud[i + 1] = code[i] == '-'   ? ' '
			      : code[i] >= 'a' ? (char)(code[i] - 32)
					       : code[i];
	assert_true(seal_recovery_hash(b, 1, str_of(loud)));
	assert_memory_equal(a, b, 32);
	assert_true(seal_recovery_hash(b, 2, str_of(code)));
	assert_memory_not_equal(a, b, 32);
	assert_false(seal_recovery_hash(b, 1, str_of("123456")));
	assert_false(seal_recovery_hash(b, 1, str_of("")));
	assert_false(seal_recovery_hash(b, 1, str_of("0123-4567-89ab-cdeu")));
	assert_false(seal_recovery_hash(
	    b, 1, str_of("0123-4567-89ab-cdef-0123-4567-89ab-cdef")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc6238),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_box),
		cmocka_unit_test(test_recovery),
	};
	struct err err = { 0 };

	if (!seal_init(&err))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
