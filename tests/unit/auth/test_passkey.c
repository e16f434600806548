/* SPDX-License-Identifier: ISC */
/*
 * Registrations and assertions made here with fresh keys, then spoiled in
 * one place each; and CBOR that nobody's authenticator writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include "auth/attest.h"
#include "auth/cbor.h"
#include "base/buf.h"
#include "seal/key.h"
#include "seal/passkey.h"

#define ORIGIN "https://pages.example:8444"
#define RP "pages.example"

static EVP_PKEY *ec, *rsa;

static int
make_keys(void **state)
{
	(void)state;
	ec = EVP_EC_gen("P-256");
	rsa = EVP_RSA_gen(2048);
	return ec == NULL || rsa == NULL;
}

static int
free_keys(void **state)
{
	(void)state;
	EVP_PKEY_free(ec);
	EVP_PKEY_free(rsa);
	return 0;
}

static void
put_head(struct buf *b, int major, size_t n)
{
	if (n < 24) {
		buf_u8(b, (unsigned)(major << 5) | (unsigned)n);
	} else if (n < 256) {
		buf_u8(b, (unsigned)(major << 5) | 24);
		buf_u8(b, (unsigned)n);
	} else {
		buf_u8(b, (unsigned)(major << 5) | 25);
		buf_u16(b, (uint16_t)n);
	}
}

static void
put_int(struct buf *b, int v)
{
	if (v >= 0)
		put_head(b, 0, (size_t)v);
	else
		put_head(b, 1, (size_t)(-1 - v));
}

static void
put_bytes(struct buf *b, const void *p, size_t n)
{
	put_head(b, 2, n);
	buf_add(b, p, n);
}

static void
put_text(struct buf *b, const char *s)
{
	put_head(b, 3, strlen(s));
	buf_puts(b, s);
}

static void
put_number(struct buf *b, EVP_PKEY *key, const char *name, size_t n)
{
	unsigned char bytes[256];
	BIGNUM *v = NULL;

	assert_int_equal(EVP_PKEY_get_bn_param(key, name, &v), 1);
	assert_int_equal(BN_bn2binpad(v, bytes, (int)n), (int)n);
	put_bytes(b, bytes, n);
	BN_free(v);
}

static void
put_cose(struct buf *b, EVP_PKEY *key, int alg)
{
	put_head(b, 5, key == ec ? 5 : 4);
	put_int(b, 1);
	put_int(b, key == ec ? 2 : 3);
	put_int(b, 3);
	put_int(b, alg);
	put_int(b, -1);
	if (key == ec) {
		put_int(b, 1);
		put_int(b, -2);
		put_number(b, key, OSSL_PKEY_PARAM_EC_PUB_X, 32);
		put_int(b, -3);
		put_number(b, key, OSSL_PKEY_PARAM_EC_PUB_Y, 32);
	} else {
		put_number(b, key, OSSL_PKEY_PARAM_RSA_N, 256);
		put_int(b, -2);
		put_number(b, key, OSSL_PKEY_PARAM_RSA_E, 3);
	}
}

static void
put_auth_data(struct buf *b, unsigned flags, uint32_t count)
{
	unsigned char hash[32];

	SHA256((const unsigned char *)RP, strlen(RP), hash);
	buf_add(b, hash, 32);
	buf_u8(b, flags);
	buf_u32(b, count);
}

static void
put_credential(struct buf *b, EVP_PKEY *key, int alg)
{
	put_auth_data(b, 0x45, 0);
	buf_add(b, "aaguidaaguidaagu", 16);
	buf_u16(b, 16);
	buf_add(b, "credential-id-16", 16);
	put_cose(b, key, alg);
}

static void
put_object(struct buf *b, const struct buf *auth_data)
{
	put_head(b, 5, 3);
	put_text(b, "fmt");
	put_text(b, "none");
	put_text(b, "attStmt");
	put_head(b, 5, 0);
	put_text(b, "authData");
	put_bytes(b, auth_data->p, auth_data->n);
}

static void
check_registration(EVP_PKEY *key, int alg, bool good)
{
	struct buf data = { 0 }, object = { 0 }, spki = { 0 };
	struct seal_passkey_data seen;
	struct str auth_data, id;
	size_t n;

	put_credential(&data, key, alg);
	put_object(&object, &data);
	assert_true(attest_auth_data(buf_str(&object), &auth_data));
	assert_true(seal_passkey_data(&seen, auth_data, RP));
	assert_true(seen.present && seen.verified && seen.has_credential);
	assert_int_equal(attest_credential(seen.rest, &id, &spki), good);
	if (good) {
		assert_true(str_eq(id, str_lit("credential-id-16")));
		assert_true(seal_passkey_is_key(buf_str(&spki)));
		/* every cut of it is no registration */
		for (n = 0; n < object.n; n++)
			assert_false(attest_auth_data(
			    (struct str){ (char *)object.p, n }, &auth_data));
		for (n = 0; n < seen.rest.n; n++) {
			buf_clear(&spki);
			assert_false(attest_credential(
			    (struct str){ seen.rest.p, n }, &id, &spki));
		}
	}
	buf_free(&data);
	buf_free(&object);
	buf_free(&spki);
}

