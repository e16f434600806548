/* SPDX-License-Identifier: ISC */
/*
 * store_internal.h - what the files behind store.h share.
 */
#ifndef STORE_STORE_INTERNAL_H
#define STORE_STORE_INTERNAL_H

#include "base/queue.h"
#include "base/secret.h"
#include "store/committer.h"
#include "store/filter.h"
#include "store/credential.h"
#include "store/hour.h"
#include "store/limit.h"
#include "store/pg.h"
#include "store/store.h"

struct known;
struct loop_timer;
struct redis;
struct seal_zstd;
struct upload;

struct store {
	struct loop *loop;
	const struct conf *conf;
	struct pg_pool *pool; /* questions, and rows one by one */
	struct pg_pool *lane[COMMIT_LANES]; /* the committer's alone */
	struct pg_pool *large; /* chunks */
	struct redis *redis;
	struct limiter *limiter;
	struct committer *committer;
	struct hours *hours;
	struct known *known;
	struct seal_zstd *zstd;
	struct secret policy_key; /* n = 0: ungated modes cannot release */
	unsigned char relay_pub[32];
	bool has_relay_pub;

	struct store_filter filter; /* begin NULL: none */

	struct store_cred *creds; /* all that live, for revocation */
	struct loop_timer *poll;
	struct pg_req *polling;
	int64_t polled; /* the database's clock at the last poll, us */

	unsigned follows; /* store_follow() that live */
	unsigned submissions; /* begun and not ended */
	unsigned chunks; /* in flight, of all uploads */
	TAILQ_HEAD(uploads, upload) uploads; /* that wait for a slot */
};

/* What a failed call means to an agent. */
enum err_code store_code(enum pg_err err, const struct pg_result *res);
/* The code of row 0, or E_NONE; a missing row is E_INTERNAL_ERROR. */
enum err_code store_row_code(enum pg_err err, const struct pg_result *res);

/* Begin the arguments of an agent's call: tenant, key, proof. */
void store_cred_args(struct pg_args *a, const struct store_cred *cred);
/* Poll api.revoked_since_1; also asked for by a message on `revoke`. */
void store_revoke_start(struct store *st);
void store_revoke_now(struct store *st);

#endif
