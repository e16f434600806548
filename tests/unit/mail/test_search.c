/* SPDX-License-Identifier: ISC */
/*
 * What finding_search() finds in a text, and its nearest innocent neighbours.
 * What looks like a secret here is made up, and cut in two in this file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mail/finding.h"
#include "tests/unit/mail/wanted.h"

static void
search_all(const struct want *w, size_t n)
{
	struct finding_marks m;
	size_t i;

	for (i = 0; i < n; i++) {
		m.bits = 0;
		finding_search(str_of(w[i].text), finding_note, &m);
		differs(w[i].text, m.bits, w[i].bits);
	}
}
#define SEARCH(t) search_all(t, sizeof(t) / sizeof((t)[0]))

static const struct want secrets[] = {
	{ "-----BEGIN RSA "
	  "PRIVATE KEY-----\r\nMIIE",
	    F(PRIVATE_KEY) },
	{ "x\r\n-----BEGIN "
	  "PRIVATE KEY-----",
	    F(PRIVATE_KEY) },
	{ "-----BEGIN OPENSSH "
	  "PRIVATE KEY-----",
	    F(PRIVATE_KEY) },
	{ "-----BEGIN PGP "
	  "PRIVATE KEY BLOCK-----",
	    F(PRIVATE_KEY) },
	{ "-----BEGIN CERTIFICATE-----\r\nMIIE", 0 },
	{ "-----BEGIN PUBLIC KEY-----\r\nour PRIVATE KEY", 0 },
	{ "---------- Forwarded message ----------", 0 },
	{ "-- \r\nAnn", 0 },
	{ "key AKIA"
	  "Q3EGRZ7XJ2MNP4TU.",
	    F(ACCESS_TOKEN) },
	{ "key AKIA"
	  "IOSFODNN7EXAMPLE",
	    0 },
	{ "AKIA"
	  "Q3EGRZ7XJ2MNP4TUV is too long",
	    0 },
	{ "ASIA"
	  "Q3EGRZ7XJ2MNP4TU.",
	    F(ACCESS_TOKEN) },
	{ "ASIA"
	  "PACIFIC1MEETINGNOTES",
	    0 },
	{ "key=gsk"
	  "_Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tuQ3egRZ7xJ2mn",
	    F(ACCESS_TOKEN) },
	{ "whsec"
	  "_Q3egRZ7xJ2mnP4tuQ3egRZ7xJ2mnP4tu",
	    F(ACCESS_TOKEN) },
	{ "pypi-"
	  "AgEIcHlwaS5vcmcCJQ3egRZ7xJ2mnP4tuQ3egRZ7xJ2mnP4tuAAB",
	    F(ACCESS_TOKEN) },
	{ "GOCSPX"
	  "-Q3egRZ7xJ2mnP4tuQ3egRZ7xJ2mn",
	    F(ACCESS_TOKEN) },
	{ "AGE-SECRET"
	  "-KEY-1Q3EGRZ7XJ2MNP4TUQ3EGRZ7XJ2MNP4TUQ3EGRZ7XJ2MNP4TUQ3EGRZ7XJ2",
	    F(ACCESS_TOKEN) },
	{ "sk-"
	  "Q3egRZ7xJ2mnP4tuQ3egT3BlbkFJQ3egRZ7xJ2mnP4tuQ3eg",
	    F(ACCESS_TOKEN) },
	{ "/sk-a-long-name-of-a-page-that-is-no-key-at-all-as-all-can-see-"
	  "2026/",
	    0 },
	{ "SAKIA"
	  "Q3EGRZ7XJ2MNP4TU",
	    0 },
	{ "AKIA is not a key", 0 },
	{ "ghp_"
	  "16C7e42F292c6912E7710c838347Ae178B4a",
	    F(ACCESS_TOKEN) },
	{ "ghp_"
	  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	    0 },
	{ "set ghp_ as prefix", 0 },
	{ "my_ghp_"
	  "16C7e42F292c6912E7710c838347Ae178B4a",
	    0 },
	{ "github_pat_"
	  "11ABCDEFG0abcdefghij_klmnopqrstuvwx",
	    F(ACCESS_TOKEN) },
	{ "glpat-"
	  "a1B2c3D4e5F6g7H8i9J0",
	    F(ACCESS_TOKEN) },
	{ "xoxb-"
	  "2345678901-abcdefGHIJkl",
	    F(ACCESS_TOKEN) },
	{ "(sk_live_"
	  "4eC39HqLyjWDarjtT1zdp7dc)",
	    F(ACCESS_TOKEN) },
	{ "sk_test_"
	  "4eC39HqLyjWDarjtT1zdp7dc",
	    0 },
	{ "AIza"
	  "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
	    F(ACCESS_TOKEN) },
	{ "\"eyJ"
	  "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0."
	  "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P\"",
	    F(ACCESS_TOKEN) },
	{ "eyJhbGciOiJIUzI1NiJ9", 0 },
	{ "pst_live_"
	  "1_2_abcdefghijkmnpqrstvwxyz0123456789abcdefghijk"
	  "mnpqrstvw",
	    F(ACCESS_TOKEN) },
	{ "pst_test_"
	  "1_2_abcdefghijkmnpqrstvwxyz0123456789abcdefghijk"
	  "mnpqrstvw",
	    F(ACCESS_TOKEN) },
	{ "pst_test_1_2_short", 0 },
	{ "go to https://bot:s3cret"
	  "Pw@db.example/x",
	    F(URL_PASSWORD) },
	{ "postgres://u:pa"
	  "ss99w@host",
	    F(URL_PASSWORD) },
	{ "https://user@host.example/", 0 },
	{ "https://user:password@host.example/", 0 },
	{ "https://user:xxxxxx@host.example/", 0 },
	{ "https://host.example:8080/@ann", 0 },
	{ "https://h.example/?mail=ann:x@y.example", 0 },
	{ "ssh://git@host.example:22/x", 0 },
	{ "Note: this :// is none", 0 },
};

/* Known by a name before them, their shape, or the URL they are in. */
#define AWS "Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu"
#define HEX "0123456789abcdef0123456789abcdef"
#define SHA1 "da39a3ee5e6b4b0d3255bfef95601890afd80709"
#define AZURE                                                                  \
	"Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tuQ3egRZ7xJ2mnP4tuWGdyb3FYQ3eg" \
	"RZ7xJ2mn/4tuAbCdEf"