static void
test_registration(void **state)
{
	(void)state;
	check_registration(ec, -7, true);
	check_registration(rsa, -257, true);
	check_registration(ec, -257, false);
	check_registration(ec, -35, false);
	check_registration(rsa, -37, false);
}

/* A point that is not on the curve, which would leak on use elsewhere. */
static void
test_point_off_the_curve(void **state)
{
	struct buf data = { 0 }, spki = { 0 };
	struct str id;

	(void)state;
	put_credential(&data, ec, -7);
	data.p[data.n - 1] ^= 1;
	assert_false(attest_credential(
	    (struct str){ (char *)data.p + 37, data.n - 37 }, &id, &spki));
	assert_int_equal(spki.n, 0);
	buf_free(&data);
}

static void
test_hostile_cbor(void **state)
{
	static const struct str bad[] = {
		{ "", 0 }, { "\xff", 1 }, /* break */
		{ "\x9f\x01\xff", 3 }, /* indefinite */
		{ "\x5f\x41\x61\xff", 4 }, { "\xbf\xff", 2 },
		{ "\x9b\xff\xff\xff\xff\xff\xff\xff\xff", 9 },
		{ "\x9b\x00\x00\x00\x01\x00\x00\x00\x00", 9 },
		{ "\xbb\x7f\xff\xff\xff\xff\xff\xff\xff", 9 },
		{ "\x5b\xff\xff\xff\xff\xff\xff\xff\xff", 9 },
		{ "\x5b\x00\x00\x00\x00\xff\xff\xff\xff", 9 },
		{ "\x1b\xff\xff\xff\xff\xff\xff\xff\xff", 9 },
		{ "\x3b\xff\xff\xff\xff\xff\xff\xff\xff", 9 },
		{ "\xc0\x00", 2 }, /* a tag */
		{ "\xfb\x00\x00\x00\x00\x00\x00\x00\x00", 9 }, /* a float */
		{ "\x81\x81\x81\x81\x81\x00", 6 }, /* too deep */
		{ "\x98\x41", 2 }, /* more than may be */
		{ "\x82\x01", 2 }, /* fewer than it says */
		{ "\xa1\x01", 2 }, { "\x1c", 1 }, /* reserved */
	};
	static const struct str good[] = { { "\x00", 1 }, { "\xf6", 1 },
		{ "\x81\x81\x81\x81\x00", 5 },
		{ "\xa1\x63"
		  "abc\x82\x20\x41\x00",
		    9 } };
	struct str rest, data;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		rest = bad[i];
		assert_false(cbor_skip(&rest));
		assert_false(attest_auth_data(bad[i], &data));
	}
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		rest = good[i];
		assert_true(cbor_skip(&rest));
		assert_int_equal(rest.n, 0);
	}
	/* authData twice, or not as bytes, or something behind it */
	assert_false(attest_auth_data(str_lit("\xa2\x68"
					      "authData\x41\x00\x68"
					      "authData\x41\x00"),
	    &data));
	assert_false(attest_auth_data(str_lit("\xa1\x68"
					      "authData\x61\x61"),
	    &data));
	assert_false(attest_auth_data(str_lit("\xa1\x68"
					      "authData\x41\x61\x00"),
	    &data));
	assert_true(attest_auth_data(str_lit("\xa1\x68"
					     "authData\x41\x61"),
	    &data));
}

