/* SPDX-License-Identifier: ISC */
/*
 * message_open.h - from sealed rows to the bytes of one message
 *
 * Keys first (decision D7): review key -> tenant key -> hour key -> message
 * key; then chunk after chunk. What comes out is checked against the body tag
 * and the digest before anybody sees it.
 */
#ifndef ADMIN_MESSAGE_OPEN_H
#define ADMIN_MESSAGE_OPEN_H

#include "admin/page.h"

struct body_tag;
struct seal_open;
struct seal_zstd;

#define OPEN_AT_ONCE 4 /* bodies in memory at one time */

struct message_open {
	struct page *page;
	struct uuid message;
	int version;
	const char *why; /* reason to open decided mail, or NULL */
	struct review_keys keys;
	struct review_chunks chunks;
	struct arena batch;
	struct secret message_key;
	struct buf bytes;
	struct seal_zstd *zstd;
	struct seal_open *open;
	struct body_tag *tag;
	int next;
	bool counted;
	const char *problem; /* NULL: `bytes` are whole and authentic */
	page_fn *then;
};

/* Runs `then` when the bytes are there or `problem` says why not. */
void message_open_start(struct message_open *o, struct page *page,
    const struct uuid *message, int version, const char *why, page_fn *then);
/* Wipes. */
void message_open_clear(struct message_open *o);

/*
 * The message key from a review_keys answer; false if the boxes do not open
 * with this program's review key.
 */
bool message_open_key(const struct admin *admin, const struct review_keys *keys,
    const struct uuid *message, struct secret *message_key);
/* Is the digest that of the columns, and of these bytes' tag? */
bool message_digest_ok(const struct review_message *m,
    const unsigned char body_tag[32], struct arena *mem);

#endif