static const struct want named[] = {
	{ "aws_secret_access_key = " AWS "\r\n", F(ACCESS_TOKEN) },
	{ "export AWS_SECRET_ACCESS_KEY='" AWS "'", F(ACCESS_TOKEN) },
	{ "{\"SecretAccessKey\": \"" AWS "\"}", F(ACCESS_TOKEN) },
	{ "<SecretAccessKey>" AWS "</SecretAccessKey>", F(ACCESS_TOKEN) },
	{ "secretAccessKey:" AWS, F(ACCESS_TOKEN) },
	{ AWS, 0 }, /* could be anything */
	{ "aws_secret_access_key = " SHA1, 0 },
	{ "aws_secret_access_key = " AWS "x", 0 },
	{ "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY"
	  "EXAMPLEKEY",
	    0 },
	{ "aws_secret_access_key = YOUR_SECRET_ACCESS_KEY", 0 },
	{ "aws_secret_access_key" AWS, 0 },
	{ "the secret_access_key of " AWS, 0 },
	{ "AccountName=acme;AccountKey=" AZURE "==;Endpoint", F(ACCESS_TOKEN) },
	{ "AccountKey=" AZURE, 0 },
	{ "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErC"
	  "z4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
	    0 }, /* of the emulator */
	{ "SharedAccessKey=Q3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mn/4tu123=",
	    F(ACCESS_TOKEN) },
	{ "SharedAccessKeyName=RootManageSharedAccessKey", 0 },
	{ "TWILIO_AUTH_TOKEN=" HEX, F(ACCESS_TOKEN) },
	{ "auth_token: " HEX "0", 0 },
	{ "auth_token=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0 },
	{ "etag: " HEX, 0 },
};

static const struct want shaped[] = {
	{ "SK" HEX, F(ACCESS_TOKEN) },
	{ "AC" HEX, 0 }, /* the account, which is no secret */
	{ "TASK" HEX, 0 },
	{ "SK" HEX "00", 0 },
	{ "key SG"
	  ".Q3egRZ7xJ2mnP4tuWGdyb3"
	  ".FYQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tu-",
	    F(ACCESS_TOKEN) },
	{ "SG.Q3egRZ7xJ2mnP4tuWGdyb3.FYQ3egRZ7xJ2mnP4tuWGdyb3", 0 },
	{ "USG.Q3egRZ7xJ2mnP4tuWGdyb3.FYQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4"
	  "tu-",
	    0 },
	{ "St. Gallen (SG. Switzerland)", 0 },
	{ "VAULT_TOKEN=hvs"
	  ".CAESIQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tu",
	    F(ACCESS_TOKEN) },
	{ "hvs.Q3egRZ7xJ2mn", 0 },
	{ "hvs.a-name-of-a-host-as-long-as-that.example", 0 },
	{ "hvx.CAESIQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ2mnP4tu", 0 },
	{ "https://hooks.slack"
	  ".com/services/T0A1B2C3D/B0A1B2C3D/Q3egRZ7xJ2mnP4tuWGdyb3FY",
	    F(ACCESS_TOKEN) },
	{ "https://hooks.slack"
	  ".com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
	    0 },
	{ "https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/", 0 },
	{ "https://api.slack.com/services/T0A1B2C3D/B0A1B2C3D/"
	  "Q3egRZ7xJ2mnP4tuWGdyb3FY",
	    0 },
	{ "token 123456789"
	  ":AAQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ",
	    F(ACCESS_TOKEN) },
	{ "https://api.telegram.org/bot123456789"
	  ":AAQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ/getMe",
	    F(ACCESS_TOKEN) },
	{ "123456789:AAQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7x", 0 },
	{ "x123456789:AAQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ", 0 },
	{ "1234:AAQ3egRZ7xJ2mnP4tuWGdyb3FYQ3egRZ7xJ", 0 },
	{ "at 10:AM", 0 },
	{ "PuTTY-User-Key-"
	  "File-3: ssh-ed25519\r\nEncryption: none",
	    F(PRIVATE_KEY) },
	{ "PuTTY-User-Key-File-2 is the older form", 0 },
	{ "PuTTY-User-Key-File-N: ", 0 },
};

static void
test_secrets(void **state)
{
	(void)state;
	SEARCH(secrets);
	SEARCH(named);
	SEARCH(shaped);
}

static void
test_numbers(void **state)
{
	static const struct want all[] = {
		{ "4111 1111 1111 1111", F(CARD_NUMBER) },
		{ "card 4111111111111111.", F(CARD_NUMBER) },
		{ "5555-5555-5555-4444", F(CARD_NUMBER) },
		{ "3782 822463 10005", F(CARD_NUMBER) },
		{ "378282246310005", F(CARD_NUMBER) },
		{ "card=6011111111111117", F(CARD_NUMBER) },
		{ "3056 930902 5904", F(CARD_NUMBER) },
		{ "4111.1111.1111.1111", F(CARD_NUMBER) },
		{ "4111\xc2\xa0\x31\x31\x31\x31\xc2\xa0\x31\x31\x31\x31"
		  "\xc2\xa0\x31\x31\x31\x31.",
		    F(CARD_NUMBER) },
		{ "4111\xe2\x80\xaf\x31\x31\x31\x31\xe2\x80\xaf\x31\x31\x31"
		  "\x31\xe2\x80\xaf\x31\x31\x31\x31",
		    F(CARD_NUMBER) },
		{ "3782.822463.10005", F(CARD_NUMBER) },
		{ "4111.1111.1111.1112", 0 },
		{ "version 4111.1111.1111.1111.2", 0 },
		{ "1.4111.1111.1111.1111", 0 },
		{ "4111\xc2\xa0\x31\x31\x31\x31 1111 1111", 0 },
		{ "4111\xc2\xb7\x31\x31\x31\x31\xc2\xb7\x31\x31\x31\x31"
		  "\xc2\xb7\x31\x31\x31\x31",
		    0 },
		{ "10.20.30.40, 192.168.100.200, 1.234.567,89", 0 },
		{ "4111 1111 1111 1112", 0 }, /* the check digit is wrong */
		{ "1234 5678 9012 3452", 0 }, /* right, but of no scheme */
		{ "4111-1111 1111-1111", 0 }, /* mixed gaps */
		{ "41111111111111111", 0 }, /* one digit too many */
		{ "A4111111111111111", 0 },
		{ "4111111111111111_8", 0 },
		{ "https://x.example/4111111111111111/", 0 },
		{ "550e8400-e29b-41d4-a716-446655440000", 0 },
		{ "Order 2026-11-28-0001, 14:05, +1 (212) 555-0123", 0 },
		{ "1000 2000 3000 4000 5000", 0 },
		{ "DE89 3704 0044 0532 0130 00", F(BANK_ACCOUNT) },
		{ "DE89370400440532013000", F(BANK_ACCOUNT) },
		{ "(FR1420041010050500013M02606)", F(BANK_ACCOUNT) },
		{ "DE89370400440532013001", 0 },
		{ "XDE89370400440532013000", 0 },
		{ "IBAN GB82WEST12345698765432,", F(BANK_ACCOUNT) },
		{ "DE88 3704 0044 0532 0130 00", 0 },
		{ "ISO27001 and AB12", 0 },
		{ "219-09-9999", F(NATIONAL_ID) },
		{ "219-09-99991", 0 },
		{ "000-12-3456", 0 },
		{ "912-34-5678", 0 },
		{ "123-45-6789", 0 }, /* of every example */
		{ "call 555-01-234", 0 },
		{ "part 1219-09-9999", 0 },
	};

	(void)state;
	SEARCH(all);
}

static void
test_characters(void **state)
{
	static const struct want all[] = {
		{ "pay \xe2\x80\xae"
		  "001 RUE",
		    F(TEXT_DIRECTION) },
		{ "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d\xe2\x80\x8f (Ann)", 0 },
		{ "\xe2\x81\xa8"
		  "Ann\xe2\x81\xa9 wrote",
		    0 }, /* isolates */
		{ "pass\xe2\x80\x8bword", F(TEXT_INVISIBLE) },
		{ "pass\xc2\xad\xe2\x80\x8bword", F(TEXT_INVISIBLE) },
		{ "pass\xc2\xad\xc2\xadword", F(TEXT_INVISIBLE) },
		{ "pass\xcd\x8fword", F(TEXT_INVISIBLE) },
		{ "pass\xe2\xa0\x80word", F(TEXT_INVISIBLE) },
		{ "pass\xe3\x85\xa4word", F(TEXT_INVISIBLE) },
		{ "pass\xe1\x85\xa0word", F(TEXT_INVISIBLE) },
		{ "pass\xef\xbe\xa0word", F(TEXT_INVISIBLE) },
		{ "\xea\xb0\x80\xe3\x85\xa4\xeb\x82\x98", 0 },
		{ "a \xe3\x85\xa4 b", 0 },
		{ "a\xe3\x85\x8b"
		  "b\xe3\x80\x80"
		  "c\xef\xbd\xb1"
		  "d",
		    0 }, /* letters, and a wide space that is seen */
		{ "Donau\xc2\xad"
		  "dampf\xc2\xadschiff",
		    0 }, /* where it may be cut */
		{ "\xef\xbb\xbfHello", 0 }, /* byte order mark */
		{ "Hello \xe2\x80\x8b world", 0 },
		{ "\xe0\xb8\x81\xe2\x80\x8b\xe0\xb8\x82", 0 }, /* Thai */
		{ "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae", 0 }, /* Persian */
		{ "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", 0 },
		{ "\xe2\x9d\xa4\xef\xb8\x8f", 0 }, /* a red heart */
		{ "\xe3\x81\x82\xf3\xa0\x84\x80", 0 }, /* one selector */
		{ "x\xef\xb8\x80\xef\xb8\x81\xef\xb8\x82", F(TEXT_TAGS) },
		{ "hi\xf3\xa0\x81\xa9\xf3\xa0\x81\xa7", F(TEXT_TAGS) },
		{ "\xf0\x9f\x8f\xb4\xf3\xa0\x81\xa7\xf3\xa0\x81\xa2"
		  "\xf3\xa0\x81\xa5\xf3\xa0\x81\xae\xf3\xa0\x81\xa7"
		  "\xf3\xa0\x81\xbf",
		    0 }, /* the flag of England */
		{ "\xf0\x9f\x8f\xb4\xf3\xa0\x81\xa7\xf3\xa0\x81\xa2",
		    F(TEXT_TAGS) }, /* it does not end */
		{ "\xe2\x80", 0 },
		{ "\xf3\xa0\x81", 0 },
		{ "Gr\xc3\xbc\xc3\x9f"
		  "e \xe2\x80\x94 \xe2\x82\xac 5",
		    0 },
	};

	(void)state;
	SEARCH(all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
