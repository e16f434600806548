/* SPDX-License-Identifier: ISC */
/*
 * committer.h - submissions of one worker share durable commits (D29).
 *
 * Rows that arrived while commits were under way go into the next one, at
 * most 64 rows or 2 MB, sorted by tenant and inbox. Two connections take
 * turns, one computing while the other's commit is written; each has one batch
 * under way and at most one sent ahead. What one of them has locked, the other
 * leaves alone (decision 0026).
 * Each row has its own outcome. When a whole batch fails, its rows go one by
 * one; when the connection is lost, each is looked up by its id on another
 * connection and, if it is not there, sent again under the same id.
 */
#ifndef STORE_COMMITTER_H
#define STORE_COMMITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/str.h"
#include "base/uuid.h"

struct committer;
struct commit;
struct loop;
struct pg_pool;

/* Arguments of api.submit_1. A view with p == NULL, a zero uuid: null. */
struct commit_row {
	int64_t tenant, key;
	struct str proof;
	struct uuid message;
	struct str rcpts, kinds, params;
	int64_t size;
	struct str body_tag;
	int64_t send_at, not_after;
	struct str digest, door, subject, header_from, rfc_id, in_reply_to,
	    references;
	struct uuid thread;
	struct str labels, context;
	int risk, findings_set, finding_max, attachments;
	bool links; /* it has some, or what could not be searched */
	int tenant_epoch;
	struct str tenant_box;
	int inbox_epoch;
	struct str inbox_box;
	int chunks;
	struct str body, idem, request;
	bool duplicate;
	struct uuid revises;
	bool limiter;
	struct str relay_box, tag; /* p == NULL: the next three are null */
	int64_t expiry;
	int tag_mode, tag_mode_epoch;

	int64_t inbox; /* for the order of a batch only */
};

struct commit_result {
	enum err_code code; /* 0 = stored, now or before */
	bool unknown; /* with a code: it MAY be stored all the same */
	struct uuid message, thread;
	int state, version, round;
	unsigned char digest[32];
	char reasons[64];
	int64_t hold_until;
	unsigned wait;
	bool replay, already_held;
};

/* Once, later, never from inside committer_add(). */
typedef void commit_fn(void *arg, const struct commit_result *result);

#define COMMIT_LANES 2
/*
 * `lane`: pools of one connection, for batches alone. `single`: for rows one
 * by one and for looking up. All are borrowed.
 */
struct committer *committer_new(struct loop *loop,
    struct pg_pool *const lane[COMMIT_LANES], struct pg_pool *single);
/* Open rows are dropped without their `done`. */
void committer_free(struct committer *c);
/* Rows that have no outcome yet. */
unsigned committer_pending(const struct committer *c);

/* Borrows what `row` points to until `done` ran. It cannot be recalled. */
void committer_add(struct committer *c, const struct commit_row *row,
    commit_fn *done, void *arg);

#endif
