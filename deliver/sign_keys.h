/* SPDX-License-Identifier: ISC */
/*
 * sign_keys.h - the keys of domains that were used lately, so that not every
 * message asks for them. A rotation takes effect when an entry has aged.
 */
#ifndef DELIVER_SIGN_KEYS_H
#define DELIVER_SIGN_KEYS_H

#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"
#include "deliver/sign.h"

#define SIGN_KEYS_AGE_MS 15000

struct relay_dkim;
struct sign_keys;

struct sign_keys *sign_keys_new(void);
/* Wiped. NULL is fine. */
void sign_keys_free(struct sign_keys *k);

/*
 * The keys of a domain, good until the next call of this module; *n may be 0:
 * it has none. NULL: not known, or too old; then ask the database.
 */
const struct sign_key *sign_keys_find(
    const struct sign_keys *k, int64_t tenant, struct str domain, size_t *n);
/*
 * Open and keep what the database gave. False: one of them does not open, or
 * is for another domain; nothing is kept.
 */
MUST_CHECK bool sign_keys_put(struct sign_keys *k, int64_t tenant,
    struct str domain, const struct relay_dkim *v, size_t n,
    const unsigned char relay_pub[32], const struct secret *relay_key);

#endif
