/* SPDX-License-Identifier: ISC */
#include "mail/digest.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/xalloc.h"

#define PREFIX "sha256:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

struct body_tag {
	EVP_MAC_CTX *mac;
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
	SHA256(b.p, b.n, out);
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
	struct body_tag *t = xcalloc(1, sizeof(*t));
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "BLAKE2BMAC", NULL);
	size_t size = 32;
	OSSL_PARAM params[2];

	BUG_ON(message_key->n != 32 || mac == NULL);
	params[0] = OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size);
	params[1] = OSSL_PARAM_construct_end();
	t->mac = EVP_MAC_CTX_new(mac);
	BUG_ON(t->mac == NULL ||
	       !EVP_MAC_init(t->mac, message_key->b, message_key->n, params));
	EVP_MAC_free(mac);
	return t;
}

void
body_tag_add(struct body_tag *t, const void *p, size_t n)
{
	BUG_ON(!EVP_MAC_update(t->mac, p, n));
}

void
body_tag_end(struct body_tag *t, unsigned char out[32])
{
	size_t n;

	if (t == NULL)
		return;
	if (out != NULL)
		BUG_ON(!EVP_MAC_final(t->mac, out, &n, 32) || n != 32);
	EVP_MAC_CTX_free(t->mac);
	free(t);
}
