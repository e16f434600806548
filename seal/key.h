/* SPDX-License-Identifier: ISC */
/*
 * key.h - the keys that agents, provisioners and tools show (decision D2).
 *
 * A token carries 32 random bytes S. S itself never leaves the process that
 * received it: the database is shown A, the private key of an inbox opens
 * with the KEK, request hashes use the idem key. Each is derived from S with
 * crypto_kdf under its own number and context. Layouts: docs/formats.md.
 */
#ifndef SEAL_KEY_H
#define SEAL_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

enum seal_token_kind {
	SEAL_TOKEN_LIVE,
	SEAL_TOKEN_SESSION,
	SEAL_TOKEN_TEST,
	SEAL_TOKEN_PROVISION,
	SEAL_TOKEN_OPERATOR,
};

struct seal_token {
	enum seal_token_kind kind;
	uint64_t tenant, key; /* 1 .. INT64_MAX */
	struct secret s; /* 32 bytes; wipe with seal_token_wipe() */
};

#define SEAL_TOKEN_MAX 112 /* longest text with its NUL */
#define SEAL_AUTH_LEN 32
#define SEAL_HANDLE_LEN 24
#define SEAL_BOX_EXTRA 48 /* what crypto_box_seal adds */
#define SEAL_WRAPPED_LEN (24 + 32 + 16)

/* Once per process, before anything else of seal/. */
MUST_CHECK bool seal_init(struct err *err);

/*
 * False, and `t` wiped, unless `text` is exactly a token with the right
 * checksum. Says nothing about whether the key works.
 */
MUST_CHECK bool seal_token_parse(struct seal_token *t, struct str text);
/* Writes the token and a NUL; the text is as secret as S. */
void seal_token_format(char out[SEAL_TOKEN_MAX], const struct seal_token *t);
void seal_token_wipe(struct seal_token *t);

/* A: what functions of the database receive. */
void seal_token_auth(struct secret *a, const struct secret *s);
/* KEK: wraps the inbox's private key. Keep it for one read only. */
void seal_token_kek(struct secret *kek, const struct secret *s);
/* Key of request hashes (decision D15). */
void seal_token_idem(struct secret *idem, const struct secret *s);
/* SHA-256(A): what the database stores. */
void seal_auth_hash(unsigned char out[32], const struct secret *a);

/* A new X25519 key pair (inbox, tenant, review, relay). */
void seal_pair_new(unsigned char pub[32], struct secret *priv);
/* The public half of `priv`. */
void seal_pair_pub(unsigned char pub[32], const struct secret *priv);

/* The inbox's private key under the KEK, bound to its public half. */
void seal_wrap(unsigned char out[SEAL_WRAPPED_LEN], const struct secret *kek,
    const unsigned char pub[32], const struct secret *priv);
/* False, and `priv` wiped, unless it is the private half of `pub`. */
MUST_CHECK bool seal_unwrap(struct secret *priv, const struct secret *kek,
    const unsigned char pub[32], struct str wrapped);

/*
 * Anonymous boxes: hour keys, tenant keys, findings. `out` has room for
 * n + SEAL_BOX_EXTRA bytes.
 */
void seal_box(
    unsigned char *out, const unsigned char pub[32], const void *p, size_t n);
/* `out` has room for box.n - SEAL_BOX_EXTRA bytes. */
MUST_CHECK bool seal_box_open(unsigned char *out, struct str box,
    const unsigned char pub[32], const struct secret *priv);

#endif
