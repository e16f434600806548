/* SPDX-License-Identifier: ISC */
/* What is a link of ours, what uses it (RFC 8058), and what is neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "mail/one_click.h"

static void
test_fields(void **state)
{
	unsigned char token[ONE_CLICK_TOKEN], back[ONE_CLICK_TOKEN];
	struct buf out = { 0 };
	const char *link;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(token); i++)
		token[i] = (unsigned char)(i * 37 + 5);
	one_click_fields(&out, "https://mail.example:8443/x", token);
	assert_string_equal(buf_cstr(&out),
	    "List-Unsubscribe:\r\n <https://mail.example:8443/x/u/"
	    "02jmkvmk6ze621da9vssgf61cr5aymzrkmgwctrfphcfv0h6sdr19ea>\r\n"
	    "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n");
	link = strstr(buf_cstr(&out), "/u/") + 3;
	assert_true(
	    one_click_token(back, (struct str){ link, ONE_CLICK_TEXT - 1 }));
	assert_memory_equal(back, token, sizeof(token));
	/* No line that a host would have to fold. */
	assert_true(one_click_has_own(buf_str(&out)));
	buf_free(&out);
}

static void
test_tokens(void **state)
{
	static const char good[] =
	    "0000000000000000000000000000000000000000000000000000000";
	unsigned char token[ONE_CLICK_TOKEN];
	char text[sizeof(good) + 1];
	size_t i;

	(void)state;
	assert_int_equal(sizeof(good), ONE_CLICK_TEXT);
	assert_true(one_click_token(token, str_of(good)));
	for (i = 0; i < sizeof(good); i++)
		assert_false(one_click_token(token, (struct str){ good, i }) &&
			     i != sizeof(good) - 1);
	for (i = 0; i < sizeof(good) - 1; i++) {
		memcpy(text, good, sizeof(good));
		text[i] = 'U';
		assert_false(one_click_token(token, str_of(text)));
		text[i] = 'l'; /* one that is read as another has no place */
		assert_false(one_click_token(token, str_of(text)));
	}
	memcpy(text, good, sizeof(good));
	text[0] = 'z'; /* more than 34 octets hold */
	assert_false(one_click_token(token, str_of(text)));
	text[0] = '\0';
	assert_false(one_click_token(token, (struct str){ text, 55 }));
}

static void
test_own(void **state)
{
	static const struct {
		const char *head;
		bool own;
	} cases[] = {
		{ "", false },
		{ "Subject: List-Unsubscribe: x\r\n", false },
		{ "Subject: x\r\n List-Unsubscribe: y\r\n", false },
		{ "X-List-Unsubscribe: x\r\n", false },
		{ "A: b\r\nlist-UNSUBSCRIBE : <mailto:x@y.example>\r\n", true },
		{ "List-Unsubscribe-Post: x\r\nA: b\r\n", true },
		{ "List-Unsubscribe:\r\n <https://x.example>\r\n", true },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s\n", cases[i].head);
		assert_int_equal(
		    one_click_has_own(str_of(cases[i].head)), cases[i].own);
	}
}

#define TYPE "multipart/form-data; boundary=\"b:1\""
#define PART "Content-Disposition: form-data; name=\"List-Unsubscribe\"\r\n"

static void
test_forms(void **state)
{
	static const struct {
		const char *type, *body;
		bool asked;
	} cases[] = {
		{ TYPE, "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--\r\n", true },
		{ TYPE, "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--", true },
		{ TYPE,
		    "--b:1\r\nContent-Type: text/plain\r\n" PART
		    "\r\nOne-Click\r\n--b:1--\r\n",
		    true },
		{ TYPE,
		    "--b:1\r\nContent-Disposition: form-data; name=x\r\n\r\ny"
		    "\r\n--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--\r\n",
		    true },
		{ TYPE, "--b:1\r\n" PART "\r\nOne-Tap\r\n--b:1--\r\n", false },
		{ TYPE,
		    "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1\r\n" PART
		    "\r\nOne-Click\r\n--b:1--\r\n",
		    false }, /* twice */
		{ TYPE,
		    "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1\r\n" PART
		    "\r\nNo\r\n--b:1--\r\n",
		    false },
		{ TYPE, "--b:1\r\n" PART "\r\nOne-Click\r\n", false },
		{ TYPE, "--b:1\r\n" PART "One-Click\r\n--b:1--\r\n", false },
		{ TYPE, "--b:1--\r\n", false },
		{ TYPE, "", false },
		{ TYPE, "List-Unsubscribe=One-Click", false },
		{ TYPE, "--b:1", false },
		{ TYPE, "--b:1-", false },
		{ "multipart/form-data",
		    "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--\r\n", false },
		{ "multipart/form-data; boundary=\"\"",
		    "--\r\n" PART "\r\nOne-Click\r\n----\r\n", false },
		{ "multipart/mixed; boundary=\"b:1\"",
		    "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--\r\n", false },
		{ "x", "--b:1\r\n" PART "\r\nOne-Click\r\n--b:1--\r\n", false },
	};
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		print_message("%s | %s\n", cases[i].type, cases[i].body);
		assert_int_equal(one_click_is_asked(str_of(cases[i].type),
				     str_of(cases[i].body)),
		    cases[i].asked);
		/* Whatever is cut off: no byte behind it is looked at. */
		for (n = strlen(cases[i].body); n-- > 0;) {
			char *cut = str_dup((struct str){ cases[i].body, n });

			(void)one_click_is_asked(
			    str_of(cases[i].type), (struct str){ cut, n });
			free(cut);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
