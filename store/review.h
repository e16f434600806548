/* SPDX-License-Identifier: ISC */
/*
 * review.h - what a signed-in person may see: queue, history, one message.
 *
 * Calls answer as operator.h says. Lists come as arrays in the arena.
 */
#ifndef STORE_REVIEW_H
#define STORE_REVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"
#include "store/operator.h"

struct review_tenant {
	int64_t tenant;
	char *slug, *name;
	int held;
	bool paused;
};
struct review_tenants {
	struct review_answer is;
	struct review_tenant *row;
	size_t n;
};
void review_tenants(const struct store_operator *who, struct arena *mem,
    struct review_tenants *out, review_done_fn *done, void *arg);

struct review_inbox {
	int64_t tenant, inbox;
	char *address, *alarm;
	int mode, held, lim_day, used_day;
	bool paused, suspended, claimed, test;
};
struct review_inboxes {
	struct review_answer is;
	struct review_inbox *row;
	size_t n;
};
/* `tenant` 0: all in scope. */
void review_inboxes(const struct store_operator *who, int64_t tenant,
    struct arena *mem, struct review_inboxes *out, review_done_fn *done,
    void *arg);

struct review_query {
	int64_t tenant, inbox; /* 0 = all in scope */
	const char *states; /* "1,2"; NULL = held */
	const char *search;
	const char *after; /* sort_key of the last row seen */
	int limit;
	bool collapse; /* at most 5 rows of an inbox */
	bool by_left; /* held mail by how long it has left; no search */
	int risk_from, risk_to; /* held mail of these; both 0: any */
};
struct review_row {
	char *sort_key;
	int64_t tenant, inbox;
	char *tenant_slug, *address;
	struct uuid message;
	int version, round, state;
	char *rcpts, *kinds; /* lines; one letter each */
	const char *subject;
	char *reasons;
	int64_t size;
	int attachments, risk;
	int64_t hold_until_us, created_us, updated_us;
	int need, approvals, more_in_inbox;
	bool edited, integrity, test, links, new_rcpt;
	bool doubt; /* it may have been sent, whatever the state says */
	char *looks; /* who has it open, or "" */
};
struct review_rows {
	struct review_answer is;
	struct review_row *row;
	size_t n;
	char *stopped; /* set: the search has read as far as this key */
};
void review_list(const struct store_operator *who,
    const struct review_query *query, struct arena *mem,
    struct review_rows *out, review_done_fn *done, void *arg);

struct review_count {
	struct review_answer is;
	int n;
	bool capped;
	int64_t oldest_us;
};
void review_count(const struct store_operator *who,
    const struct review_query *query, struct review_count *out,
    review_done_fn *done, void *arg);

struct review_message {
	struct review_answer is;
	struct uuid message, revises;
	int64_t tenant, inbox;
	char *tenant_slug, *address, *mail_from;
	int mode, version, round, state;
	unsigned char digest[32], body_tag[32];
	const char *subject;
	char *rcpts, *kinds, *params, *context, *reasons;
	int64_t size, send_at, not_after;
	int chunks, risk, need, approvals, attachments;
	bool i_approved, may_decide, leased, test, inbox_paused, edited;
	bool one_click; /* the inbox gives recipients links */
	char *integrity, *may_why, *door, *author;
	char *verdict, *category, *note, *hint;
	int findings_set, finding_max;
	int64_t hold_until_us, created_us, updated_us, decided_us;
	int64_t not_before_us, undo_until_us, now_us;
};
/* `why`: NULL, or the reason to open a decided message (audited). */
void review_get(const struct store_operator *who, const struct uuid *message,
    const char *why, struct arena *mem, struct review_message *out,
    review_done_fn *done, void *arg);

