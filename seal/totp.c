/* SPDX-License-Identifier: ISC */
#include "seal/totp.h"

#include <string.h>

#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <sodium.h>

#include "base/buf.h"
#include "base/xalloc.h"

#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define DIGITS 6
#define RECOVERY_BYTES 10

void
seal_totp_code(char out[9], const struct secret *key, uint64_t step, int digits)
{
	static const uint32_t mod[] = { 1000000, 10000000, 100000000 };
	unsigned char counter[8], mac[SHA_DIGEST_LENGTH];
	uint32_t v;
	int i, at;

	BUG_ON(digits < 6 || digits > 8);
	for (i = 7; i >= 0; i--, step >>= 8)
		counter[i] = (unsigned char)step;
	BUG_ON(HMAC(EVP_sha1(), key->b, (int)key->n, counter, sizeof(counter),
		   mac, NULL) == NULL);
	at = mac[SHA_DIGEST_LENGTH - 1] & 15; /* RFC 4226 5.3 */
	v = (uint32_t)(mac[at] & 127) << 24 | (uint32_t)mac[at + 1] << 16 |
	    (uint32_t)mac[at + 2] << 8 | mac[at + 3];
	v %= mod[digits - 6];
	out[digits] = '\0';
	for (i = digits - 1; i >= 0; i--, v /= 10)
		out[i] = (char)('0' + v % 10);
	sodium_memzero(mac, sizeof(mac));
}

bool
seal_totp_find(
    const struct secret *key, int64_t now_us, struct str code, uint64_t *step)
{
	uint64_t now = (uint64_t)(now_us / 1000000 / SEAL_TOTP_STEP_S), at;
	char want[9];
	bool found = false;

	if (code.n != DIGITS || now_us < 60 * INT64_C(1000000))
		return false;
	for (at = now - 1; at <= now + 1; at++) {
		seal_totp_code(want, key, at, DIGITS);
		if (sodium_memcmp(want, code.p, DIGITS) == 0) {
			found = true;
			*step = at;
		}
	}
	sodium_memzero(want, sizeof(want));
	return found;
}

void
seal_totp_text(char out[SEAL_TOTP_TEXT], const struct secret *key)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
	size_t i, bit;

	BUG_ON(key->n != SEAL_TOTP_SECRET);
	for (i = 0, bit = 0; i < SEAL_TOTP_TEXT - 1; i++, bit += 5) {
		unsigned two = (unsigned)key->b[bit / 8] << 8 |
			       (bit / 8 + 1 < key->n ? key->b[bit / 8 + 1] : 0);

		out[i] = alphabet[two >> (11 - bit % 8) & 31];
	}
	out[SEAL_TOTP_TEXT - 1] = '\0';
}

static void
begin(struct secret *own, struct buf *ad, const struct secret *k,
    uint64_t operator_id)
{
	BUG_ON(k->n != 32);
	buf_lp(ad, "postern.totp.1", 14);
	buf_u64(ad, operator_id);
	BUG_ON(crypto_generichash(own->b, 32, ad->p, ad->n, k->b, k->n) != 0);
	own->n = 32;
}

void
seal_totp_box(unsigned char out[SEAL_TOTP_BOX], const struct secret *k,
    uint64_t operator_id, const struct secret *key)
{
	struct secret own = { 0 };
	struct buf ad = { 0 };

	BUG_ON(key->n != SEAL_TOTP_SECRET);
	begin(&own, &ad, k, operator_id);
	randombytes_buf(out, NONCE);
	BUG_ON(crypto_aead_xchacha20poly1305_ietf_encrypt(out + NONCE, NULL,
		   key->b, key->n, ad.p, ad.n, NULL, out, own.b) != 0);
	secret_wipe(&own);
	buf_free(&ad);
}

bool
seal_totp_open(struct secret *key, const struct secret *k, uint64_t operator_id,
    struct str box)
{
	const unsigned char *p = (const unsigned char *)box.p;
	struct secret own = { 0 };
	struct buf ad = { 0 };
	bool ok;

	secret_wipe(key);
	if (box.n != SEAL_TOTP_BOX)
		return false;
	begin(&own, &ad, k, operator_id);
	ok = crypto_aead_xchacha20poly1305_ietf_decrypt(key->b, NULL, NULL,
		 p + NONCE, box.n - NONCE, ad.p, ad.n, p, own.b) == 0;
	if (ok)
		key->n = SEAL_TOTP_SECRET;
	secret_wipe(&own);
	buf_free(&ad);
	return ok;
}

void
seal_recovery_new(char out[SEAL_RECOVERY_TEXT])
{
	char text[BASE32_LEN(RECOVERY_BYTES) + 1];
	struct secret random;
	size_t i, n = 0;

	secret_random(&random, RECOVERY_BYTES);
	base32_encode(text, random.b, RECOVERY_BYTES);
	for (i = 0; text[i] != '\0'; i++) {
		if (i != 0 && i % 4 == 0)
			out[n++] = '-';
		out[n++] = text[i];
	}
	out[n] = '\0';
	secret_wipe(&random);
	sodium_memzero(text, sizeof(text));
}

bool
seal_recovery_hash(unsigned char out[32], uint64_t operator_id, struct str code)
{
	char text[BASE32_LEN(RECOVERY_BYTES)];
	unsigned char bytes[RECOVERY_BYTES];
	struct buf b = { 0 };
	size_t i, n = 0;

	for (i = 0; i < code.n; i++) {
		if (code.p[i] == '-' || code.p[i] == ' ')
			continue;
		if (n == sizeof(text))
			return false;
		text[n++] = code.p[i];
	}
	str_lower(text, n);
	if (n != sizeof(text) || !base32_decode(bytes, sizeof(bytes), text, n))
		return false;
	buf_lp(&b, "postern.recovery.1", 18);
	buf_u64(&b, operator_id);
	buf_add(&b, bytes, sizeof(bytes));
	SHA256(b.p, b.n, out);
	buf_wipe(&b);
	buf_free(&b);
	sodium_memzero(bytes, sizeof(bytes));
	sodium_memzero(text, sizeof(text));
	return true;
}
