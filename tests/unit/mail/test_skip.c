/* SPDX-License-Identifier: ISC */
/*
 * What is passed over is none of what is searched for: texts made of the
 * pieces that findings are made of, searched with finding_skip() and each
 * byte. What looks like a secret here is made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mail/finding.h"
#include "mail/finding_skip.h"

/* The same search, but of each byte. */
void search_each_byte(struct str text, finding_fn *fn, void *arg);
#define finding_search search_each_byte
#define finding_skip(text, from) (from)
#include "mail/finding_search.c"
#undef finding_skip
#undef finding_search

#define TEXTS 60000
#define TEXT_MAX 1200
#define FOUND_MAX 600

struct found {
	struct {
		enum finding f;
		struct str what;
	} each[FOUND_MAX];
	size_t n;
};

static void
note(void *arg, enum finding f, struct str what)
{
	struct found *found = arg;

	assert_true(found->n < FOUND_MAX);
	found->each[found->n].f = f;
	found->each[found->n++].what = what;
}

/* How much is in it; it fails when the two searches differ. */
static size_t
found_in(struct str text)
{
	static struct found quick, slow;
	size_t i;

	quick.n = slow.n = 0;
	finding_search(text, note, &quick);
	search_each_byte(text, note, &slow);
	for (i = 0; i < quick.n && i < slow.n; i++)
		if (quick.each[i].f != slow.each[i].f ||
		    quick.each[i].what.p != slow.each[i].what.p ||
		    quick.each[i].what.n != slow.each[i].what.n)
			break;
	if (i < quick.n || i < slow.n)
		fail_msg("the %zuth finding differs in %.*s", i, (int)text.n,
		    text.p);
	return quick.n;
}

static uint32_t
any(uint32_t below)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16) % below;
}

static void
test_pieces(void **state)
{
	static const char *const pieces[] = { "AKIA", "Q3EGRZ7XJ2MNP4TU",
		"AIza", "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "eyJ",
		"hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVm",
		"ghp_", "hf_", "ASIA", "gsk_", "GOCSPX-", "sk-", "sk-ant-",
		"pst_op_", "xoxb-", "16C7e42F292c6912E7710c838347Ae178B4a",
		"-----BEGIN ", "PRIVATE KEY-----", "-", "------", "\r\n", " ",
		":", "://", "/", "u:pa55w0rd@", "x", "4111 1111 1111 1111",
		"378282246310005", "30569309025904", "3782 822463 10005",
		"4111", "1111", "219-09-9999", "219",
		"DE89 3704 0044 0532 0130 00", "DE89", "A", "DE", "z", "K", "I",
		"_", "1", "23", "SG.", "hvs.", ".", "SK", "secretAccessKey",
		"SECRET_ACCESS_KEY", "AccountKey", "auth_token", "=", "\": \"",
		"Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu",
		"Q3egRZ7xJ2mnP4tuWGdyb3", "0123456789abcdef0123456789abcdef",
		"PuTTY-User-Key-File-3: ",
		"hooks.slack.com/services/T0A1B2C3D/", "B0A1B2C3D/", "/bot",
		"123456789:AA", "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ", "\xc2\xa0",
		"\xe2\x80\xaf", "\xe3\x85\xa4", "\xe1\x85\x9f", "\xef\xbe\xa0",
		"\xe3\x81\x82", "4111.1111.1111.1111",
		"4111\xc2\xa0"
		"1111\xc2\xa0"
		"1111\xc2\xa0"
		"1111",
		"\xe2\x80\x8b", "\xe2\x80\xae", "\xe2\x80\x99", "\xc2\xad",
		"\xef\xbb\xbf", "\xef\xb8\x80", "\xef\xb8\x81\xef\xb8\x82",
		"\xf0\x9f\x8f\xb4", "\xf3\xa0\x81\xa7", "\xf3\xa0\x81\xbf",
		"\xe2", "\x80", "\xf3", "word", ",", "." };
	char text[TEXT_MAX];
	size_t i, k, n, most, found = 0;

	(void)state;
	for (i = 0; i < TEXTS; i++) {
		most = any(i % 8 == 0 ? TEXT_MAX : 80);
		for (n = 0; n < most; n += k) {
			const char *piece =
			    pieces[any(sizeof(pieces) / sizeof(pieces[0]))];

			k = strlen(piece);
			if (any(8) == 0)
				k = any((uint32_t)k) + 1;
			if (k > TEXT_MAX - n)
				k = TEXT_MAX - n;
			memcpy(text + n, piece, k);
		}
		found += found_in((struct str){ text, n });
	}
	assert_true(found > TEXTS / 2);
}

