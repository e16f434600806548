/* SPDX-License-Identifier: ISC */
/* Key files under a passphrase: what opens them, and what does not. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "seal/key.h"
#include "seal/vault.h"

static const char phrase[] = "correct horse battery";
static bool cheap; /* 256 MiB for each look would take a minute in all */

typedef int pwhash_fn(unsigned char *const out, unsigned long long out_n,
    const char *const passwd, unsigned long long passwd_n,
    const unsigned char *const salt, unsigned long long ops, size_t memory,
    int algorithm);

/* The library's, asked for what the format promises. */
int
crypto_pwhash(unsigned char *const out, unsigned long long out_n,
    const char *const passwd, unsigned long long passwd_n,
    const unsigned char *const salt, unsigned long long ops, size_t memory,
    int algorithm)
{
	static pwhash_fn *real;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "crypto_pwhash");
	assert_non_null(real);
	assert_int_equal(ops, 3);
	assert_int_equal(memory, 262144 * 1024);
	if (cheap) {
		ops = 1;
		memory = crypto_pwhash_MEMLIMIT_MIN;
	}
	return real(out, out_n, passwd, passwd_n, salt, ops, memory, algorithm);
}

static void
test_opens_again(void **state)
{
	struct buf box = { 0 }, plain = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_true(
	    seal_vault_close(&box, NULL, str_of(phrase), str_of("keys"), &err));
	assert_null(memmem(box.p, box.n, "keys", 4));
	assert_true(
	    seal_vault_open(&plain, NULL, str_of(phrase), buf_str(&box), &err));
	assert_string_equal(buf_cstr(&plain), "keys");
	buf_free(&plain);
	buf_free(&box);
}

/* Each place of the file is covered: line, salt, nonce, bytes, tag. */
static void
test_refuses_what_was_changed(void **state)
{
	static const size_t at[] = { 1, 45, 60, 82, 86 };
	struct buf box = { 0 }, plain = { 0 };
	struct err err = { 0 };
	size_t i;

	(void)state;
	cheap = true;
	assert_true(
	    seal_vault_close(&box, NULL, str_of(phrase), str_of("keys"), &err));
	assert_false(seal_vault_open(&plain, NULL,
	    str_of("correct horse batterY"), buf_str(&box), &err));
	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		assert_true(at[i] < box.n);
		box.p[at[i]] ^= 1;
		assert_false(seal_vault_open(
		    &plain, NULL, str_of(phrase), buf_str(&box), &err));
		box.p[at[i]] ^= 1;
	}
	assert_false(seal_vault_open(&plain, NULL, str_of(phrase),
	    (struct str){ (char *)box.p, 70 }, &err));
	assert_int_equal(plain.n, 0);
	buf_free(&plain);
	buf_free(&box);
}

static void
test_refuses_short_phrases(void **state)
{
	struct buf box = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_false(seal_vault_close(
	    &box, NULL, str_of("short"), str_of("keys"), &err));
	assert_non_null(strstr(err.text, "passphrase"));
	assert_int_equal(box.n, 0);
}

/* Both ways give the key of what lies beside; another vault another one. */
static void
test_vouches_for_what_is_beside(void **state)
{
	unsigned char a[SEAL_VAULT_MAC], b[SEAL_VAULT_MAC];
	struct secret one = { 0 }, same = { 0 }, other = { 0 };
	struct buf box = { 0 }, box2 = { 0 }, plain = { 0 };
	struct err err = { 0 };

	(void)state;
	cheap = true;
	assert_true(
	    seal_vault_close(&box, &one, str_of(phrase), str_of("keys"), &err));
	assert_true(seal_vault_open(
	    &plain, &same, str_of(phrase), buf_str(&box), &err));
	assert_true(seal_vault_close(
	    &box2, &other, str_of(phrase), str_of("keys"), &err));
	seal_vault_mac(a, &one, str_of("manifest"));
	seal_vault_mac(b, &same, str_of("manifest"));
	assert_memory_equal(a, b, sizeof(a));
	seal_vault_mac(b, &same, str_of("manifesT"));
	assert_memory_not_equal(a, b, sizeof(a));
	seal_vault_mac(b, &other, str_of("manifest"));
	assert_memory_not_equal(a, b, sizeof(a));
	buf_free(&plain);
	buf_free(&box2);
	buf_free(&box);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opens_again),
		cmocka_unit_test(test_refuses_what_was_changed),
		cmocka_unit_test(test_vouches_for_what_is_beside),
		cmocka_unit_test(test_refuses_short_phrases),
	};
	struct err err;

	if (!seal_init(&err))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
