/* SPDX-License-Identifier: ISC */
/*
 * page.c - page tokens (decision D13): filter hash 8 | last id 16 | MAC 16.
 * The key is the credential's own, so a token is worth nothing to another
 * key, and no server keeps anything.
 */
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "api/internal.h"
#include "base/xalloc.h"

#define FILTER_N 8
#define MAC_N 16
#define TOKEN_N (FILTER_N + 16 + MAC_N)

static void
seal(unsigned char token[TOKEN_N], const struct store_cred *cred,
    struct str filters, const struct uuid *last)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int n;

	BUG_ON(!EVP_Digest(filters.p, filters.n, sum, &n, EVP_sha256(), NULL));
	memcpy(token, sum, FILTER_N);
	memcpy(token + FILTER_N, last->b, 16);
	BUG_ON(HMAC(EVP_sha256(), cred->idem.b, (int)cred->idem.n, token,
		   FILTER_N + 16, sum, &n) == NULL);
	memcpy(token + FILTER_N + 16, sum, MAC_N);
}

void
api_page_token(char out[API_PAGE_TOKEN_MAX], const struct store_cred *cred,
    struct str filters, const struct uuid *last)
{
	unsigned char token[TOKEN_N];

	seal(token, cred, filters, last);
	base64url_encode(out, token, sizeof(token));
}

bool
api_page_parse(struct uuid *last, const struct store_cred *cred,
    struct str filters, struct str token)
{
	unsigned char given[API_PAGE_TOKEN_MAX], right[TOKEN_N];
	size_t n;

	if (token.n > 54 || !base64url_decode(given, &n, token.p, token.n) ||
	    n != TOKEN_N)
		return false;
	memcpy(last->b, given + FILTER_N, 16);
	seal(right, cred, filters, last);
	return CRYPTO_memcmp(given, right, TOKEN_N) == 0;
}
