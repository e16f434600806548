/* SPDX-License-Identifier: ISC */
/*
 * entry.h - the lists of an inbox, as its agent sees them: whom it may not
 * write to, and whose mail needs no decision. It may add to the first.
 */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "store/credential.h"

struct store_op;

/* Texts are borrowed during the callback. */
struct store_entry {
	int64_t id;
	const char *entry; /* an address, or @domain */
	const char *reason; /* "" when an operator made it */
	bool mine; /* an agent of this inbox made it */
	int64_t created_at, expires_at; /* us since 1970; expires_at 0: never */
};
typedef void store_entries_fn(
    void *arg, enum err_code code, const struct store_entry *e, size_t count);
/*
 * `what`: 'b' blocked, 'a' allowed. Newest first: the entry `one`, or those
 * older than `after` (0: all), at most `limit`.
 */
struct store_op *store_entries(const struct store_cred *cred, char what,
    const char *one, int64_t after, int limit, store_entries_fn *done,
    void *arg);

/* `fresh`: it was not there before. */
typedef void store_block_fn(
    void *arg, enum err_code code, int64_t created_at, bool fresh);
struct store_op *store_block(const struct store_cred *cred, const char *entry,
    struct str reason, store_block_fn *done, void *arg);

#endif
