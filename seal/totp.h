/* SPDX-License-Identifier: ISC */
/*
 * totp.h - one-time codes of RFC 6238 (SHA-1, 30 s, 6 digits: what every
 * authenticator app makes), their secrets at rest, and recovery codes.
 *
 * A secret is sealed with the secrets key of postern-auth and bound to one
 * operator: nonce 24 | XChaCha20-Poly1305-IETF(K, secret), K = BLAKE2b-256(key
 * = secrets key, AD), AD = lp("postern.totp.1") u64 operator.
 */
#ifndef SEAL_TOTP_H
#define SEAL_TOTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_TOTP_SECRET 20 /* RFC 4226 4 R6 */
#define SEAL_TOTP_STEP_S 30
#define SEAL_TOTP_BOX (24 + SEAL_TOTP_SECRET + 16)
#define SEAL_TOTP_TEXT 33 /* RFC 4648 base32 of the secret, and NUL */

/* The code of one step, with `digits` digits (6 to 8), and a NUL. */
void seal_totp_code(
    char out[9], const struct secret *key, uint64_t step, int digits);
/*
 * Is `code` that of the step `now_us` lies in, or of a neighbour (RFC 6238
 * 5.2)? The time it takes does not tell which digits fit.
 */
MUST_CHECK bool seal_totp_find(
    const struct secret *key, int64_t now_us, struct str code, uint64_t *step);
/* As people type it and apps read it. */
void seal_totp_text(char out[SEAL_TOTP_TEXT], const struct secret *key);

void seal_totp_box(unsigned char out[SEAL_TOTP_BOX], const struct secret *k,
    uint64_t operator_id, const struct secret *key);
MUST_CHECK bool seal_totp_open(struct secret *key, const struct secret *k,
    uint64_t operator_id, struct str box);

/* Recovery codes: "abcd-efgh-jkmn-pqrs", 80 bits. Stored is only a hash. */
#define SEAL_RECOVERY_TEXT 20 /* with the NUL */

void seal_recovery_new(char out[SEAL_RECOVERY_TEXT]);
/* False: not a code. Case, spaces and dashes do not matter. */
MUST_CHECK bool seal_recovery_hash(
    unsigned char out[32], uint64_t operator_id, struct str code);

#endif
