/* SPDX-License-Identifier: ISC */
/* Key files under a passphrase: what opens them, and what does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "seal/key.h"
#include "seal/vault.h"

static const char phrase[] = "correct horse battery";

static void
test_opens_again(void **state)
{
	struct buf box = { 0 }, plain = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_true(
	    seal_vault_close(&box, str_of(phrase), str_of("keys"), &err));
	assert_null(memmem(box.p, box.n, "keys", 4));
	assert_true(
	    seal_vault_open(&plain, str_of(phrase), buf_str(&box), &err));
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
	assert_true(
	    seal_vault_close(&box, str_of(phrase), str_of("keys"), &err));
	assert_false(seal_vault_open(
	    &plain, str_of("correct horse batterY"), buf_str(&box), &err));
	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		assert_true(at[i] < box.n);
		box.p[at[i]] ^= 1;
		assert_false(seal_vault_open(
		    &plain, str_of(phrase), buf_str(&box), &err));
		box.p[at[i]] ^= 1;
	}
	assert_false(seal_vault_open(
	    &plain, str_of(phrase), (struct str){ (char *)box.p, 70 }, &err));
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
	assert_false(
	    seal_vault_close(&box, str_of("short"), str_of("keys"), &err));
	assert_non_null(strstr(err.text, "passphrase"));
	assert_int_equal(box.n, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opens_again),
		cmocka_unit_test(test_refuses_what_was_changed),
		cmocka_unit_test(test_refuses_short_phrases),
	};
	struct err err;

	if (!seal_init(&err))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
