/* SPDX-License-Identifier: ISC */
#include "seal/jws.h"

#include <openssl/sha.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/xalloc.h"

#define HEAD_BEFORE "{\"alg\":\"EdDSA\",\"typ\":\"postern-identity\",\"kid\":\""
#define HEAD_AFTER "\"}"
#define TEXT_MAX 65536

void
seal_jws_kid(char out[SEAL_KID_MAX], const unsigned char pub[32])
{
	unsigned char hash[32];

	SHA256(pub, 32, hash);
	hex_encode(out, hash, 8);
}

static void
put_base64(struct buf *out, const void *p, size_t n)
{
	char *text = xmalloc(BASE64_LEN(n) + 1);

	base64url_encode(text, p, n);
	buf_puts(out, text);
	free(text);
}

void
seal_jws_sign(struct buf *out, const struct secret *seed, struct str text)
{
	unsigned char pub[32], key[64], sig[64];
	char kid[SEAL_KID_MAX];
	struct buf head = { 0 };
	size_t from = out->n;

	BUG_ON(seed->n != 32);
	(void)crypto_sign_seed_keypair(pub, key, seed->b);
	seal_jws_kid(kid, pub);
	buf_printf(&head, "%s%s%s", HEAD_BEFORE, kid, HEAD_AFTER);
	put_base64(out, head.p, head.n);
	buf_putc(out, '.');
	put_base64(out, text.p, text.n);
	(void)crypto_sign_detached(
	    sig, NULL, out->p + from, out->n - from, key);
	buf_putc(out, '.');
	put_base64(out, sig, sizeof(sig));
	sodium_memzero(key, sizeof(key));
	buf_free(&head);
}

/* Appends the decoded part; false when it is not base64url. */
static bool
decode(struct buf *out, struct str part)
{
	size_t n = 0;

	if (part.n == 0 || part.n > TEXT_MAX ||
	    !base64url_decode(
		buf_reserve(out, (part.n + 3) / 4 * 3), &n, part.p, part.n))
		return false;
	out->n += n;
	return true;
}

/* Exactly the header that we write, so that no other algorithm is heard of. */
bool
seal_jws_names(char kid[SEAL_KID_MAX], struct str jws)
{
	struct str before = str_lit(HEAD_BEFORE), after = str_lit(HEAD_AFTER);
	struct buf head = { 0 };
	bool ok = decode(&head, str_split(&jws, '.')) &&
		  head.n == before.n + SEAL_KID_MAX - 1 + after.n &&
		  memcmp(head.p, before.p, before.n) == 0 &&
		  memcmp(head.p + head.n - after.n, after.p, after.n) == 0;

	if (ok) {
		memcpy(kid, head.p + before.n, SEAL_KID_MAX - 1);
		kid[SEAL_KID_MAX - 1] = '\0';
	}
	buf_free(&head);
	return ok;
}

bool
seal_jws_verify(struct buf *out, struct str jws, const unsigned char pub[32])
{
	const char *dot = memrchr(jws.p, '.', jws.n);
	struct str said = { jws.p, dot != NULL ? (size_t)(dot - jws.p) : 0 };
	struct str sig_text = { dot + 1, jws.n - said.n - 1 }, text = said;
	char kid[SEAL_KID_MAX], want[SEAL_KID_MAX];
	struct buf sig = { 0 };
	size_t before = out->n;
	bool ok;

	seal_jws_kid(want, pub);
	ok = dot != NULL && seal_jws_names(kid, jws) &&
	     strcmp(kid, want) == 0 && decode(&sig, sig_text) && sig.n == 64 &&
	     crypto_sign_verify_detached(
		 sig.p, (const unsigned char *)said.p, said.n, pub) == 0;
	(void)str_split(&text, '.');
	ok = ok && decode(out, text);
	if (!ok)
		out->n = before;
	buf_free(&sig);
	return ok;
}

void
seal_jwk_put(struct buf *out, const unsigned char pub[32])
{
	char kid[SEAL_KID_MAX], x[BASE64_LEN(32) + 1];

	seal_jws_kid(kid, pub);
	base64url_encode(x, pub, 32);
	buf_printf(out,
	    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"alg\":\"EdDSA\","
	    "\"use\":\"sig\",\"kid\":\"%s\",\"x\":\"%s\"}",
	    kid, x);
}
