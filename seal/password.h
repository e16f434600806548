/* SPDX-License-Identifier: ISC */
/*
 * password.h - passwords of people (decision D25): argon2id, by libsodium.
 *
 * The database keeps salt, parameters and SHA-256 of the output; the output
 * itself is what signs in. Takes 19 MiB and some 30 ms: call it in a pool.
 */
#ifndef SEAL_PASSWORD_H
#define SEAL_PASSWORD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_PASSWORD_SALT 16
#define SEAL_PASSWORD_OUTPUT 32
#define SEAL_PASSWORD_MIN 12 /* characters of a new one */
#define SEAL_PASSWORD_MAX 1024 /* bytes */

/* What new passwords get: memory in KiB, passes, lanes. */
#define SEAL_PASSWORD_PARAMS "argon2id m=19456 t=2 p=1"

/*
 * False when `params` are not of that form, or ask for more than 256 MiB or
 * 10 passes, or memory is short.
 */
MUST_CHECK bool seal_password_output(struct secret *out, struct str password,
    const unsigned char salt[SEAL_PASSWORD_SALT], const char *params);
/* SHA-256 of the output. */
void seal_password_verifier(
    unsigned char verifier[32], const struct secret *output);

#endif
