/* SPDX-License-Identifier: ISC */
/*
 * body.c - segments: compress, encrypt, number, and back.
 *
 * A segment's nonce is its number and whether it is the last, so segments
 * cannot be swapped, repeated or dropped, and the end cannot be cut off. A
 * key encrypts one body only, hence a counter as nonce is safe. A full
 * segment is written only when more follows or at the end, because only then
 * it is known whether it is the last.
 */
#include "seal/body.h"

#include <sodium.h>
#include <string.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "seal/key.h"

#define AEAD_TAG crypto_aead_xchacha20poly1305_ietf_ABYTES
#define NONCE_LEN crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define ZSTD_LEVEL 1
#define KIND_RAW 0
#define KIND_ZSTD 1
#define AD_LEN (18 + 8 + 16 + 2)

_Static_assert(SEAL_HOUR_BOX == 32 + SEAL_BOX_EXTRA, "hour box");

struct seal_zstd {
	ZSTD_CCtx *c;
	ZSTD_DCtx *d;
	unsigned char out[1 + SEAL_SEGMENT];
};

/* What both directions have. */
struct stream {
	struct seal_zstd *z;
	struct secret key;
	unsigned char ad[AD_LEN];
	uint64_t seq; /* of the next segment */
	uint64_t size; /* plain bytes so far */
};

struct seal_body {
	struct stream s;
	seal_chunk_fn *chunk;
	void *arg;
	uint32_t chunk_seq;
	unsigned in_chunk; /* segments in `out` */
	struct buf plain; /* less than a segment, or exactly one */
	struct buf out;
};

struct seal_open {
	struct stream s;
	seal_plain_fn *plain;
	void *arg;
	bool failed, ended;
};

void
seal_hour_new(struct seal_hour *h, const unsigned char tenant_pub[32],
    const unsigned char inbox_pub[32])
{
	secret_random(&h->key, 32);
	seal_box(h->tenant_box, tenant_pub, h->key.b, 32);
	seal_box(h->inbox_box, inbox_pub, h->key.b, 32);
}

void
seal_hour_wipe(struct seal_hour *h)
{
	sodium_memzero(h, sizeof(*h));
}

bool
seal_hour_open(struct secret *hour, struct str box, const unsigned char pub[32],
    const struct secret *priv)
{
	secret_wipe(hour);
	if (box.n != SEAL_HOUR_BOX || !seal_box_open(hour->b, box, pub, priv)) {
		secret_wipe(hour);
		return false;
	}
	hour->n = 32;
	return true;
}

void
seal_message_key(
    struct secret *key, const struct secret *hour, const struct seal_id *id)
{
	struct buf b = { 0 };

	BUG_ON(hour->n != 32);
	buf_lp(&b, "postern.msg.1", 13);
	buf_add(&b, id->deployment, 16);
	buf_u64(&b, id->tenant);
	buf_u64(&b, id->inbox);
	buf_add(&b, id->message.b, 16);
	buf_u16(&b, id->version);
	secret_wipe(key);
	BUG_ON(crypto_generichash(key->b, 32, b.p, b.n, hour->b, 32) != 0);
	key->n = 32;
	buf_free(&b);
}

struct seal_zstd *
seal_zstd_new(void)
{
	struct seal_zstd *z = xcalloc(1, sizeof(*z));

	z->c = ZSTD_createCCtx();
	z->d = ZSTD_createDCtx();
	BUG_ON(z->c == NULL || z->d == NULL);
	return z;
}

void
seal_zstd_free(struct seal_zstd *z)
{
	if (z == NULL)
		return;
	(void)ZSTD_freeCCtx(z->c);
	(void)ZSTD_freeDCtx(z->d);
	sodium_memzero(z->out, sizeof(z->out));
	free(z);
}

static void
stream_init(struct stream *s, struct seal_zstd *z, const struct secret *key,
    const struct seal_id *id)
{
	struct buf ad = { 0 };

	BUG_ON(key->n != 32);
	s->z = z;
	s->key = *key;
	buf_lp(&ad, "postern.body.1", 14);
	buf_u64(&ad, id->tenant);
	buf_add(&ad, id->message.b, 16);
	buf_u16(&ad, id->version);
	BUG_ON(ad.n != AD_LEN);
	memcpy(s->ad, ad.p, AD_LEN);
	buf_free(&ad);
}

static void
nonce_make(unsigned char nonce[NONCE_LEN], uint64_t seq, bool last)
{
	int i;

	memset(nonce, 0, NONCE_LEN);
	for (i = 0; i < 8; i++)
		nonce[i] = (unsigned char)(seq >> (56 - 8 * i));
	nonce[8] = last;
}

struct seal_body *
seal_body_new(struct seal_zstd *z, const struct secret *key,
    const struct seal_id *id, seal_chunk_fn *chunk, void *arg)
{
	struct seal_body *b = xcalloc(1, sizeof(*b));

	stream_init(&b->s, z, key, id);
	b->chunk = chunk;
	b->arg = arg;
	return b;
}

