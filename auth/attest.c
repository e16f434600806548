/* SPDX-License-Identifier: ISC */
#include "auth/attest.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/x509.h>
#include <string.h>

#include "auth/cbor.h"

/* RFC 9053: labels of a COSE key, and the algorithms that are taken. */
enum {
	COSE_KTY = 1,
	COSE_ALG = 3,
	COSE_EC2 = 2,
	COSE_RSA = 3,
	COSE_P256 = 1,
	COSE_ES256 = -7,
	COSE_RS256 = -257
};

#define AAGUID 16
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 4096
#define ID_MIN 16
#define ID_MAX 1023

bool
attest_auth_data(struct str object, struct str *auth_data)
{
	struct str rest = object;
	struct cbor_item map, key, value;
	bool found = false;
	int64_t i;

	if (object.n > ATTEST_MAX || !cbor_next(&rest, &map) ||
	    map.kind != CBOR_PAIRS || map.v > 8)
		return false;
	for (i = 0; i < map.v; i++) {
		if (!cbor_next(&rest, &key) || key.kind != CBOR_TEXT)
			return false;
		if (!str_eq(key.s, str_lit("authData"))) {
			if (!cbor_skip(&rest))
				return false;
			continue;
		}
		if (found || !cbor_next(&rest, &value) ||
		    value.kind != CBOR_BYTES)
			return false;
		*auth_data = value.s;
		found = true;
	}
	return found && rest.n == 0;
}

struct cose {
	int64_t kty, alg, crv;
	struct str a, b; /* -2 and -3 (EC2), or -1 and -2 (RSA) */
	struct str n;
};

static bool
read_label(struct cose *k, int64_t label, const struct cbor_item *v)
{
	switch (label) {
	case COSE_KTY:
		k->kty = v->v;
		return v->kind == CBOR_INT && v->v > 0;
	case COSE_ALG:
		k->alg = v->v;
		return v->kind == CBOR_INT && v->v != 0;
	case -1:
		k->crv = v->v;
		k->n = v->s;
		return v->kind == CBOR_INT || v->kind == CBOR_BYTES;
	case -2:
		k->a = v->s;
		return v->kind == CBOR_BYTES;
	case -3:
		k->b = v->s;
		return v->kind == CBOR_BYTES;
	}
	return false; /* CTAP2 names exactly these */
}

static bool
read_cose(struct cose *k, struct str rest)
{
	struct cbor_item map, label, value;
	unsigned seen = 0;
	int64_t i;

	memset(k, 0, sizeof(*k));
	if (!cbor_next(&rest, &map) || map.kind != CBOR_PAIRS || map.v > 5)
		return false;
	for (i = 0; i < map.v; i++) {
		if (!cbor_next(&rest, &label) || label.kind != CBOR_INT ||
		    label.v < -3 || label.v > 3 ||
		    (seen & 1u << (label.v + 3)) != 0 ||
		    !cbor_next(&rest, &value) ||
		    !read_label(k, label.v, &value))
			return false;
		seen |= 1u << (label.v + 3);
	}
	return true;
}

/* A key from its numbers; OpenSSL refuses a point that is not on the curve. */
static EVP_PKEY *
make_key(const char *type, OSSL_PARAM_BLD *build)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
	EVP_PKEY *key = NULL;

	if (ctx == NULL || params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	OSSL_PARAM_free(params);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *
make_ec(const struct cose *k, OSSL_PARAM_BLD *build)
{
	unsigned char point[65] = { 4 };

	if (k->alg != COSE_ES256 || k->crv != COSE_P256 || k->a.n != 32 ||
	    k->b.n != 32)
		return NULL;
	memcpy(point + 1, k->a.p, 32);
	memcpy(point + 33, k->b.p, 32);
	if (OSSL_PARAM_BLD_push_utf8_string(
		build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) != 1 ||
	    OSSL_PARAM_BLD_push_octet_string(
		build, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)) != 1)
		return NULL;
	return make_key("EC", build);
}

static EVP_PKEY *
make_rsa(const struct cose *k, OSSL_PARAM_BLD *build)
{
	BIGNUM *n, *e;
	EVP_PKEY *key = NULL;

	if (k->alg != COSE_RS256 || k->n.n < 256 || k->n.n > 512 ||
	    k->a.n == 0 || k->a.n > 4)
		return NULL;
	n = BN_bin2bn((const unsigned char *)k->n.p, (int)k->n.n, NULL);
	e = BN_bin2bn((const unsigned char *)k->a.p, (int)k->a.n, NULL);
	if (n != NULL && e != NULL && BN_num_bits(n) >= RSA_BITS_MIN &&
	    BN_num_bits(n) <= RSA_BITS_MAX && BN_is_odd(e) &&
	    BN_num_bits(e) > 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1)
		key = make_key("RSA", build);
	BN_free(n);
	BN_free(e);
	return key;
}

static bool
put_key(struct buf *out, const struct cose *k)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	unsigned char *der = NULL;
	EVP_PKEY *key = NULL;
	int n = 0;

	if (build != NULL)
		key = k->kty == COSE_EC2   ? make_ec(k, build)
		      : k->kty == COSE_RSA ? make_rsa(k, build)
					   : NULL;
	if (key != NULL)
		n = i2d_PUBKEY(key, &der);
	if (n > 0)
		buf_add(out, der, (size_t)n);
	OPENSSL_free(der);
	EVP_PKEY_free(key);
	OSSL_PARAM_BLD_free(build);
	return n > 0;
}

bool
attest_credential(struct str rest, struct str *id, struct buf *key)
{
	const unsigned char *p = (const unsigned char *)rest.p;
	struct cose k;
	size_t n;

	if (rest.n < AAGUID + 2)
		return false;
	n = (size_t)p[AAGUID] << 8 | p[AAGUID + 1];
	if (n < ID_MIN || n > ID_MAX || n > rest.n - AAGUID - 2)
		return false;
	*id = (struct str){ rest.p + AAGUID + 2, n };
	rest.p += AAGUID + 2 + n;
	rest.n -= AAGUID + 2 + n;
	/* Extensions may follow the key; none was asked for. */
	return read_cose(&k, rest) && put_key(key, &k);
}