struct review_keys {
	struct review_answer is;
	unsigned char deployment[16], digest[32], body_tag[32];
	int epoch, version, round, tenant_epoch, chunks;
	int64_t tenant, inbox, size, now_us;
	struct str tenant_box, tenant_priv; /* in the arena */
	unsigned char tenant_pub[32];
};
/* `why` as for review_get(); without it decided mail answers 403. */
void review_keys(const struct store_operator *who, const struct uuid *message,
    int version, const char *why, struct arena *mem, struct review_keys *out,
    review_done_fn *done, void *arg);

struct review_chunks {
	struct review_answer is;
	struct str *row; /* sealed chunks in order */
	size_t n;
};
void review_body(const struct store_operator *who, const struct uuid *message,
    int version, int from, int limit, const char *why, struct arena *mem,
    struct review_chunks *out, review_done_fn *done, void *arg);

struct review_recipient {
	int ix; /* from 1: the number uncertain mail is settled by */
	char *address, *reply, *enhanced;
	char kind;
	int delivery; /* -1 before release */
	int reply_code, attempts;
	int64_t next_us;
	char listed; /* 'b' blocked, 's' suppressed: nothing goes there now */
};
struct review_recipients {
	struct review_answer is;
	struct review_recipient *row;
	size_t n;
};
void review_recipients(const struct store_operator *who,
    const struct uuid *message, struct arena *mem,
    struct review_recipients *out, review_done_fn *done, void *arg);

/* A try to hand it over to one domain; the last 200, oldest first. */
struct review_attempt {
	char *domain, *mx, *tls, *result; /* what hosts said: untrusted */
	int64_t at_us, dot_us, ended_us; /* 0 = not yet, or never */
};
struct review_attempts {
	struct review_answer is;
	struct review_attempt *row;
	size_t n;
};
void review_attempts(const struct store_operator *who,
    const struct uuid *message, struct arena *mem, struct review_attempts *out,
    review_done_fn *done, void *arg);

struct review_event {
	int64_t at_us;
	char *type, *actor, *who, *detail;
};
struct review_events {
	struct review_answer is;
	struct review_event *row;
	size_t n;
};
void review_events(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_events *out, review_done_fn *done,
    void *arg);

struct review_decision {
	int version, round;
	char *operator_name, *verdict, *category, *note, *hint;
	int64_t at_us;
};
struct review_decisions {
	struct review_answer is;
	struct review_decision *row;
	size_t n;
};
void review_decisions(const struct store_operator *who,
    const struct uuid *message, struct arena *mem, struct review_decisions *out,
    review_done_fn *done, void *arg);

/* Of one of the first 100 recipients, by `ix` from 1: was it reached before? */
struct review_knows {
	int ix;
	bool by_inbox; /* this address, by this inbox */
	bool by_any; /* its domain, by any inbox in scope */
};
struct review_known {
	struct review_answer is;
	struct review_knows *row;
	size_t n;
};
void review_known(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_known *out, review_done_fn *done,
    void *arg);

/* How much the inbox of a message sent, up to it: see finding_volume_odd(). */
struct review_volume {
	struct review_answer is;
	int64_t recent, past, hours;
};
void review_volume(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_volume *out, review_done_fn *done,
    void *arg);

/* The risk after it was raised, and what the operator may do now. */
struct review_risk {
	struct review_answer is;
	int risk;
	bool may_decide;
	char *may_why;
};
/* Raise the risk of a held message of this version; it never falls. */
void review_risk(const struct store_operator *who, const struct uuid *message,
    int version, int risk, struct arena *mem, struct review_risk *out,
    review_done_fn *done, void *arg);

/* A pause in force in the operator's scope; at most 20 inboxes are listed. */
struct review_pause {
	char *level; /* "global", "tenant" or "inbox" */
	char *tenant_slug, *address; /* "" where the level has none */
	int64_t at_us;
	char *who, *reason; /* of whom and why; "" = not told */
};
struct review_pauses {
	struct review_answer is;
	struct review_pause *row;
	size_t n;
};
void review_pauses(const struct store_operator *who, struct arena *mem,
    struct review_pauses *out, review_done_fn *done, void *arg);

#endif
