/* SPDX-License-Identifier: ISC */
/*
 * box.h - one inbox as operators see and change it.
 *
 * Calls answer as operator.h says. What loosens needs a role, a reason and a
 * fresh step-up, which the database checks: 403 `step_up_required` otherwise.
 */
#ifndef STORE_BOX_H
#define STORE_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/operator.h"

struct box_key {
	int64_t tenant, inbox;
};

struct box_limits {
	const char *plan; /* NULL when set: as it is */
	int hour, day, month, held; /* messages; -1 when set: as it is */
	int64_t bytes; /* of held mail */
};

struct box {
	struct review_answer is;
	char *tenant_slug, *address, *alarm, *oversight, *display_name;
	int mode, held, used_day, used_month, need;
	struct box_limits limits;
	int own_need, own_hold_s; /* 0: as its tenant says */
	int tenant_need, tenant_hold_s;
	bool full_key_smtp, retry_uncertain, one_click;
	bool paused, suspended, claimed, test;
	int64_t created_us, claim_until_us, reset_us; /* 0: none */
	bool may_tighten, may_loosen, may_admin;
};
void box_get(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box *out, review_done_fn *done, void *arg);

struct box_credential {
	int64_t key;
	char kind,
	    scope; /* l live, s session, t test; s send, r read, f full */
	char *label;
	int64_t created_us, expires_us, revoked_us, used_us; /* 0: never */
};
struct box_credentials {
	struct review_answer is;
	struct box_credential *row;
	size_t n;
};
void box_credentials(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_credentials *out, review_done_fn *done,
    void *arg);

/* Mail to `entry` alone leaves without a person, `uses` more times. */
struct box_allow {
	int64_t rule;
	char *entry, *reason, *by_name;
	int uses;
	int64_t expires_us, created_us;
};
struct box_allows {
	struct review_answer is;
	struct box_allow *row;
	size_t n;
};
void box_allows(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_allows *out, review_done_fn *done, void *arg);

/* Mail to `entry` is refused: here, in the tenant, or everywhere. */
struct box_block {
	int64_t id, tenant, inbox; /* 0: all of them */
	char verdict; /* b blocked, s suppressed */
	char *entry, *reason;
	int64_t expires_us, created_us;
};
struct box_blocks {
	struct review_answer is;
	struct box_block *row;
	size_t n;
};
void box_blocks(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_blocks *out, review_done_fn *done, void *arg);

struct box_plan {
	struct box_limits limits;
};
struct box_plans {
	struct review_answer is;
	struct box_plan *row;
	size_t n;
};
void box_plans(const struct store_operator *who, int64_t tenant,
    struct arena *mem, struct box_plans *out, review_done_fn *done, void *arg);

/* ---- changes; `out` is a struct review_answer unless named otherwise */

void box_mode_set(const struct store_operator *who, struct box_key key,
    int mode, const char *reason, struct review_answer *out,
    review_done_fn *done, void *arg);
void box_suspend(const struct store_operator *who, struct box_key key,
    bool suspended, const char *reason, struct review_answer *out,
    review_done_fn *done, void *arg);
void box_allow_add(const struct store_operator *who, struct box_key key,
    const char *entry, int uses, int days, const char *reason,
    struct review_answer *out, review_done_fn *done, void *arg);
void box_allow_end(const struct store_operator *who, int64_t rule,
    struct review_answer *out, review_done_fn *done, void *arg);
/* `key.inbox` 0: the whole tenant. `days` 0: for ever. */
void box_block_add(const struct store_operator *who, struct box_key key,
    const char *entry, int64_t until_us, const char *reason,
    struct review_answer *out, review_done_fn *done, void *arg);
void box_block_end(const struct store_operator *who, int64_t id,
    const char *reason, struct review_answer *out, review_done_fn *done,
    void *arg);
void box_limits_set(const struct store_operator *who, struct box_key key,
    const struct box_limits *limits, struct review_answer *out,
    review_done_fn *done, void *arg);
/* What an inbox has of its own; what is not set stays. */
struct box_own {
	const char *overseer; /* NULL: as it is; "": nobody */
	int need, hold_s; /* 0: as its tenant says; -1: as it is */
	/* 0 no, 1 yes, -1 as it is */
	int full_key_smtp, retry_uncertain, one_click;
};
void box_own_set(const struct store_operator *who, struct box_key key,
    const struct box_own *own, struct review_answer *out, review_done_fn *done,
    void *arg);
void box_credential_end(const struct store_operator *who, int64_t tenant,
    int64_t key, struct review_answer *out, review_done_fn *done, void *arg);

struct box_made {
	struct review_answer is;
	int64_t inbox, claim_until_us;
	int unreadable; /* of a reset: messages whose text is lost to the agent
			 */
};
/* The claim code's SHA-256; the code itself the caller shows once. */
void box_create(const struct store_operator *who, int64_t tenant,
    const char *address, const char *plan, const char *display_name,
    const unsigned char claim_sha256[32], struct box_made *out,
    review_done_fn *done, void *arg);
/* All keys end, a new claim code is good for 15 minutes. */
void box_reset(const struct store_operator *who, struct box_key key,
    const unsigned char claim_sha256[32], struct box_made *out,
    review_done_fn *done, void *arg);

#endif
