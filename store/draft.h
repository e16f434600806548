/* SPDX-License-Identifier: ISC */
/*
 * draft.h - mail that an agent has not submitted yet.
 *
 * Its texts are sealed to the inbox alone and open with the key that
 * store_token_kek() made from the agent's own key, like store_message_raw().
 * A draft that was sent is an empty row that knows its message.
 */
#ifndef STORE_DRAFT_H
#define STORE_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/limit.h"

struct store_cred;
struct store_draft_op; /* any call below that is still open */

/* Never call `done`. NULL is fine. */
void store_draft_cancel(struct store_draft_op *op);

#define STORE_DRAFT_HEAD_MAX 32000
#define STORE_DRAFT_BODY_MAX 1100000

/*
 * What a draft writes counts in the inbox's bytes of a day, as what it sends
 * does, and never as less than this: a change of one letter is a commit too
 * (decision 0096).
 */
#define STORE_DRAFT_COST_MIN 16384

struct store_draft {
	struct uuid draft;
	int version;
	struct uuid message; /* what it was sent as; all zero = not sent */
	bool opened; /* else `text` is empty: the inbox was reset since */
	struct str text; /* of a list the head, of one draft the body */
	int64_t created_at, updated_at; /* us since 1970 */
};

/* Rows are borrowed. */
typedef void store_drafts_fn(
    void *arg, enum err_code code, const struct store_draft *d, size_t count);
struct store_draft_op *store_draft_get(const struct store_cred *cred,
    const struct uuid *id, const struct secret *kek, store_drafts_fn *done,
    void *arg);
/* Newest first; `after` all zero = from the newest. */
struct store_draft_op *store_draft_list(const struct store_cred *cred,
    const struct uuid *after, int limit, const struct secret *kek,
    store_drafts_fn *done, void *arg);

struct store_draft_put {
	struct uuid draft;
	int version; /* that it replaces; 0 = a new draft */
	struct str head, body; /* sealed here */
	const unsigned char *idem; /* 32 bytes, or NULL */
	unsigned char request[32];
};
/*
 * `replay`: the draft that the same key made before. `charge` is NULL unless
 * the limiter was reached.
 */
typedef void store_draft_put_fn(void *arg, enum err_code code,
    const struct store_draft *d, bool replay,
    const struct limit_answer *charge);
struct store_draft_op *store_draft_put(const struct store_cred *cred,
    const struct store_draft_put *put, store_draft_put_fn *done, void *arg);

/*
 * Send version `version` under `key` (submit_key_hash()): from now on only this
 * line of keys does, and nobody changes it, until it is ended or stays.
 * `message`: what it was sent as before, else NULL.
 */
typedef void store_draft_go_fn(
    void *arg, enum err_code code, const struct uuid *message, int64_t at);
struct store_draft_op *store_draft_go(const struct store_cred *cred,
    const struct uuid *id, int version, const unsigned char key[32],
    store_draft_go_fn *done, void *arg);

/* Delete it, or, with `sent`, keep only what it was sent as. */
typedef void store_draft_end_fn(void *arg, enum err_code code);
struct store_draft_op *store_draft_end(const struct store_cred *cred,
    const struct uuid *id, const struct uuid *sent, store_draft_end_fn *done,
    void *arg);

/* What began `at` was refused. */
struct store_draft_op *store_draft_stay(const struct store_cred *cred,
    const struct uuid *id, int64_t at, store_draft_end_fn *done, void *arg);

#endif
