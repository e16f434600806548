/* SPDX-License-Identifier: ISC */
/*
 * operator.h - people: sign-in, sessions, and the login that serves them.
 *
 * A store_operator is the first argument of every call made for a person: it
 * carries the session secret, which the database checks in that very call.
 * Answers are written into the caller's struct, their strings into the
 * caller's arena, then `done` runs, later, exactly once. There is no cancel:
 * struct, arena and `arg` must live until then.
 */
#ifndef STORE_OPERATOR_H
#define STORE_OPERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/errors.h"
#include "base/secret.h"
#include "base/uuid.h"

struct arena;
struct conf;
struct loop;
struct review_db;

struct review_db *review_db_new(struct loop *loop, const struct conf *conf);
/* Open calls are dropped without their `done`: drain first. NULL is fine. */
void review_db_free(struct review_db *db);
bool review_db_ready(const struct review_db *db);

#define OPERATOR_SECRET 32
#define OPERATOR_SALT 16
#define OPERATOR_OUTPUT 32

struct store_operator {
	struct review_db *db;
	struct secret session; /* wiped by its owner */
};

/* First member of every answer. */
struct review_answer {
	int status; /* 200.. done; 503 the database did not answer */
	enum err_code code; /* E_NONE when status < 300 */
	char text[40]; /* the code as the database wrote it */
	bool lost; /* a write MAY have happened: repeat with the same key */
};

typedef void review_done_fn(void *arg);

struct operator_salt {
	struct review_answer is;
	unsigned char salt[OPERATOR_SALT];
	char params[128];
};
/* Unknown names get a salt too, always the same for one name. */
void operator_salt(struct review_db *db, const char *name,
    struct operator_salt *out, review_done_fn *done, void *arg);

/* The first operator. 409 when one exists. */
void operator_setup(struct review_db *db, const char *name,
    const unsigned char salt[OPERATOR_SALT], const char *params,
    const unsigned char verifier[32], struct review_answer *out,
    review_done_fn *done, void *arg);

struct operator_signin {
	struct review_answer is;
	int wait_s; /* seconds to wait after too many failures */
	int64_t operator_id, expires_us;
	bool factor_due; /* the session opens nothing before the second one */
};
/* `output` of argon2id; the session's SHA-256; `peer` for the audit row. */
void operator_session_create(struct review_db *db, const char *name,
    const unsigned char output[OPERATOR_OUTPUT],
    const unsigned char session_sha256[32], const char *peer,
    struct operator_signin *out, review_done_fn *done, void *arg);

struct operator_session {
	struct review_answer is;
	int64_t operator_id;
	char *name, *roles; /* roles: "tenant:inbox:role" lines */
	int64_t idle_us, expires_us, step_up_us, now_us;
	bool global_paused;
	bool totp; /* has an authenticator app in use */
	int passkeys;
	struct uuid csrf; /* as long as the sign-in, whatever its secret */
};
/* `used`: a person asks, which keeps an idle session alive. */
void operator_session_touch(const struct store_operator *who, bool used,
    struct arena *mem, struct operator_session *out, review_done_fn *done,
    void *arg);
void operator_session_end(const struct store_operator *who, bool everywhere,
    struct review_answer *out, review_done_fn *done, void *arg);

struct operator_step_up {
	struct review_answer is;
	int wait_s;
	int64_t until_us;
};
/* When it was right, the session goes on under the secret of `next_sha256`. */
void operator_step_up_password(const struct store_operator *who,
    const unsigned char output[OPERATOR_OUTPUT],
    const unsigned char next_sha256[32], struct operator_step_up *out,
    review_done_fn *done, void *arg);

/*
 * Pause or resume: an inbox; a tenant when `inbox` is 0; all when both are.
 */
void operator_pause(const struct store_operator *who, int64_t tenant,
    int64_t inbox, bool paused, const char *reason, struct review_answer *out,
    review_done_fn *done, void *arg);

#endif
