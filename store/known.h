/* SPDX-License-Identifier: ISC */
/*
 * known.h - keys the database has only just vouched for.
 *
 * An agent's mail library often opens a connection for each message. While
 * the database takes message after message with a key, a further connection
 * with that key need not ask it once more who this is: what was learned a
 * moment ago holds. Whatever the answer, every submission is checked in the
 * database again, so a key that is revoked in that moment stores nothing.
 */
#ifndef STORE_KNOWN_H
#define STORE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "store/credential.h"

/* An answer counts this long (ms), on its own... */
#define KNOWN_FRESH_MS 100
/* ...and this long while the key is used: a message was taken with it within
 * the last FRESH_MS. What it says of mode and pauses is never older. */
#define KNOWN_ASK_MS 1000
/* Keys remembered at once; the oldest goes first. */
#define KNOWN_MAX 4096

struct known;

struct known *known_new(void);
void known_free(struct known *k); /* wipes; NULL is fine */

/*
 * The database has answered for `cred` after it was shown the key with this
 * A. A proof that is a connection handle is remembered, or the one before it;
 * A never is. Times here are clock_mono_ms().
 */
void known_put(
    struct known *k, const struct secret *a, const struct store_cred *cred);
/* It has answered for an open connection, cred->asked_ms says when. */
void known_renew(struct known *k, const struct store_cred *cred);
/* It has just taken a message with this key. */
void known_used(struct known *k, int64_t tenant, int64_t key, uint64_t now);
/* It has refused it, or the key was seen revoked. */
void known_forget(struct known *k, int64_t tenant, int64_t key);

/*
 * Is cred's key known by this A, and is what is known fresh? Then all that
 * the database says of it is put into *cred, with a handle as its proof when
 * `handle` asks for one (no: there is none), else with its own, A.
 * The comparison takes the same time wherever it fails.
 */
bool known_get(struct known *k, const struct secret *a, bool handle,
    struct store_cred *cred, uint64_t now);
/* Is what this connection knows of its key fresh? */
bool known_fresh(
    const struct known *k, const struct store_cred *cred, uint64_t now);

#endif