/* A key map in which a label comes twice, or one that is not known. */
static void
test_key_map(void **state)
{
	struct buf data = { 0 }, spki = { 0 };
	struct str id;
	size_t map;
	int what;

	(void)state;
	for (what = 0; what < 3; what++) {
		buf_clear(&data);
		put_credential(&data, ec, -7);
		map = 37 + 16 + 2 + 16;
		assert_int_equal(data.p[map], 0xa5);
		if (what == 0)
			data.p[map + 1] = 3; /* alg for kty: alg twice */
		else if (what == 1)
			data.p[map + 1] = 4;
		else
			data.p[map] = 0xa6;
		assert_false(attest_credential(
		    (struct str){ (char *)data.p + 37, data.n - 37 }, &id,
		    &spki));
	}
	buf_free(&data);
}

struct answer {
	struct seal_passkey_ask ask;
	struct buf data, client, signature, spki;
};

static void
make_client(struct buf *b, const struct seal_passkey_ask *ask, const char *type,
    const char *origin, const char *tail)
{
	unsigned char challenge[32];
	char text[64];

	seal_passkey_challenge(challenge, ask);
	base64url_encode(text, challenge, 32);
	buf_clear(b);
	buf_printf(b,
	    "{\"type\":\"%s\",\"challenge\":\"%s\",\"origin\":\"%s\"%s", type,
	    text, origin, tail);
}

static void
sign(struct answer *a, EVP_PKEY *key)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char hash[32], *der = NULL;
	size_t n = 1024;
	int len;

	SHA256(a->client.p, a->client.n, hash);
	buf_clear(&a->signature);
	assert_int_equal(
	    EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key), 1);
	assert_int_equal(EVP_DigestSignUpdate(md, a->data.p, a->data.n), 1);
	assert_int_equal(EVP_DigestSignUpdate(md, hash, 32), 1);
	assert_int_equal(
	    EVP_DigestSignFinal(md, buf_reserve(&a->signature, n), &n), 1);
	a->signature.n = n;
	EVP_MD_CTX_free(md);
	len = i2d_PUBKEY(key, &der);
	assert_true(len > 0);
	buf_clear(&a->spki);
	buf_add(&a->spki, der, (size_t)len);
	OPENSSL_free(der);
}

static void
free_answer(struct answer *a)
{
	buf_free(&a->data);
	buf_free(&a->client);
	buf_free(&a->signature);
	buf_free(&a->spki);
}

static bool
verifies(const struct answer *a)
{
	return seal_passkey_verify(buf_str(&a->spki), buf_str(&a->data),
	    buf_str(&a->client), buf_str(&a->signature));
}

