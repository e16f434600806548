/* SPDX-License-Identifier: ISC */
/*
 * vault.h - bytes under a passphrase: the key files in a backup.
 *
 * A line "postern-vault-1 argon2id m=262144 t=3 p=1", 16 bytes of salt, 24 of
 * nonce, then XChaCha20-Poly1305 with line and salt as associated data. What
 * lies beside a vault is vouched for by HMAC-SHA-256 under a key derived from
 * the vault's, crypto_kdf number 1 in context "pst.back".
 */
#ifndef SEAL_VAULT_H
#define SEAL_VAULT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_VAULT_PHRASE_MIN 12 /* bytes of a passphrase */
#define SEAL_VAULT_MAX (4 << 20) /* bytes inside */

#define SEAL_VAULT_MAC 32

/*
 * Takes 256 MiB and about a second. `out` is appended to; `beside`, unless
 * NULL, becomes the key for seal_vault_mac(), which the caller wipes.
 */
MUST_CHECK bool seal_vault_close(struct buf *out, struct secret *beside,
    struct str phrase, struct str plain, struct err *err);
/* The same; `err` says whether the phrase is wrong or the file is none. */
MUST_CHECK bool seal_vault_open(struct buf *out, struct secret *beside,
    struct str phrase, struct str box, struct err *err);

/* Of a file beside the vault; compare it in constant time. */
void seal_vault_mac(unsigned char out[SEAL_VAULT_MAC],
    const struct secret *beside, struct str bytes);

#endif
