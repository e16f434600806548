/* SPDX-License-Identifier: ISC */
#include "mail/digest.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/sha256.h"
#include "base/xalloc.h"

#define PREFIX "sha256:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

struct body_tag {
	crypto_generichash_state hash; /* keyed BLAKE2b, RFC 7693 */
};

void
digest_compute(unsigned char out[DIGEST_LEN], const struct digest_input *in)
{
	struct buf b = { 0 };
	uint32_t i;

	buf_lp(&b, "postern.digest.1", 16);
	buf_u64(&b, in->tenant);
	buf_u64(&b, in->inbox);
	buf_add(&b, in->message.b, 16);
	buf_u16(&b, in->version);
	buf_u8(&b, in->test);
	buf_lp(&b, in->mail_from.p, in->mail_from.n);
	buf_u32(&b, in->rcpt_count);
	for (i = 0; i < in->rcpt_count; i++)
		buf_lp(&b, in->rcpt[i].p, in->rcpt[i].n);
	buf_lp(&b, in->params.p, in->params.n);
	buf_u64(&b, in->size);
	buf_lp(&b, in->body_tag, 32);
	buf_u64(&b, in->send_at);
	buf_u64(&b, in->not_after);
	sha256(out, b.p, b.n);
	buf_free(&b);
}

void
digest_format(char out[DIGEST_TEXT_MAX], const unsigned char digest[DIGEST_LEN])
{
	memcpy(out, PREFIX, PREFIX_LEN);
	hex_encode(out + PREFIX_LEN, digest, DIGEST_LEN);
}

bool
digest_parse(unsigned char out[DIGEST_LEN], struct str text)
{
	return str_starts(text, str_lit(PREFIX)) &&
	       hex_decode(
		   out, DIGEST_LEN, text.p + PREFIX_LEN, text.n - PREFIX_LEN);
}

struct body_tag *
body_tag_new(const struct secret *message_key)
{
	struct body_tag *t;

	BUG_ON(message_key->n != 32);
	t = aligned_alloc(_Alignof(struct body_tag), sizeof(*t));
	BUG_ON(t == NULL ||
	       crypto_generichash_init(&t->hash, message_key->b, 32, 32) != 0);
	return t;
}

void
body_tag_add(struct body_tag *t, const void *p, size_t n)
{
	BUG_ON(crypto_generichash_update(&t->hash, p, n) != 0);
}

void
body_tag_end(struct body_tag *t, unsigned char out[32])
{
	if (t == NULL)
		return;
	if (out != NULL)
		BUG_ON(crypto_generichash_final(&t->hash, out, 32) != 0);
	sodium_memzero(t, sizeof(*t));
	free(t);
}
