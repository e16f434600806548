/* SPDX-License-Identifier: ISC */
/*
 * attest.h - the new credential in what an authenticator answers to a
 * registration (WebAuthn 6.5). Pure; reads CBOR of a browser.
 */
#ifndef AUTH_ATTEST_H
#define AUTH_ATTEST_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define ATTEST_MAX 8192

/* The authData of an attestation object; borrowed from it. */
MUST_CHECK bool attest_auth_data(struct str object, struct str *auth_data);

/*
 * What follows the counter of auth data with a credential: its id, borrowed,
 * and its key as SubjectPublicKeyInfo, appended to `key`. ES256 and RS256.
 */
MUST_CHECK bool attest_credential(
    struct str rest, struct str *id, struct buf *key);

#endif
