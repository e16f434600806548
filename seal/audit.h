/* SPDX-License-Identifier: ISC */
/*
 * audit.h - hashes and signatures of the audit log (decision D8).
 *
 * row = SHA-256 of the row's fields; block = SHA-256(block before | its row
 * hashes in (gen, xid, n) order); the head is signed with Ed25519.
 */
#ifndef SEAL_AUDIT_H
#define SEAL_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_HASH_LEN 32
#define SEAL_SIGNATURE_LEN 64

struct seal_audit_row {
	uint64_t gen, xid, n, tenant; /* tenant 0 = none */
	uint64_t at_us;
	struct str actor, event;
	struct str message; /* 16 bytes or empty */
	struct str detail; /* text as stored */
};

void seal_audit_row(
    unsigned char out[SEAL_HASH_LEN], const struct seal_audit_row *row);

/* Rows in order: begin with the block before (zeros for the first). */
struct seal_audit_block;
struct seal_audit_block *seal_audit_begin(const unsigned char prev[32]);
void seal_audit_add(struct seal_audit_block *b, const unsigned char row[32]);
/* Fills `out` and frees. `out` NULL: only free. */
void seal_audit_end(struct seal_audit_block *b, unsigned char out[32]);

/* `seed`, `pub`: the 32 bytes of the key files AUDIT and AUDIT_PUB. */
void seal_audit_sign(unsigned char out[SEAL_SIGNATURE_LEN],
    const struct secret *seed, uint64_t block, const unsigned char hash[32],
    uint64_t rows);
MUST_CHECK bool seal_audit_verify(struct str signature,
    const unsigned char pub[32], uint64_t block, const unsigned char hash[32],
    uint64_t rows);
void seal_audit_pub(unsigned char pub[32], const struct secret *seed);

#endif
