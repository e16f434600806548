/* SPDX-License-Identifier: ISC */
#include "seal/release.h"

#include <sodium.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "seal/key.h"

#define RELAY_PLAIN (SEAL_RELAY_BOX - SEAL_BOX_EXTRA)
#define RELAY_LABEL "postern.rel.1"

/* The fields that tag and box have in common, in their order. */
static void
fields(struct buf *b, const struct seal_release *r)
{
	buf_add(b, r->deployment, 16);
	buf_u32(b, r->epoch);
	buf_u64(b, r->tenant);
	buf_u64(b, r->inbox);
	buf_add(b, r->message.b, 16);
	buf_u16(b, r->version);
	buf_u32(b, r->round);
	buf_add(b, r->digest, 32);
}

static void
mac(unsigned char out[SEAL_TAG_LEN], const struct secret *k,
    const struct buf *b)
{
	crypto_auth_hmacsha256_state st;

	BUG_ON(k->n != 32);
	crypto_auth_hmacsha256_init(&st, k->b, k->n);
	crypto_auth_hmacsha256_update(&st, b->p, b->n);
	crypto_auth_hmacsha256_final(&st, out);
	sodium_memzero(&st, sizeof(st));
}

void
seal_tag_approve(unsigned char out[SEAL_TAG_LEN], const struct secret *k,
    const struct seal_release *r)
{
	struct buf b = { 0 };

	buf_lp(&b, "postern.approve.1", 17);
	fields(&b, r);
	buf_u64(&b, r->expiry);
	mac(out, k, &b);
	buf_free(&b);
}

void
seal_tag_policy(unsigned char out[SEAL_TAG_LEN], const struct secret *k,
    const struct seal_release *r, uint16_t mode, uint32_t mode_epoch)
{
	struct buf b = { 0 };

	buf_lp(&b, "postern.policy.1", 16);
	fields(&b, r);
	buf_u64(&b, r->expiry);
	buf_u16(&b, mode);
	buf_u32(&b, mode_epoch);
	mac(out, k, &b);
	buf_free(&b);
}

bool
seal_tag_eq(const unsigned char want[SEAL_TAG_LEN], struct str tag)
{
	return tag.n == SEAL_TAG_LEN &&
	       sodium_memcmp(want, tag.p, SEAL_TAG_LEN) == 0;
}

void
seal_relay_box(unsigned char out[SEAL_RELAY_BOX],
    const unsigned char relay_pub[32], const struct secret *message_key,
    const struct seal_release *r)
{
	struct buf b = { 0 };

	BUG_ON(message_key->n != 32);
	buf_lp(&b, RELAY_LABEL, 13);
	buf_add(&b, message_key->b, 32);
	fields(&b, r);
	BUG_ON(b.n != RELAY_PLAIN);
	seal_box(out, relay_pub, b.p, b.n);
	buf_wipe(&b);
	buf_free(&b);
}

bool
seal_relay_open(struct secret *message_key, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    const struct seal_release *r)
{
	unsigned char plain[RELAY_PLAIN];
	struct buf want = { 0 };
	size_t head;
	bool ok;

	secret_wipe(message_key);
	if (box.n != SEAL_RELAY_BOX ||
	    !seal_box_open(plain, box, relay_pub, relay_priv))
		return false;
	buf_lp(&want, RELAY_LABEL, 13);
	head = want.n;
	fields(&want, r);
	ok =
	    memcmp(plain, want.p, head) == 0 &&
	    sodium_memcmp(plain + head + 32, want.p + head, want.n - head) == 0;
	buf_free(&want);
	if (ok)
		BUG_ON(!secret_set(message_key, plain + head, 32));
	sodium_memzero(plain, sizeof(plain));
	return ok;
}
