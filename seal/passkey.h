/* SPDX-License-Identifier: ISC */
/*
 * passkey.h - judging what an authenticator signed (WebAuthn Level 2).
 *
 * Pure functions over bytes that came from a browser, so every length is
 * checked first. A public key is an X.509 SubjectPublicKeyInfo: ES256 (P-256)
 * or RS256 (2048 bits and more). No attestation is judged (decision 0071).
 */
#ifndef SEAL_PASSKEY_H
#define SEAL_PASSKEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

#define SEAL_PASSKEY_CLIENT_MAX 2048
#define SEAL_PASSKEY_AUTH_MAX 4096
#define SEAL_PASSKEY_SIGNATURE_MAX 1024
#define SEAL_PASSKEY_PROOF 64

enum seal_passkey_kind { SEAL_PASSKEY_CREATE, SEAL_PASSKEY_GET };

/* What is asked: for an approval also of exactly which bytes. */
struct seal_passkey_ask {
	char purpose; /* i sign-in, s step-up, r registration, a approval */
	unsigned char nonce[32];
	struct uuid message; /* these four only for 'a' */
	uint16_t version;
	uint32_t round;
	unsigned char digest[32];
};
/*
 * SHA-256(lp("postern.passkey.ask.1") purpose nonce [uuid u16 version u32
 * round, 32 digest]): what the browser is given as challenge.
 */
void seal_passkey_challenge(
    unsigned char out[32], const struct seal_passkey_ask *ask);

/*
 * Does the client data name this kind, challenge and origin, and no other
 * site around it? By WebAuthn 5.8.1.2, which compares a prefix and needs no
 * JSON parser. `origin` NULL: whichever it was.
 */
MUST_CHECK bool seal_passkey_client(struct str client_data,
    enum seal_passkey_kind kind, const unsigned char challenge[32],
    const char *origin);

struct seal_passkey_data {
	bool present, verified; /* a person touched it; was recognised */
	bool has_credential;
	uint32_t count;
	struct str rest; /* behind the counter */
};
/* False unless it was made for `rp_id` and a person was present. */
MUST_CHECK bool seal_passkey_data(
    struct seal_passkey_data *out, struct str auth_data, const char *rp_id);

/* Over auth data and the hash of the client data (WebAuthn 7.2 step 20). */
MUST_CHECK bool seal_passkey_verify(struct str public_key, struct str auth_data,
    struct str client_data, struct str signature);
/* Is it a key of one of the two kinds? */
MUST_CHECK bool seal_passkey_is_key(struct str public_key);

/*
 * What postern-auth says of a credential when it is registered, so that
 * others need not trust the database for whose key it is: Ed25519 over
 * lp("postern.passkey.1") u64 operator lp(credential) lp(public key).
 */
void seal_passkey_prove(unsigned char out[SEAL_PASSKEY_PROOF],
    const struct secret *seed, uint64_t operator_id, struct str credential,
    struct str public_key);
MUST_CHECK bool seal_passkey_proven(struct str proof,
    const unsigned char pub[32], uint64_t operator_id, struct str credential,
    struct str public_key);

/* Everything of an assertion at once, as it is kept with a decision. */
struct seal_assertion {
	struct seal_passkey_ask ask;
	uint64_t operator_id;
	struct str credential, public_key, proof;
	struct str auth_data, client_data, signature;
};
/*
 * Does it prove that this operator's passkey signed exactly this question?
 * For which site it was, postern-auth judged when it was made.
 */
MUST_CHECK bool seal_assertion_ok(
    const struct seal_assertion *a, const unsigned char auth_pub[32]);

/*
 * As it is kept: u64 operator | lp of nonce, credential, public key, proof,
 * auth data, client data, signature. Reading borrows, and leaves the other
 * fields of `ask` alone. False, and nothing kept: it would be too long.
 */
#define SEAL_ASSERTION_MAX 4500
struct buf;
MUST_CHECK bool seal_assertion_pack(
    struct buf *out, const struct seal_assertion *a);
MUST_CHECK bool seal_assertion_read(
    struct seal_assertion *a, struct str packed);

/* "https://host:port" -> "host"; false when it does not fit. */
MUST_CHECK bool seal_passkey_rp_id(char *out, size_t size, const char *origin);

#endif
