/* SPDX-License-Identifier: ISC */
#include "seal/passkey.h"

#include <stdio.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <sodium.h>

#include "base/buf.h"
#include "base/xalloc.h"

enum { FLAG_PRESENT = 1, FLAG_VERIFIED = 4, FLAG_CREDENTIAL = 64 };

void
seal_passkey_challenge(
    unsigned char out[32], const struct seal_passkey_ask *ask)
{
	struct buf b = { 0 };

	buf_lp(&b, "postern.passkey.ask.1", 21);
	buf_u8(&b, (unsigned char)ask->purpose);
	buf_add(&b, ask->nonce, sizeof(ask->nonce));
	if (ask->purpose == 'a') {
		buf_add(&b, ask->message.b, sizeof(ask->message.b));
		buf_u16(&b, ask->version);
		buf_u32(&b, ask->round);
		buf_add(&b, ask->digest, sizeof(ask->digest));
	}
	SHA256(b.p, b.n, out);
	buf_free(&b);
}

/* Neither an origin of ours nor base64url needs escaping. */
static bool
is_plain(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s <= ' ' || *s > '~' || *s == '"' || *s == '\\')
			return false;
	return true;
}

bool
seal_passkey_client(struct str client_data, enum seal_passkey_kind kind,
    const unsigned char challenge[32], const char *origin)
{
	static const struct str same = { ",\"crossOrigin\":false", 20 };
	char text[BASE64_LEN(32) + 1];
	struct buf want = { 0 };
	struct str rest = client_data;
	bool ok;

	if (client_data.n > SEAL_PASSKEY_CLIENT_MAX ||
	    (origin != NULL && !is_plain(origin)))
		return false;
	base64url_encode(text, challenge, 32);
	buf_printf(&want,
	    "{\"type\":\"webauthn.%s\",\"challenge\":\"%s\",\"origin\":\"",
	    kind == SEAL_PASSKEY_CREATE ? "create" : "get", text);
	if (origin != NULL)
		buf_printf(&want, "%s\"", origin);
	ok = str_starts(rest, buf_str(&want));
	if (ok) {
		rest.p += want.n;
		rest.n -= want.n;
	}
	buf_free(&want);
	if (!ok || origin == NULL)
		return ok;
	/* Then it ends, or it says that no other site is around. */
	if (rest.n == 1)
		return rest.p[0] == '}';
	if (!str_starts(rest, same) || rest.n == same.n)
		return false;
	rest.p += same.n;
	rest.n -= same.n;
	return rest.n == 1 ? rest.p[0] == '}'
			   : rest.p[0] == ',' && rest.p[rest.n - 1] == '}';
}

bool
seal_passkey_data(
    struct seal_passkey_data *out, struct str auth_data, const char *rp_id)
{
	const unsigned char *p = (const unsigned char *)auth_data.p;
	unsigned char hash[SHA256_DIGEST_LENGTH];

	memset(out, 0, sizeof(*out));
	if (auth_data.n < 37 || auth_data.n > SEAL_PASSKEY_AUTH_MAX)
		return false;
	SHA256((const unsigned char *)rp_id, strlen(rp_id), hash);
	if (memcmp(p, hash, sizeof(hash)) != 0)
		return false;
	out->present = p[32] & FLAG_PRESENT;
	out->verified = p[32] & FLAG_VERIFIED;
	out->has_credential = p[32] & FLAG_CREDENTIAL;
	out->count = (uint32_t)p[33] << 24 | (uint32_t)p[34] << 16 |
		     (uint32_t)p[35] << 8 | p[36];
	out->rest = (struct str){ auth_data.p + 37, auth_data.n - 37 };
	return out->present;
}

/* The key of one of the kinds we take, or NULL. */
static EVP_PKEY *
read_key(struct str public_key)
{
	const unsigned char *p = (const unsigned char *)public_key.p;
	char group[64] = "";
	EVP_PKEY *key;
	bool ok;

	if (public_key.n == 0 || public_key.n > 1024)
		return NULL;
	key = d2i_PUBKEY(NULL, &p, (long)public_key.n);
	if (key == NULL)
		return NULL;
	ok = p == (const unsigned char *)public_key.p + public_key.n;
	if (EVP_PKEY_is_a(key, "EC"))
		ok = ok &&
		     EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) ==
			 1 &&
		     strcmp(group, "prime256v1") == 0;
	else
		ok = ok && EVP_PKEY_is_a(key, "RSA") &&
		     EVP_PKEY_get_bits(key) >= 2048 &&
		     EVP_PKEY_get_bits(key) <= 4096;
	if (!ok) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	return key;
}

bool
seal_passkey_is_key(struct str public_key)
{
	EVP_PKEY *key = read_key(public_key);

	EVP_PKEY_free(key);
	return key != NULL;
}

bool
seal_passkey_verify(struct str public_key, struct str auth_data,
    struct str client_data, struct str signature)
{
	EVP_PKEY *key = read_key(public_key);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char hash[SHA256_DIGEST_LENGTH];
	bool ok;