/* Runs of few characters, in which most pairs are worth a look. */
static void
test_bytes(void **state)
{
	static const char *const sets[] = { "0123456789- AZ", "AKIyJz_-0",
		"-BEGIN ", "\xe2\x80\x8b\xae\xf3\xa0\x81\xad\xc2\xefx",
		"0123.\xc2\xa0\xe2\x80\xaf ", ":A/SGKhvs.0f",
		"\xe1\xe3\xef\x85\xbe\xa4\x9f\xa0x" };
	char text[TEXT_MAX];
	const char *set;
	size_t i, n, most;

	(void)state;
	for (i = 0; i < TEXTS; i++) {
		set = sets[i % (sizeof(sets) / sizeof(sets[0]))];
		most = any(60);
		for (n = 0; n < most; n++)
			text[n] = set[any((uint32_t)strlen(set))];
		(void)found_in((struct str){ text, n });
	}
}

/* Each kind of token, at each distance from where a step begins. */
static void
test_tokens(void **state)
{
	static const char rest[] = "Q3EGRZ7XJ2MNP4TUabcdefghijkmnpqrstvwxyz"
				   "Q3EGRZ7XJ2MNP4TUQ3EGRZ7XJ2MNP4TU";
	static const char jwt[] = "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkw"
				  "In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
	static const char openai[] =
	    FINDING_OPENAI_MARK "Q3EGRZ7XJ2MNP4TUabcdefghijkmnpqrstvwxyz";
	char text[200];
	size_t i, at;
	int n;

	(void)state;
	for (i = 0; finding_tokens[i].n > 0; i++)
		for (at = 0; at < 20; at++) {
			const struct finding_token *k = &finding_tokens[i];

			n = snprintf(text, sizeof(text), "%*s%s%.*s", (int)at,
			    "", k->prefix,
			    k->rest == FINDING_AWS_REST ? 16 : 70,
			    k->rest == FINDING_JWT_REST      ? jwt
			    : k->rest == FINDING_OPENAI_REST ? openai
							     : rest);
			assert_int_equal(
			    found_in((struct str){ text, (size_t)n }), 1);
		}
}

/* The same for what has no prefix in that table. */
static void
test_others(void **state)
{
	static const char *const all[][2] = {
		{ "SG.Q3egRZ7xJ2mnP4tuWGdyb3.",
		    "FYQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tu-" },
		{ "hvs.", "Q3egRZ7xJ2mnP4tuWGdyb3FY" },
		{ "SK", "0123456789abcdef0123456789abcdef" },
		{ "aws_secret_access_key = ",
		    "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu" },
		{ "AWS_SECRET_ACCESS_KEY=",
		    "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu" },
		{ "\"secretAccessKey\": \"",
		    "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu\"" },
		{ "SharedAccessKey=",
		    "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tu123=" },
		{ "TWILIO_AUTH_TOKEN=", "0123456789abcdef0123456789abcdef" },
		{ "https://hooks.slack.com/services/",
		    "T0A1B2C3D/B0A1B2C3D/Q3egRZ7xJ2mnP4tuWGdyb3FY" },
		{ "123456789:AA", "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ" },
		{ "PuTTY-User-Key-File-3: ", "ssh-ed25519" },
		{ "4111.1111.", "1111.1111" },
		{ "4111\xc2\xa0", "1111\xc2\xa0\x31\x31\x31\x31\xc2\xa0"
				  "1111" },
		{ "a\xe3\x85\xa4", "b" },
	};
	char text[200];
	size_t i, at;
	int n;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (at = 0; at < 20; at++) {
			n = snprintf(text, sizeof(text), "%*s%s%s", (int)at, "",
			    all[i][0], all[i][1]);
			if (found_in((struct str){ text, (size_t)n }) != 1)
				fail_msg("not found in %s", text);
		}
}

/* A first line of a key is left after 80 bytes, be it among hyphens. */
static void
test_amid_hyphens(void **state)
{
	static const char mark[] = "-----BEGIN ";
	char text[200];
	int n, xs;

	(void)state;
	for (xs = 60; xs < 75; xs++) {
		n = snprintf(text, sizeof(text), "%s%0*d-%sPRIVATE KEY-----",
		    mark, xs, 0, mark);
		assert_int_equal(found_in((struct str){ text, (size_t)n }),
		    xs + strlen(mark) == 79);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_amid_hyphens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
