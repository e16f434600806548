/* SPDX-License-Identifier: ISC */
/*
 * credential.h - who is asking: keys of inboxes, and what they may do.
 *
 * A key is what an agent shows (decisions D2). From it come A, which the
 * database checks on every call, and the key of request hashes; the key's
 * own bytes are wiped as soon as those are made. A store_cred is the first
 * argument of every store call of the agents' side.
 */
#ifndef STORE_CREDENTIAL_H
#define STORE_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/secret.h"
#include "base/str.h"

struct store;
struct store_auth;
struct store_claim;

#define STORE_ADDRESS_MAX 330 /* with the NUL */

/* Read it; only credential.c fills it. */
struct store_cred {
	int64_t tenant, key, inbox;
	char address[STORE_ADDRESS_MAX]; /* the inbox's own address */
	char display_name[256];
	char tenant_slug[40];
	char kind; /* 'l' live, 's' session, 't' test */
	char scope; /* 's' send, 'r' read, 'f' full */
	bool smtp_wide; /* the inbox lets wide keys in at SMTP AUTH */
	bool test; /* a test inbox: captured, never relayed */
	bool releasable; /* mode or a rule may release without a person */
	bool domain_verified;
	bool paused;
	int mode; /* enum policy_mode */
	int mode_epoch;
	int tenant_epoch, inbox_epoch, epoch;
	unsigned char deployment[16], tenant_pub[32], inbox_pub[32];
	char oversight[STORE_ADDRESS_MAX]; /* "" = none */
	int rcpt_max;
	int64_t size_max;
	int lim_hour, lim_day, lim_month, lim_held;
	int64_t lim_bytes;
	int limits_version;
	int used_day, used_month, held; /* at the time of the sign-in... */
	int64_t used_on; /* ...the day of that, since 1970 */
	int64_t reset_at; /* us since 1970, 0 = never */
	char reset_by[64];
	int64_t key_expires; /* us since 1970, 0 = never */
	uint64_t asked_ms; /* clock_mono_ms() when the database last answered */

	struct secret proof; /* A, or a connection handle */
	struct secret idem; /* key of request hashes (decisions D15) */
	bool revoked; /* seen revoked: store_cred_alive() */
	struct store_cred *next, **prev; /* the store's list of living ones */
	struct store *store;
};

/*
 * `code` is 0 (cred is the caller's, release with store_cred_free()), or
 * why not: unknown_api_key, store_unavailable. cred is NULL then.
 */
typedef void store_auth_fn(
    void *arg, enum err_code code, struct store_cred *cred);

enum store_auth_use {
	/* SMTP: the proof kept is a handle of ten minutes, renewed by use. A
	 * key that is in use this moment (known.h) is not asked for again. */
	STORE_AUTH_CONNECTION,
	/* REST: the proof is A and lives as long as the request */
	STORE_AUTH_REQUEST,
	/* the same, for a call that the database checks again, such as a
	 * submission: a key in use is not asked for twice */
	STORE_AUTH_SUBMIT,
};

/*
 * Check a key. A malformed one is refused without asking the database, later
 * all the same. `token` is read before the call returns; wipe it then.
 */
struct store_auth *store_auth(struct store *st, struct str token,
    enum store_auth_use use, store_auth_fn *done, void *arg);
void store_auth_cancel(struct store_auth *op);

/* volume.c: the used_... fields have just been read. */
void store_cred_counted(struct store_cred *cred);
/* It stored one more. */
void store_cred_sent(struct store_cred *cred);
/* Would one more be unlike what its inbox sent before, in this month? */
bool store_cred_volume_odd(const struct store_cred *cred);

/* Wipes. Submissions begun with it go on. NULL is fine. */
void store_cred_free(struct store_cred *cred);
/* Not seen revoked or expired. Cheap; the database has the last word. */
bool store_cred_alive(const struct store_cred *cred);

/*
 * Has the database vouched for it a moment ago, so that it need not be asked
 * (known.h)? At most a second old, and only while the key is in use.
 */
bool store_cred_fresh(const struct store_cred *cred);

/*
 * Ask the database whether the credential is still good (at MAIL, and when a
 * connection was long idle) and refresh mode, mode_epoch, paused and
 * domain_verified in it. Renews the handle.
 */
typedef void store_touch_fn(void *arg, enum err_code code);
struct store_touch;
struct store_touch *store_cred_touch(
    struct store_cred *cred, store_touch_fn *done, void *arg);
void store_touch_cancel(struct store_touch *op);

/*
 * Is this text a well-formed key (shape and checksum)? Fills tenant and key
 * number; says nothing about whether it works.
 */
bool store_token_valid(struct str token, int64_t *tenant, int64_t *key);

/* The key that unwraps the inbox's private key, for one read; wipe it. */
bool store_token_kek(struct str token, struct secret *kek);

/*
 * Exchange a claim code for the two keys of an inbox (decision D27). The
 * keys in `result` are wiped when `done` returns: `code` 0, or claim_invalid,
 * store_unavailable.
 */
#define STORE_TOKEN_MAX 160
struct store_claimed {
	char inbox[STORE_ADDRESS_MAX];
	char key[STORE_TOKEN_MAX]; /* scope full */
	char smtp_key[STORE_TOKEN_MAX]; /* scope send */
	int epoch;
	bool test; /* a test inbox: what it sends is captured */
};
typedef void store_claim_fn(
    void *arg, enum err_code code, const struct store_claimed *result);
struct store_claim *store_claim(
    struct store *st, struct str claim, store_claim_fn *done, void *arg);
void store_claim_cancel(struct store_claim *op);

/*
 * Write into the audit log, capped per key and hour, that a credential tried
 * what it may not: "sender_mismatch", "foreign_id", "dead_key". No answer.
 */
void store_denied(
    const struct store_cred *cred, const char *what, const char *detail);

#endif
