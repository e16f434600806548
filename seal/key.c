/* SPDX-License-Identifier: ISC */
/*
 * key.c - tokens, what is derived from them, and boxes.
 *
 * libsodium fails only on programming errors here (lengths are constants),
 * so failures of sealing are bugs; failures of opening are answers.
 */
#include "seal/key.h"

#include <sodium.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/sha256.h"
#include "base/xalloc.h"

#define SECRET_CHARS 52 /* base32 of 32 bytes */
#define CRC_CHARS 7 /* base32 of 4 bytes */

_Static_assert(SEAL_BOX_EXTRA == crypto_box_SEALBYTES, "box");
_Static_assert(
    SEAL_WRAPPED_LEN == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES + 32 +
			    crypto_aead_xchacha20poly1305_ietf_ABYTES,
    "wrap");

static const struct {
	const char *word;
} kinds[] = {
	[SEAL_TOKEN_LIVE] = { "live" },
	[SEAL_TOKEN_SESSION] = { "sess" },
	[SEAL_TOKEN_TEST] = { "test" },
	[SEAL_TOKEN_PROVISION] = { "prov" },
	[SEAL_TOKEN_OPERATOR] = { "op" },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

bool
seal_init(struct err *err)
{
	if (sodium_init() >= 0)
		return true;
	err_set(err, 1, "libsodium does not start: no random numbers");
	return false;
}

/* A number as printf would write it: no leading zero, 1 .. INT64_MAX. */
static bool
number_parse(struct str s, uint64_t *out)
{
	unsigned long long v;

	if (s.n == 0 || s.p[0] == '0' || !str_to_u64(s, INT64_MAX, &v))
		return false;
	*out = v;
	return true;
}

static bool
kind_parse(struct str word, enum seal_token_kind *out)
{
	size_t i;

	for (i = 0; i < KINDS; i++) {
		if (str_eq(word, str_of(kinds[i].word))) {
			*out = (enum seal_token_kind)i;
			return true;
		}
	}
	return false;
}

/* CRC-32 of `n` bytes of text as the big-endian base32 at its end. */
static void
crc_text(char out[CRC_CHARS + 1], const char *p, size_t n)
{
	uint32_t crc = crc32_ieee(0, p, n);
	unsigned char be[4] = { (unsigned char)(crc >> 24),
		(unsigned char)(crc >> 16), (unsigned char)(crc >> 8),
		(unsigned char)crc };

	base32_encode(out, be, sizeof(be));
}

bool
seal_token_parse(struct seal_token *t, struct str text)
{
	char crc[CRC_CHARS + 1];
	struct str rest = text, head;

	memset(t, 0, sizeof(*t));
	if (text.n >= SEAL_TOKEN_MAX || text.n < CRC_CHARS + SECRET_CHARS)
		return false;
	crc_text(crc, text.p, text.n - CRC_CHARS);
	if (memcmp(crc, text.p + text.n - CRC_CHARS, CRC_CHARS) != 0)
		return false;
	rest.n -= CRC_CHARS;
	head = str_split(&rest, '_');
	if (!str_eq(head, str_lit("pst")))
		return false;
	if (!kind_parse(str_split(&rest, '_'), &t->kind) ||
	    !number_parse(str_split(&rest, '_'), &t->tenant) ||
	    !number_parse(str_split(&rest, '_'), &t->key) ||
	    rest.n != SECRET_CHARS ||
	    !base32_decode(t->s.b, 32, rest.p, rest.n)) {
		seal_token_wipe(t);
		return false;
	}
	t->s.n = 32;
	return true;
}

void
seal_token_format(char out[SEAL_TOKEN_MAX], const struct seal_token *t)
{
	char secret[SECRET_CHARS + 1], crc[CRC_CHARS + 1];
	int n;

	BUG_ON(t->s.n != 32 || (size_t)t->kind >= KINDS);
	base32_encode(secret, t->s.b, 32);
	n = snprintf(out, SEAL_TOKEN_MAX, "pst_%s_%llu_%llu_%s",
	    kinds[t->kind].word, (unsigned long long)t->tenant,
	    (unsigned long long)t->key, secret);
	sodium_memzero(secret, sizeof(secret));
	BUG_ON(n < 0 || n + CRC_CHARS >= SEAL_TOKEN_MAX);
	crc_text(crc, out, (size_t)n);
	memcpy(out + n, crc, CRC_CHARS + 1);
}

void
seal_token_wipe(struct seal_token *t)
{
	sodium_memzero(t, sizeof(*t));
}

static void
derive(struct secret *out, const struct secret *s, uint64_t id,
    const char context[9])
{
	struct secret from = *s;

	BUG_ON(s->n != crypto_kdf_KEYBYTES);
	secret_wipe(out);
	BUG_ON(crypto_kdf_derive_from_key(out->b, 32, id, context, from.b));
	out->n = 32;
	secret_wipe(&from);
}

void
seal_token_auth(struct secret *a, const struct secret *s)
{
	derive(a, s, 1, "pst.auth");
}

void
seal_token_kek(struct secret *kek, const struct secret *s)
{
	derive(kek, s, 2, "pst.kek1");
}

void
seal_token_idem(struct secret *idem, const struct secret *s)
{
	derive(idem, s, 3, "pst.idem");
}

void
seal_auth_hash(unsigned char out[32], const struct secret *a)
{
	sha256(out, a->b, a->n);
}

void
seal_pair_new(unsigned char pub[32], struct secret *priv)
{
	secret_random(priv, 32);
	seal_pair_pub(pub, priv);
}

void
seal_pair_pub(unsigned char pub[32], const struct secret *priv)
{
	BUG_ON(priv->n != 32);
	BUG_ON(crypto_scalarmult_base(pub, priv->b) != 0);
}

/* What a wrapped key is bound to. */
static void
wrap_ad(struct buf *ad, const unsigned char pub[32])
{
	buf_lp(ad, "postern.wrap.1", 14);
	buf_add(ad, pub, 32);
}

void
seal_wrap(unsigned char out[SEAL_WRAPPED_LEN], const struct secret *kek,
    const unsigned char pub[32], const struct secret *priv)
{
	struct buf ad = { 0 };

	BUG_ON(kek->n != 32 || priv->n != 32);
	wrap_ad(&ad, pub);
	randombytes_buf(out, 24);
	BUG_ON(crypto_aead_xchacha20poly1305_ietf_encrypt(out + 24, NULL,
		   priv->b, 32, ad.p, ad.n, NULL, out, kek->b) != 0);
	buf_free(&ad);
}

bool
seal_unwrap(struct secret *priv, const struct secret *kek,
    const unsigned char pub[32], struct str wrapped)
{
	const unsigned char *in = (const unsigned char *)wrapped.p;
	unsigned char check[32];
	struct buf ad = { 0 };
	bool ok;

	secret_wipe(priv);
	if (wrapped.n != SEAL_WRAPPED_LEN || kek->n != 32)
		return false;
	wrap_ad(&ad, pub);
	ok = crypto_aead_xchacha20poly1305_ietf_decrypt(priv->b, NULL, NULL,
		 in + 24, 32 + 16, ad.p, ad.n, in, kek->b) == 0;
	buf_free(&ad);
	if (ok) {
		priv->n = 32;
		seal_pair_pub(check, priv);
		ok = memcmp(check, pub, 32) == 0;
	}
	if (!ok)
		secret_wipe(priv);
	return ok;
}

void
seal_box(
    unsigned char *out, const unsigned char pub[32], const void *p, size_t n)
{
	BUG_ON(crypto_box_seal(out, p, n, pub) != 0);
}

bool
seal_box_open(unsigned char *out, struct str box, const unsigned char pub[32],
    const struct secret *priv)
{
	if (box.n < SEAL_BOX_EXTRA || priv->n != 32)
		return false;
	return crypto_box_seal_open(
		   out, (const unsigned char *)box.p, box.n, pub, priv->b) == 0;
}