static void
check_assertion(EVP_PKEY *key)
{
	struct answer a = { .ask = { .purpose = 's' } };
	struct buf *const parts[] = { &a.data, &a.client, &a.signature };
	size_t i, at;

	put_auth_data(&a.data, 5, 7);
	make_client(&a.client, &a.ask, "webauthn.get", ORIGIN,
	    ",\"crossOrigin\":false}");
	sign(&a, key);
	assert_true(verifies(&a));
	for (i = 0; i < 3; i++)
		for (at = 0; at < parts[i]->n; at += 7) {
			parts[i]->p[at] ^= 1;
			assert_false(verifies(&a));
			parts[i]->p[at] ^= 1;
		}
	assert_true(verifies(&a));
	sign(&a, key == ec ? rsa : ec);
	a.spki.n = 10;
	assert_false(verifies(&a));
	free_answer(&a);
}

static void
test_assertion(void **state)
{
	(void)state;
	check_assertion(ec);
	check_assertion(rsa);
}

static void
test_weak_keys(void **state)
{
	EVP_PKEY *const weak[] = { EVP_RSA_gen(1024), EVP_EC_gen("P-384"),
		EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		unsigned char *der = NULL;
		int n = i2d_PUBKEY(weak[i], &der);

		assert_true(n > 0);
		assert_false(seal_passkey_is_key(
		    (struct str){ (char *)der, (size_t)n }));
		OPENSSL_free(der);
		EVP_PKEY_free(weak[i]);
	}
}

static void
test_client_data(void **state)
{
	static const struct {
		const char *type, *origin, *tail;
		bool good;
	} cases[] = {
		{ "webauthn.get", ORIGIN, "}", true },
		{ "webauthn.get", ORIGIN, ",\"crossOrigin\":false}", true },
		{ "webauthn.get", ORIGIN,
		    ",\"crossOrigin\":false,\"other_keys\":\"x\"}", true },
		{ "webauthn.get", ORIGIN, ",\"crossOrigin\":true}", false },
		{ "webauthn.get", ORIGIN, ",\"crossOrigin\":falsetto}", false },
		{ "webauthn.get", ORIGIN,
		    ",\"topOrigin\":\"https://evil.example\"}", false },
		{ "webauthn.get", ORIGIN, "", false },
		{ "webauthn.get", ORIGIN, "} ", false },
		{ "webauthn.get", ORIGIN, ",\"crossOrigin\":false", false },
		{ "webauthn.create", ORIGIN, "}", false },
		{ "webauthn.get", "https://pages.example", "}", false },
		{ "webauthn.get", "https://evil.example", "}", false },
		{ "webauthn.get", ORIGIN ".evil.example", "}", false },
		{ "payment.get", ORIGIN, "}", false },
	};
	struct seal_passkey_ask ask = { .purpose = 's' }, other = ask;
	unsigned char challenge[32];
	struct buf b = { 0 };
	size_t i;

	(void)state;
	seal_passkey_challenge(challenge, &ask);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_client(
		    &b, &ask, cases[i].type, cases[i].origin, cases[i].tail);
		assert_int_equal(seal_passkey_client(buf_str(&b),
				     SEAL_PASSKEY_GET, challenge, ORIGIN),
		    cases[i].good);
	}
	other.nonce[31] = 1;
	make_client(&b, &other, "webauthn.get", ORIGIN, "}");
	assert_false(seal_passkey_client(
	    buf_str(&b), SEAL_PASSKEY_GET, challenge, ORIGIN));
	other = ask;
	other.purpose = 'i';
	make_client(&b, &other, "webauthn.get", ORIGIN, "}");
	assert_false(seal_passkey_client(
	    buf_str(&b), SEAL_PASSKEY_GET, challenge, ORIGIN));
	buf_free(&b);
}

static void
test_auth_data(void **state)
{
	struct seal_passkey_data seen;
	struct buf b = { 0 };
	size_t n;

	(void)state;
	put_auth_data(&b, 1, 0x01020304);
	assert_true(seal_passkey_data(&seen, buf_str(&b), RP));
	assert_true(seen.present && !seen.verified && !seen.has_credential);
	assert_int_equal(seen.count, 0x01020304);
	assert_false(seal_passkey_data(&seen, buf_str(&b), "evil.example"));
	for (n = 0; n < b.n; n++)
		assert_false(seal_passkey_data(
		    &seen, (struct str){ (char *)b.p, n }, RP));
	b.p[32] = 4; /* recognised, and yet nobody there */
	assert_false(seal_passkey_data(&seen, buf_str(&b), RP));
	buf_free(&b);
}