	SHA256((const unsigned char *)client_data.p, client_data.n, hash);
	ok = key != NULL && md != NULL && signature.n > 0 &&
	     signature.n <= SEAL_PASSKEY_SIGNATURE_MAX &&
	     EVP_DigestVerifyInit(md, NULL, EVP_sha256(), NULL, key) == 1 &&
	     EVP_DigestVerifyUpdate(md, auth_data.p, auth_data.n) == 1 &&
	     EVP_DigestVerifyUpdate(md, hash, sizeof(hash)) == 1 &&
	     EVP_DigestVerifyFinal(
		 md, (const unsigned char *)signature.p, signature.n) == 1;
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(key);
	return ok;
}

static void
proof_bytes(struct buf *b, uint64_t operator_id, struct str credential,
    struct str public_key)
{
	buf_lp(b, "postern.passkey.1", 17);
	buf_u64(b, operator_id);
	buf_lp(b, credential.p, credential.n);
	buf_lp(b, public_key.p, public_key.n);
}

void
seal_passkey_prove(unsigned char out[SEAL_PASSKEY_PROOF],
    const struct secret *seed, uint64_t operator_id, struct str credential,
    struct str public_key)
{
	unsigned char pub[32], priv[crypto_sign_SECRETKEYBYTES];
	struct buf b = { 0 };

	BUG_ON(seed->n != crypto_sign_SEEDBYTES);
	BUG_ON(crypto_sign_seed_keypair(pub, priv, seed->b) != 0);
	proof_bytes(&b, operator_id, credential, public_key);
	BUG_ON(crypto_sign_detached(out, NULL, b.p, b.n, priv) != 0);
	sodium_memzero(priv, sizeof(priv));
	buf_free(&b);
}

bool
seal_passkey_proven(struct str proof, const unsigned char pub[32],
    uint64_t operator_id, struct str credential, struct str public_key)
{
	struct buf b = { 0 };
	bool ok;

	if (proof.n != SEAL_PASSKEY_PROOF)
		return false;
	proof_bytes(&b, operator_id, credential, public_key);
	ok = crypto_sign_verify_detached(
		 (const unsigned char *)proof.p, b.p, b.n, pub) == 0;
	buf_free(&b);
	return ok;
}

bool
seal_assertion_ok(
    const struct seal_assertion *a, const unsigned char auth_pub[32])
{
	unsigned char challenge[32];

	seal_passkey_challenge(challenge, &a->ask);
	return seal_passkey_proven(a->proof, auth_pub, a->operator_id,
		   a->credential, a->public_key) &&
	       a->auth_data.n >= 37 &&
	       ((unsigned char)a->auth_data.p[32] & FLAG_PRESENT) != 0 &&
	       seal_passkey_client(
		   a->client_data, SEAL_PASSKEY_GET, challenge, NULL) &&
	       seal_passkey_verify(
		   a->public_key, a->auth_data, a->client_data, a->signature);
}

bool
seal_assertion_pack(struct buf *out, const struct seal_assertion *a)
{
	size_t at = out->n;

	buf_u64(out, a->operator_id);
	buf_lp(out, a->ask.nonce, sizeof(a->ask.nonce));
	buf_lp(out, a->credential.p, a->credential.n);
	buf_lp(out, a->public_key.p, a->public_key.n);
	buf_lp(out, a->proof.p, a->proof.n);
	buf_lp(out, a->auth_data.p, a->auth_data.n);
	buf_lp(out, a->client_data.p, a->client_data.n);
	buf_lp(out, a->signature.p, a->signature.n);
	if (out->n - at <= SEAL_ASSERTION_MAX)
		return true;
	out->n = at;
	return false;
}

bool
seal_assertion_read(struct seal_assertion *a, struct str packed)
{
	struct str nonce, rest;
	struct str *const to[] = { &nonce, &a->credential, &a->public_key,
		&a->proof, &a->auth_data, &a->client_data, &a->signature };
	size_t i;

	if (packed.n < 8 || packed.n > SEAL_ASSERTION_MAX)
		return false;
	a->operator_id = 0;
	for (i = 0; i < 8; i++)
		a->operator_id =
		    a->operator_id << 8 | (unsigned char)packed.p[i];
	rest = (struct str){ packed.p + 8, packed.n - 8 };
	for (i = 0; i < sizeof(to) / sizeof(to[0]); i++)
		if (!str_lp(&rest, to[i]))
			return false;
	if (rest.n != 0 || nonce.n != sizeof(a->ask.nonce))
		return false;
	memcpy(a->ask.nonce, nonce.p, nonce.n);
	return true;
}

bool
seal_passkey_rp_id(char *out, size_t size, const char *origin)
{
	const char *host = strstr(origin, "://");
	size_t n;

	if (host == NULL)
		return false;
	host += 3;
	n = strcspn(host, ":/");
	if (n == 0 || n >= size)
		return false;
	snprintf(out, size, "%.*s", (int)n, host);
	return true;
}
