/* SPDX-License-Identifier: ISC */
/* The values of tests/unit/vectors/reference.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/codec.h"
#include "mail/digest.h"

static const char key_hex[] =
    "fd6cfb9437b5e977eb82c554d493df4d7f36756a1c6f18466e9b3b3eaf072e6a";
static const char tag_hex[] =
    "9167bd70eefaa3c8b7e90cdd40824b894c925c50722aeb9a4b5395347cb11250";
static const char digest_text[] =
    "sha256:"
    "8eb3a7be5a35a3bf6a4ce7eac499fb1b95ed272eded6ea265a4f52ecf47fc4b2";

static void
test_vectors(void **state)
{
	static const char body[] = "From: a\r\n\r\nhi\r\n";
	const struct str rcpt[] = { str_lit("a@x.example"),
		str_lit("b@x.example") };
	struct digest_input in = { .tenant = 3,
		.inbox = 9,
		.version = 1,
		.mail_from = str_lit("bot@example.org"),
		.rcpt = rcpt,
		.rcpt_count = 2,
		.params = str_lit(""),
		.size = 15 };
	unsigned char digest[32], back[32];
	char text[DIGEST_TEXT_MAX], hex[65];
	struct secret key = { .n = 32 };
	struct body_tag *t;
	size_t i;

	(void)state;
	assert_true(hex_decode(key.b, 32, key_hex, 64));
	t = body_tag_new(&key);
	for (i = 0; i < sizeof(body) - 1; i++)
		body_tag_add(t, body + i, 1);
	body_tag_end(t, in.body_tag);
	hex_encode(hex, in.body_tag, 32);
	assert_string_equal(hex, tag_hex);
	assert_true(hex_decode(
	    in.message.b, 16, "01890000000070008000000000000001", 32));
	digest_compute(digest, &in);
	digest_format(text, digest);
	assert_string_equal(text, digest_text);
	assert_true(digest_parse(back, str_of(text)));
	assert_memory_equal(back, digest, 32);
	assert_false(digest_parse(back, str_of(text + 1)));
}

/* Every field counts. */
static void
test_fields(void **state)
{
	struct str rcpt = str_lit("a@x.example");
	struct digest_input in[10];
	unsigned char out[10][32];
	size_t i, k;

	(void)state;
	memset(in, 0, sizeof(in));
	for (i = 0; i < 10; i++) {
		in[i].mail_from = in[i].params = str_lit("");
		in[i].tenant += i == 1;
		in[i].inbox += i == 2;
		in[i].version = i == 3;
		in[i].test = i == 4;
		in[i].rcpt = &rcpt;
		in[i].rcpt_count = i == 5;
		in[i].size = i == 6;
		in[i].send_at = i == 7;
		in[i].not_after = i == 8;
		in[i].body_tag[31] = i == 9;
		digest_compute(out[i], &in[i]);
		for (k = 0; k < i; k++)
			assert_memory_not_equal(out[i], out[k], 32);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
