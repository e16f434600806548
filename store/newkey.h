/* SPDX-License-Identifier: ISC */
/*
 * newkey.h - a full key makes a further key of its inbox. It is made here and
 * shown once; the inbox's private key, for a key that may read, is unwrapped
 * with the one and wrapped for the other in this process, for this call.
 */
#ifndef STORE_NEWKEY_H
#define STORE_NEWKEY_H

#include <stdint.h>

#include "store/credential.h"

struct store_newkey;

struct store_newkey_made {
	int64_t key; /* its number */
	char kind; /* as in store_cred */
	char text[STORE_TOKEN_MAX]; /* wiped when `done` returns */
	int64_t created_at, expires_at; /* us since 1970; 0: never */
};
typedef void store_newkey_fn(
    void *arg, enum err_code code, const struct store_newkey_made *made);

/*
 * `scope`: 's', 'r' or 'f'. `kek` is that of the key that asks, see
 * store_token_kek(); it is copied. `label` is copied; `expires_at` 0: as long
 * as the key that asks.
 */
struct store_newkey *store_newkey(const struct store_cred *cred,
    const struct secret *kek, char scope, struct str label, int64_t expires_at,
    store_newkey_fn *done, void *arg);
/* No callback any more; the key may have been made. NULL is fine. */
void store_newkey_cancel(struct store_newkey *op);

#endif
