/* SPDX-License-Identifier: ISC */
/*
 * sign.h - DKIM signatures by libopendkim (RFC 6376, 8463).
 *
 * relaxed/relaxed, no l=, d= the domain of From. What readers see and what
 * says how to read it is signed, and signed once more than it is there, so
 * that none of it can be added later.
 */
#ifndef DELIVER_SIGN_H
#define DELIVER_SIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SIGN_KEYS_MAX 4
#define SIGN_NAME_MAX 255

struct signer; /* the library, once per process */
struct sign; /* one message */

struct sign_key {
	bool is_ed25519; /* else RSA with SHA-256 */
	char domain[SIGN_NAME_MAX + 1], selector[64];
	struct buf pem; /* PKCS#8, with its NUL; buf_wipe() it */
};

MUST_CHECK struct signer *signer_new(struct err *err);
void signer_free(struct signer *s);

/*
 * `id` is for nobody but the library's messages. Keys are copied. `is_list`:
 * the message has List-Unsubscribe, and no second one may be added either.
 * Where there is none, a mailing list may add its own on the way.
 */
struct sign *sign_begin(struct signer *s, const struct sign_key *keys, size_t n,
    const char *id, bool is_list);
/* Header fields, the empty line and the body, in any pieces. */
void sign_add(struct sign *s, const char *p, size_t n);
/*
 * Append one DKIM-Signature field for each key; frees `s`. False, and `out`
 * as it was, when any of them could not be made: `why` (may be NULL) says.
 */
MUST_CHECK bool sign_end(struct sign *s, struct buf *out, struct err *why);
void sign_free(struct sign *s);

#endif
