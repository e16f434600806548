/* SPDX-License-Identifier: ISC */
/*
 * keyfile.h - files of one key each: a line `postern-<type>-1 <52 base32>`.
 *
 * The type stands in the file, so a file in the wrong place is refused.
 */
#ifndef SEAL_KEYFILE_H
#define SEAL_KEYFILE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/secret.h"

enum seal_keyfile {
	SEAL_KEYFILE_REVIEW_PUB, /* public; X25519 */
	SEAL_KEYFILE_REVIEW, /* private half, postern-admin only */
	SEAL_KEYFILE_RELAY_PUB, /* public; X25519 */
	SEAL_KEYFILE_RELAY, /* private half, postern-deliver only */
	SEAL_KEYFILE_APPROVE, /* K_approve: postern-admin, postern-deliver */
	SEAL_KEYFILE_POLICY, /* K_policy: posternd, postern-deliver */
	SEAL_KEYFILE_SECRETS, /* seals one program's reversible secrets */
	SEAL_KEYFILE_AUDIT_PUB, /* public; Ed25519 */
	SEAL_KEYFILE_AUDIT, /* Ed25519 seed, postern-seal only */
	SEAL_KEYFILE_AUTH_PUB, /* public; Ed25519 */
	SEAL_KEYFILE_AUTH, /* Ed25519 seed, postern-auth only */
	SEAL_KEYFILE_IDENTITY_PUB, /* public; Ed25519 */
	SEAL_KEYFILE_IDENTITY, /* Ed25519 seed: postern-deliver */
	SEAL_KEYFILE_BOUNCE, /* MAC of return paths: postern-deliver */
};

/* "review-key": the type as it stands in the file. */
const char *seal_keyfile_name(enum seal_keyfile type);
bool seal_keyfile_is_public(enum seal_keyfile type);

/*
 * 32 bytes of the key. A private key's file must belong to root or to this
 * user, be unreadable for others and writable for nobody but its owner.
 * `err` says what to do.
 */
MUST_CHECK bool seal_keyfile_load(struct secret *key, const char *path,
    enum seal_keyfile type, struct err *err);
/*
 * Write a new file (0600, public 0644), flushed to disk. Never overwrites.
 */
MUST_CHECK bool seal_keyfile_save(const struct secret *key, const char *path,
    enum seal_keyfile type, struct err *err);
/*
 * Make a key and its file. For REVIEW, RELAY, AUDIT and AUTH `pub_path`
 * receives the public half; otherwise it is NULL.
 */
MUST_CHECK bool seal_keyfile_new(const char *path, enum seal_keyfile type,
    const char *pub_path, struct err *err);

#endif
