/* SPDX-License-Identifier: ISC */
/*
 * body.h - messages at rest (decision D7).
 *
 * An hour key is made per process, inbox and hour and sealed to the tenant
 * and to the inbox. Each message version has its own key, derived from the
 * hour key. The body is cut into segments of 64 KiB, each compressed when
 * that helps and encrypted so that none can be changed, moved, dropped or
 * cut off at the end; four segments make a chunk, a row in the database.
 * Memory: one segment and one chunk per body in work, grown as needed.
 */
#ifndef SEAL_BODY_H
#define SEAL_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

#define SEAL_SEGMENT 65536
#define SEAL_CHUNK_SEGMENTS 4
/* u32 length, kind byte and authenticator come on top of each segment. */
#define SEAL_CHUNK_MAX (SEAL_CHUNK_SEGMENTS * (SEAL_SEGMENT + 4 + 1 + 16))
#define SEAL_CHUNK_PLAIN (SEAL_CHUNK_SEGMENTS * SEAL_SEGMENT)
#define SEAL_HOUR_BOX (32 + 48)

/* Which version of which message. */
struct seal_id {
	unsigned char deployment[16];
	uint64_t tenant, inbox;
	struct uuid message;
	uint16_t version;
};

struct seal_hour {
	struct secret key; /* wipe with seal_hour_wipe() */
	unsigned char tenant_box[SEAL_HOUR_BOX];
	unsigned char inbox_box[SEAL_HOUR_BOX];
};

/* A new hour key and its two boxes. */
void seal_hour_new(struct seal_hour *h, const unsigned char tenant_pub[32],
    const unsigned char inbox_pub[32]);
void seal_hour_wipe(struct seal_hour *h);
/* Either box, with the pair it was sealed to. */
MUST_CHECK bool seal_hour_open(struct secret *hour, struct str box,
    const unsigned char pub[32], const struct secret *priv);

/* The key of one version of one message. */
void seal_message_key(
    struct secret *key, const struct secret *hour, const struct seal_id *id);

/* zstd contexts; one per worker, shared by all its bodies. */
struct seal_zstd *seal_zstd_new(void);
void seal_zstd_free(struct seal_zstd *z);

/*
 * Chunk `seq` (0, 1, ...) is ready; `p` is valid during the call. `last` is
 * set on the final one, which every body has, even an empty one.
 */
typedef void seal_chunk_fn(
    void *arg, uint32_t seq, const void *p, size_t n, bool last);

/* `z` is borrowed, `key` and `id` are copied. */
struct seal_body *seal_body_new(struct seal_zstd *z, const struct secret *key,
    const struct seal_id *id, seal_chunk_fn *chunk, void *arg);
void seal_body_add(struct seal_body *b, const void *p, size_t n);
/* Emits the last chunk. Nothing may be added afterwards. */
void seal_body_finish(struct seal_body *b);
/* Bytes taken so far. */
uint64_t seal_body_size(const struct seal_body *b);
/* Wipes. NULL is fine. */
void seal_body_free(struct seal_body *b);

/* Opened bytes, in order; valid during the call. */
typedef void seal_plain_fn(void *arg, const void *p, size_t n);

struct seal_open *seal_open_new(struct seal_zstd *z, const struct secret *key,
    const struct seal_id *id, seal_plain_fn *plain, void *arg);
/*
 * The next chunk row. False once anything is wrong; `plain` has then seen
 * only bytes that were authentic, but not all of them.
 */
MUST_CHECK bool seal_open_chunk(struct seal_open *o, const void *p, size_t n);
/* True when the last segment was seen and nothing came after it. */
MUST_CHECK bool seal_open_finish(const struct seal_open *o);
uint64_t seal_open_size(const struct seal_open *o);
/* Wipes. NULL is fine. */
void seal_open_free(struct seal_open *o);

#endif
