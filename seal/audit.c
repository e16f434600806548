/* SPDX-License-Identifier: ISC */
#include "seal/audit.h"

#include <sodium.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/buf.h"
#include "base/xalloc.h"

struct seal_audit_block {
	EVP_MD_CTX *md;
};

void
seal_audit_row(
    unsigned char out[SEAL_HASH_LEN], const struct seal_audit_row *row)
{
	struct buf b = { 0 };

	buf_lp(&b, "postern.audit.1", 15);
	buf_u64(&b, row->gen);
	buf_u64(&b, row->xid);
	buf_u64(&b, row->n);
	buf_u64(&b, row->tenant);
	buf_u64(&b, row->at_us);
	buf_lp(&b, row->actor.p, row->actor.n);
	buf_lp(&b, row->event.p, row->event.n);
	buf_lp(&b, row->message.p, row->message.n);
	buf_lp(&b, row->detail.p, row->detail.n);
	SHA256(b.p, b.n, out);
	buf_free(&b);
}

struct seal_audit_block *
seal_audit_begin(const unsigned char prev[32])
{
	struct seal_audit_block *b = xcalloc(1, sizeof(*b));

	b->md = EVP_MD_CTX_new();
	BUG_ON(b->md == NULL || !EVP_DigestInit_ex(b->md, EVP_sha256(), NULL));
	seal_audit_add(b, prev);
	return b;
}

void
seal_audit_add(struct seal_audit_block *b, const unsigned char row[32])
{
	BUG_ON(!EVP_DigestUpdate(b->md, row, 32));
}

void
seal_audit_end(struct seal_audit_block *b, unsigned char out[32])
{
	if (out != NULL)
		BUG_ON(!EVP_DigestFinal_ex(b->md, out, NULL));
	EVP_MD_CTX_free(b->md);
	free(b);
}

/* lp("postern.seal.1") u64 block, hash, u64 rows */
static void
head_bytes(
    struct buf *b, uint64_t block, const unsigned char hash[32], uint64_t rows)
{
	buf_lp(b, "postern.seal.1", 14);
	buf_u64(b, block);
	buf_add(b, hash, 32);
	buf_u64(b, rows);
}

void
seal_audit_sign(unsigned char out[SEAL_SIGNATURE_LEN],
    const struct secret *seed, uint64_t block, const unsigned char hash[32],
    uint64_t rows)
{
	unsigned char pub[32], priv[crypto_sign_SECRETKEYBYTES];
	struct buf b = { 0 };

	BUG_ON(seed->n != crypto_sign_SEEDBYTES);
	BUG_ON(crypto_sign_seed_keypair(pub, priv, seed->b) != 0);
	head_bytes(&b, block, hash, rows);
	BUG_ON(crypto_sign_detached(out, NULL, b.p, b.n, priv) != 0);
	sodium_memzero(priv, sizeof(priv));
	buf_free(&b);
}

bool
seal_audit_verify(struct str signature, const unsigned char pub[32],
    uint64_t block, const unsigned char hash[32], uint64_t rows)
{
	struct buf b = { 0 };
	bool ok;

	if (signature.n != SEAL_SIGNATURE_LEN)
		return false;
	head_bytes(&b, block, hash, rows);
	ok = crypto_sign_verify_detached(
		 (const unsigned char *)signature.p, b.p, b.n, pub) == 0;
	buf_free(&b);
	return ok;
}

void
seal_audit_pub(unsigned char pub[32], const struct secret *seed)
{
	unsigned char priv[crypto_sign_SECRETKEYBYTES];

	BUG_ON(seed->n != crypto_sign_SEEDBYTES);
	BUG_ON(crypto_sign_seed_keypair(pub, priv, seed->b) != 0);
	sodium_memzero(priv, sizeof(priv));
}
