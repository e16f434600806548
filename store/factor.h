/* SPDX-License-Identifier: ISC */
/*
 * factor.h - second factors: what postern-auth asks with its own login, and
 * what the pages show of them. Conventions as in operator.h: answers fill the
 * caller's struct, `done` runs once, later.
 */
#ifndef STORE_FACTOR_H
#define STORE_FACTOR_H

#include "base/str.h"
#include "base/uuid.h"
#include "store/operator.h"

#define FACTOR_CODES 10
#define FACTOR_SEALED 256
#define FACTOR_CREDENTIAL 1023
#define FACTOR_KEY 1024
#define FACTOR_CREDENTIALS 32

/* The connection of postern-auth; for who shows sessions otherwise, see
 * review_db_new(). */
struct review_db *factor_db_new(struct loop *loop, const struct conf *conf);

/* Also of a session whose second factor is due. */
struct factor_state {
	struct review_answer is;
	int64_t operator_id, now_us;
	char name[65];
	bool due, totp;
	int passkeys, recovery, wait_s;
};
void factor_state(const struct store_operator *who, struct factor_state *out,
    review_done_fn *done, void *arg);

/* Where a mark came of it: until when. */
struct factor_mark {
	struct review_answer is;
	int wait_s;
	int64_t until_us;
	bool confirmed, codes; /* a new factor; its recovery codes were taken */
};

void factor_totp_begin(const struct store_operator *who, const void *sealed,
    size_t n, struct review_answer *out, review_done_fn *done, void *arg);

struct factor_totp {
	struct review_answer is;
	int wait_s;
	int64_t factor, operator_id, last_step, now_us;
	unsigned char sealed[FACTOR_SEALED];
	size_t sealed_n;
};
/* Counts a try. `confirm`: the secret that is not in use yet. */
void factor_totp_try(const struct store_operator *who, bool confirm,
    struct factor_totp *out, review_done_fn *done, void *arg);

typedef unsigned char factor_hashes[FACTOR_CODES][32];
/*
 * `hashes` NULL: none. `next_sha256`, here and below: the session goes on
 * under the secret of this hash.
 */
void factor_totp_done(const struct store_operator *who, int64_t factor,
    int64_t step, const factor_hashes *hashes, struct str next_sha256,
    struct factor_mark *out, review_done_fn *done, void *arg);

void factor_recovery_set(const struct store_operator *who,
    const factor_hashes *hashes, struct review_answer *out,
    review_done_fn *done, void *arg);
void factor_recovery_use(const struct store_operator *who,
    const unsigned char hash[32], struct str next_sha256,
    struct factor_mark *out, review_done_fn *done, void *arg);

/* What is to be signed: for purpose 'a' also of which message. */
struct factor_ask {
	char purpose;
	unsigned char nonce[32], digest[32];
	struct uuid message;
	int version, round;
};
struct factor_credentials {
	struct review_answer is;
	int64_t operator_id;
	char name[65];
	struct str *row; /* in the arena */
	size_t n;
};
void factor_passkey_ask(const struct store_operator *who, struct arena *mem,
    const struct factor_ask *ask, struct factor_credentials *out,
    review_done_fn *done, void *arg);

struct factor_passkey {
	struct review_answer is;
	int wait_s;
	int64_t factor, operator_id, sign_count;
	unsigned char key[FACTOR_KEY], proof[64];
	size_t key_n, proof_n;
	struct factor_ask ask;
};
/* Counts a try and spends the challenge. */
void factor_passkey_try(const struct store_operator *who, char purpose,
    struct str credential, struct factor_passkey *out, review_done_fn *done,
    void *arg);
/* `packed`: what was signed, kept for an approval; empty otherwise. */
void factor_passkey_done(const struct store_operator *who,
    const struct factor_passkey *passkey, int64_t count, struct str packed,
    struct str next_sha256, struct factor_mark *out, review_done_fn *done,
    void *arg);

struct factor_new_passkey {
	struct str credential, key, proof;
	const char *label;
	int64_t count;
	const factor_hashes *hashes;
	struct str next_sha256;
};
void factor_passkey_add(const struct store_operator *who,
    const struct factor_new_passkey *made, struct factor_mark *out,
    review_done_fn *done, void *arg);

/* For the pages. */
struct factor_row {
	int64_t id, created_us, used_us;
	char *kind, *label;
};
struct factor_rows {
	struct review_answer is;
	struct factor_row *row;
	size_t n;
};
void factor_list(const struct store_operator *who, struct arena *mem,
    struct factor_rows *out, review_done_fn *done, void *arg);
void factor_end(const struct store_operator *who, int64_t factor,
    struct review_answer *out, review_done_fn *done, void *arg);
void factor_reset(const struct store_operator *who, const char *name,
    struct review_answer *out, review_done_fn *done, void *arg);

#endif
