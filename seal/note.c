/* SPDX-License-Identifier: ISC */
#include "seal/note.h"

#include <stdlib.h>

#include <sodium.h>

#include "base/err.h"
#include "base/xalloc.h"

#define NAME "postern.note.1"
#define NONCE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG crypto_aead_xchacha20poly1305_ietf_ABYTES

_Static_assert(SEAL_NOTE_EXTRA == NONCE + TAG, "the layout of note.h");

/* The key of notes, and what is authenticated beside the text. */
static void
begin(struct secret *own, struct buf *ad, const struct secret *key)
{
	BUG_ON(key->n != 32);
	buf_lp(ad, NAME, sizeof(NAME) - 1);
	BUG_ON(
	    crypto_generichash(own->b, 32, ad->p, ad->n, key->b, key->n) != 0);
	own->n = 32;
}

void
seal_note(struct buf *out, const struct secret *key, struct str text)
{
	unsigned char *to = xmalloc(SEAL_NOTE_EXTRA + text.n);
	struct secret own = { 0 };
	struct buf ad = { 0 };

	begin(&own, &ad, key);
	randombytes_buf(to, NONCE);
	BUG_ON(crypto_aead_xchacha20poly1305_ietf_encrypt(to + NONCE, NULL,
		   (const unsigned char *)text.p, text.n, ad.p, ad.n, NULL, to,
		   own.b) != 0);
	buf_add(out, to, SEAL_NOTE_EXTRA + text.n);
	secret_wipe(&own);
	buf_free(&ad);
	free(to);
}

bool
seal_note_open(struct buf *out, const struct secret *key, struct str sealed)
{
	const unsigned char *p = (const unsigned char *)sealed.p;
	unsigned char *to;
	struct secret own = { 0 };
	struct buf ad = { 0 };
	bool ok;

	if (sealed.n < SEAL_NOTE_EXTRA)
		return false;
	to = xmalloc(sealed.n);
	begin(&own, &ad, key);
	ok = crypto_aead_xchacha20poly1305_ietf_decrypt(to, NULL, NULL,
		 p + NONCE, sealed.n - NONCE, ad.p, ad.n, p, own.b) == 0;
	if (ok)
		buf_add(out, to, sealed.n - SEAL_NOTE_EXTRA);
	secret_wipe(&own);
	sodium_memzero(to, sealed.n);
	buf_free(&ad);
	free(to);
	return ok;
}
