/* SPDX-License-Identifier: ISC */
/* audit.h - what sealing and verifying share. */
#ifndef CTL_AUDIT_H
#define CTL_AUDIT_H

#include "ctl/ctl.h"
#include "seal/audit.h"

/* Both in state_dir, kept by `seal` for a restore. */
#define HEADS_FILE "audit-heads"
#define REVOKED_FILE "revoked-keys"

struct audit_head {
	uint64_t block, rows;
	int64_t gen, xid, n; /* key of the block's last row */
	unsigned char hash[SEAL_HASH_LEN];
};

/*
 * Hash `rows` (not empty) behind `prev`: fills hash, rows and last key of
 * `next`; `root` is the same without `prev`.
 */
void audit_hash_block(json_t *rows, const unsigned char prev[32],
    struct audit_head *next, unsigned char root[SEAL_HASH_LEN]);

/* As `audit verify`, but silent when all is well. */
struct ctl_args;
int audit_verify_quietly(struct ctl *ctl, const struct ctl_args *args);

#endif
