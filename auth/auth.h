/* SPDX-License-Identifier: ISC */
/*
 * auth.h - postern-auth: judges second factors of operators
 *
 * Questions come over a socket of this machine from postern-admin and
 * posternctl, which are not trusted: each carries the secret of a live
 * session, the database bounds the number of tries, and what is judged is a
 * code or a signature that only the person can make. Fields of a question:
 *
 *	code      session next purpose code       i sign-in, s step-up
 *	totp-new  session                         -> secret, link for an app
 *	totp-ok   session next code               -> recovery codes
 *	recovery  session                         -> recovery codes
 *	challenge session purpose [message version round digest]
 *	                                          -> challenge, name, user,
 *	                                             credentials...
 *	passkey   session next purpose credential auth-data client-data
 *	          signature
 *	register  session next label attestation client-data
 *	                                          -> recovery codes
 *
 * `next` is the SHA-256 of the secret that the session goes on under when the
 * answer is 200, and not for a passkey's approval (purpose a).
 *
 * Fields of an answer: status, code of a refusal, seconds to wait, then what
 * stands behind the arrow. Numbers are decimal text.
 */
#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"
#include "store/factor.h"

struct ask;
struct loop;

struct auth {
	struct loop *loop;
	struct review_db *db;
	struct secret totp_key; /* seals the secrets of authenticator apps */
	struct secret prove_key; /* vouches for passkeys */
	char origin[300], rp_id[256];
};

#define AUTH_FIELDS 7 /* of a question, behind its name */

struct auth_job {
	struct auth *auth;
	struct ask *ask;
	struct store_operator who;
	struct arena mem;
	struct str next; /* of the four that have it */
	struct str field[AUTH_FIELDS]; /* behind that */
	size_t nfields;
	void *mine; /* the question's own, in the arena */
	void (*clear)(void *mine); /* wipes it, may be NULL */
};

/* What the socket calls. */
void auth_question(void *arg, struct ask *ask, struct str question);

/*
 * The only ways a job ends. The first three fields, then `more`, which is
 * wiped (NULL: nothing).
 */
void auth_end(struct auth_job *job, int status, const char *code, int wait_s,
    struct buf *more);
void auth_end_as(
    struct auth_job *job, const struct review_answer *is, int wait_s);
/* Also counts and logs it. `kind` is a label of the metric. */
void auth_judged(struct auth_job *job, const char *kind, int64_t operator_id,
    const struct review_answer *is, int wait_s, struct buf *more);
/* The database has said yes; this program says no. */
void auth_wrong(struct auth_job *job, const char *kind, int64_t operator_id);

/* Ten new recovery codes: lines into `out`, hashes beside. */
void auth_codes_new(
    struct buf *out, factor_hashes *hashes, int64_t operator_id);

/* One function a question (auth_code.c, auth_passkey.c). */
void auth_code(struct auth_job *job);
void auth_totp_new(struct auth_job *job);
void auth_totp_ok(struct auth_job *job);
void auth_recovery(struct auth_job *job);
void auth_challenge(struct auth_job *job);
void auth_passkey(struct auth_job *job);
void auth_register(struct auth_job *job);

#endif
