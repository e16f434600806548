/* SPDX-License-Identifier: ISC */
/*
 * release.h - what lets the worker send one version of one message once
 * decided: the release tag (decision A2) and the relay box (decision D7).
 *
 * The tag is a MAC by whoever may release, so that rows forged in the
 * database release nothing. The box hands the message key over to the
 * worker, which can open nothing else. Layouts: docs/formats.md.
 */
#ifndef SEAL_RELEASE_H
#define SEAL_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

#define SEAL_TAG_LEN 32
#define SEAL_RELAY_BOX (4 + 13 + 32 + 16 + 4 + 8 + 8 + 16 + 2 + 4 + 32 + 48)

struct seal_release {
	unsigned char deployment[16];
	uint32_t epoch;
	uint64_t tenant, inbox;
	struct uuid message;
	uint16_t version;
	uint32_t round;
	unsigned char digest[32];
	uint64_t expiry; /* us since 1970; in the tag, not in the box */
};

/* By an operator's approval, under K_approve. */
void seal_tag_approve(unsigned char out[SEAL_TAG_LEN], const struct secret *k,
    const struct seal_release *r);
/* By the inbox's mode or an allow rule, under K_policy. */
void seal_tag_policy(unsigned char out[SEAL_TAG_LEN], const struct secret *k,
    const struct seal_release *r, uint16_t mode, uint32_t mode_epoch);
/* Compare in constant time; `tag` as it came from the database. */
MUST_CHECK bool seal_tag_eq(
    const unsigned char want[SEAL_TAG_LEN], struct str tag);

void seal_relay_box(unsigned char out[SEAL_RELAY_BOX],
    const unsigned char relay_pub[32], const struct secret *message_key,
    const struct seal_release *r);
/*
 * False, and the key wiped, unless the box opens and names exactly the
 * deployment, epoch, tenant, inbox, message, version, round and digest of `r`.
 */
MUST_CHECK bool seal_relay_open(struct secret *message_key, struct str box,
    const unsigned char relay_pub[32], const struct secret *relay_priv,
    const struct seal_release *r);

#endif