/* Kind byte and data into z->out; returns how many bytes. */
static size_t
segment_pack(struct seal_zstd *z, const unsigned char *p, size_t n)
{
	size_t got = 0;

	if (n > 64)
		got = ZSTD_compressCCtx(
		    z->c, z->out + 1, n - 1, p, n, ZSTD_LEVEL);
	if (got > 0 && !ZSTD_isError(got)) {
		z->out[0] = KIND_ZSTD;
		return got + 1;
	}
	z->out[0] = KIND_RAW;
	if (n > 0)
		memcpy(z->out + 1, p, n);
	return n + 1;
}

static void
segment_write(struct seal_body *b, bool last)
{
	unsigned char nonce[NONCE_LEN];
	unsigned char *to;
	size_t n = segment_pack(b->s.z, b->plain.p, b->plain.n);

	nonce_make(nonce, b->s.seq++, last);
	buf_u32(&b->out, (uint32_t)(n + AEAD_TAG));
	to = buf_reserve(&b->out, n + AEAD_TAG);
	BUG_ON(crypto_aead_xchacha20poly1305_ietf_encrypt(to, NULL, b->s.z->out,
		   n, b->s.ad, AD_LEN, NULL, nonce, b->s.key.b) != 0);
	b->out.n += n + AEAD_TAG;
	buf_clear(&b->plain);
	if (++b->in_chunk < SEAL_CHUNK_SEGMENTS && !last)
		return;
	b->chunk(b->arg, b->chunk_seq++, b->out.p, b->out.n, last);
	buf_clear(&b->out);
	b->in_chunk = 0;
}

void
seal_body_add(struct seal_body *b, const void *p, size_t n)
{
	const unsigned char *from = p;
	size_t take;

	b->s.size += n;
	while (n > 0) {
		if (b->plain.n == SEAL_SEGMENT)
			segment_write(b, false);
		take = SEAL_SEGMENT - b->plain.n;
		if (take > n)
			take = n;
		/* More than a small message: grown once, not moved twice. */
		if (b->plain.n + take > SEAL_SEGMENT / 4)
			(void)buf_reserve(&b->plain, SEAL_SEGMENT - b->plain.n);
		buf_add(&b->plain, from, take);
		from += take;
		n -= take;
	}
}

void
seal_body_finish(struct seal_body *b)
{
	segment_write(b, true);
}

uint64_t
seal_body_size(const struct seal_body *b)
{
	return b->s.size;
}

void
seal_body_free(struct seal_body *b)
{
	if (b == NULL)
		return;
	buf_wipe(&b->plain);
	buf_free(&b->plain);
	buf_free(&b->out);
	sodium_memzero(b, sizeof(*b));
	free(b);
}

struct seal_open *
seal_open_new(struct seal_zstd *z, const struct secret *key,
    const struct seal_id *id, seal_plain_fn *plain, void *arg)
{
	struct seal_open *o = xcalloc(1, sizeof(*o));

	stream_init(&o->s, z, key, id);
	o->plain = plain;
	o->arg = arg;
	return o;
}

/* Hand out what a decrypted segment holds. */
static bool
segment_unpack(struct seal_open *o, const unsigned char *p, size_t n)
{
	unsigned char *plain;
	size_t got;

	if (n > 0 && p[0] == KIND_RAW) {
		o->s.size += n - 1;
		o->plain(o->arg, p + 1, n - 1);
		return true;
	}
	if (n == 0 || p[0] != KIND_ZSTD)
		return false;
	plain = xmalloc(SEAL_SEGMENT);
	got = ZSTD_decompressDCtx(o->s.z->d, plain, SEAL_SEGMENT, p + 1, n - 1);
	if (!ZSTD_isError(got)) {
		o->s.size += got;
		o->plain(o->arg, plain, got);
	}
	sodium_memzero(plain, SEAL_SEGMENT);
	free(plain);
	return !ZSTD_isError(got);
}

static bool
segment_open(struct seal_open *o, const unsigned char *p, size_t n)
{
	unsigned char nonce[NONCE_LEN];
	unsigned char *to = o->s.z->out;
	bool last = false;

	if (o->ended || n < AEAD_TAG + 1 || n > AEAD_TAG + sizeof(o->s.z->out))
		return false;
	for (;; last = true) {
		nonce_make(nonce, o->s.seq, last);
		if (crypto_aead_xchacha20poly1305_ietf_decrypt(to, NULL, NULL,
			p, n, o->s.ad, AD_LEN, nonce, o->s.key.b) == 0)
			break;
		if (last)
			return false;
	}
	o->s.seq++;
	o->ended = last;
	return segment_unpack(o, to, n - AEAD_TAG);
}

bool
seal_open_chunk(struct seal_open *o, const void *p, size_t n)
{
	const unsigned char *in = p;
	size_t len;

	while (n > 0 && !o->failed) {
		len = n < 4 ? 0
			    : (size_t)in[0] << 24 | (size_t)in[1] << 16 |
				  (size_t)in[2] << 8 | in[3];
		if (n < 4 || len > n - 4 || !segment_open(o, in + 4, len)) {
			o->failed = true;
			break;
		}
		in += 4 + len;
		n -= 4 + len;
	}
	return !o->failed;
}

bool
seal_open_finish(const struct seal_open *o)
{
	return o->ended && !o->failed;
}

uint64_t
seal_open_size(const struct seal_open *o)
{
	return o->s.size;
}

void
seal_open_free(struct seal_open *o)
{
	if (o == NULL)
		return;
	sodium_memzero(o, sizeof(*o));
	free(o);
}