/* What is kept with a decision: each part stands for the others. */
static void
test_kept_assertion(void **state)
{
	struct answer a = { .ask = {
				.purpose = 'a', .version = 1, .round = 2 } };
	unsigned char proof[SEAL_PASSKEY_PROOF], pub[32], other[32];
	struct seal_assertion kept, again = { 0 };
	struct buf packed = { 0 };
	struct secret seed;
	EVP_PKEY *pkey;
	size_t n = 32;

	(void)state;
	memset(a.ask.digest, 7, 32);
	secret_random(&seed, 32);
	pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed.b, 32);
	assert_int_equal(EVP_PKEY_get_raw_public_key(pkey, pub, &n), 1);
	EVP_PKEY_free(pkey);
	put_auth_data(&a.data, 5, 7);
	make_client(&a.client, &a.ask, "webauthn.get", ORIGIN, "}");
	sign(&a, ec);
	kept = (struct seal_assertion){ a.ask, 3, str_lit("credential-id-16"),
		buf_str(&a.spki), { (char *)proof, sizeof(proof) },
		buf_str(&a.data), buf_str(&a.client), buf_str(&a.signature) };
	seal_passkey_prove(proof, &seed, 3, kept.credential, kept.public_key);
	assert_true(seal_assertion_ok(&kept, pub));
	kept.ask.digest[0] ^= 1;
	assert_false(seal_assertion_ok(&kept, pub));
	kept.ask.digest[0] ^= 1;
	kept.ask.round = 3;
	assert_false(seal_assertion_ok(&kept, pub));
	kept.ask.round = 2;
	kept.operator_id = 4;
	assert_false(seal_assertion_ok(&kept, pub));
	kept.operator_id = 3;
	memcpy(other, pub, 32);
	other[0] ^= 1;
	assert_false(seal_assertion_ok(&kept, other));
	assert_true(seal_assertion_pack(&packed, &kept));
	again.ask = kept.ask;
	memset(again.ask.nonce, 1, 32);
	assert_true(seal_assertion_read(&again, buf_str(&packed)));
	assert_true(seal_assertion_ok(&again, pub));
	for (n = 0; n < packed.n; n++)
		assert_false(seal_assertion_read(
		    &again, (struct str){ (char *)packed.p, n }));
	buf_free(&packed);
	free_answer(&a);
}

static void
test_rp_id(void **state)
{
	char id[16];

	(void)state;
	assert_true(seal_passkey_rp_id(id, sizeof(id), ORIGIN));
	assert_string_equal(id, RP);
	assert_true(seal_passkey_rp_id(id, sizeof(id), "https://localhost"));
	assert_string_equal(id, "localhost");
	assert_false(seal_passkey_rp_id(id, sizeof(id), "localhost"));
	assert_false(seal_passkey_rp_id(id, sizeof(id), "https://"));
	assert_false(seal_passkey_rp_id(
	    id, sizeof(id), "https://a-name-too-long.example"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registration),
		cmocka_unit_test(test_point_off_the_curve),
		cmocka_unit_test(test_hostile_cbor),
		cmocka_unit_test(test_key_map),
		cmocka_unit_test(test_assertion),
		cmocka_unit_test(test_weak_keys),
		cmocka_unit_test(test_client_data),
		cmocka_unit_test(test_auth_data),
		cmocka_unit_test(test_kept_assertion),
		cmocka_unit_test(test_rp_id),
	};
	struct err err = { 0 };

	if (!seal_init(&err))
		return 1;
	return cmocka_run_group_tests(tests, make_keys, free_keys);
}
