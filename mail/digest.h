/* SPDX-License-Identifier: ISC */
/*
 * digest.h - the fingerprint of a message version (decision D4): all that
 * leaves is in it, so what was approved is what is sent.
 */
#ifndef MAIL_DIGEST_H
#define MAIL_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

#define DIGEST_LEN 32
#define DIGEST_TEXT_MAX 72 /* "sha256:<64 hex>" and a NUL */

struct digest_input {
	uint64_t tenant, inbox;
	struct uuid message;
	uint16_t version;
	bool test;
	struct str mail_from;
	const struct str *rcpt; /* folded and byte-sorted */
	uint32_t rcpt_count;
	struct str params;
	uint64_t size;
	unsigned char body_tag[32];
	uint64_t send_at, not_after; /* us since 1970, 0 = none */
};

void digest_compute(
    unsigned char out[DIGEST_LEN], const struct digest_input *in);
void digest_format(
    char out[DIGEST_TEXT_MAX], const unsigned char digest[DIGEST_LEN]);
/* "sha256:<64 hex>"; false when it is not. */
bool digest_parse(unsigned char out[DIGEST_LEN], struct str text);

/* body_tag = BLAKE2b-256(key = message key, frozen bytes), piecewise. */
struct body_tag;
struct body_tag *body_tag_new(const struct secret *message_key);
void body_tag_add(struct body_tag *t, const void *p, size_t n);
/* Fills `out` and frees. `out` NULL: only free. `t` NULL is fine. */
void body_tag_end(struct body_tag *t, unsigned char out[32]);

#endif
