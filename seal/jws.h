/* SPDX-License-Identifier: ISC */
/*
 * jws.h - compact JWS with EdDSA (RFC 7515, 8037), and the set of keys that
 * verifies them (RFC 7517).
 */
#ifndef SEAL_JWS_H
#define SEAL_JWS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_KID_MAX 17 /* 16 hex digits and a NUL */

/* The first 8 bytes of SHA-256(pub). */
void seal_jws_kid(char out[SEAL_KID_MAX], const unsigned char pub[32]);
/* Appends the JWS; `seed` is the key file's 32 bytes. */
void seal_jws_sign(struct buf *out, const struct secret *seed, struct str text);
/* The key it names; false when it is no JWS of this kind. */
bool seal_jws_names(char kid[SEAL_KID_MAX], struct str jws);
/* Appends what was signed; false, and nothing, when it does not verify. */
MUST_CHECK bool seal_jws_verify(
    struct buf *out, struct str jws, const unsigned char pub[32]);

/* Append one key of a set: a JSON object. */
void seal_jwk_put(struct buf *out, const unsigned char pub[32]);

#endif
