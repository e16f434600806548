/* SPDX-License-Identifier: ISC */
/*
 * people.h - tenants, operators and their roles, one's own sessions.
 *
 * Calls answer as operator.h says; the database checks the role of each.
 */
#ifndef STORE_PEOPLE_H
#define STORE_PEOPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/operator.h"

struct people_tenant {
	int64_t tenant;
	char *slug, *name;
	int inboxes, held, need;
	bool paused, disabled;
};
struct people_tenants {
	struct review_answer is;
	struct people_tenant *row;
	size_t n;
};
void people_tenants(const struct store_operator *who, struct arena *mem,
    struct people_tenants *out, review_done_fn *done, void *arg);

struct people_domain {
	int64_t tenant;
	char *domain, *token, *how;
	int64_t verified_us; /* 0: not verified */
};
struct people_domains {
	struct review_answer is;
	struct people_domain *row;
	size_t n;
};
void people_domains(const struct store_operator *who, struct arena *mem,
    struct people_domains *out, review_done_fn *done, void *arg);

/* `priv_box`: the private half sealed to the review key. */
void people_tenant_create(const struct store_operator *who, const char *slug,
    const char *name, const unsigned char pub[32], const void *priv_box,
    size_t priv_n, struct review_answer *out, review_done_fn *done, void *arg);
/* -1 for what stays as it is. */
struct people_tenant_set {
	int need, hold_s, disabled;
};
void people_tenant_set(const struct store_operator *who, int64_t tenant,
    const struct people_tenant_set *set, struct review_answer *out,
    review_done_fn *done, void *arg);
/* `token` 26 characters for the TXT record; the domain is not verified yet. */
void people_domain_add(const struct store_operator *who, int64_t tenant,
    const char *domain, const char *token, struct review_answer *out,
    review_done_fn *done, void *arg);

struct people_operator {
	int64_t id, seen_us;
	char *name, *roles;
	bool disabled;
};
struct people_operators {
	struct review_answer is;
	struct people_operator *row;
	size_t n;
};
void people_operators(const struct store_operator *who, struct arena *mem,
    struct people_operators *out, review_done_fn *done, void *arg);

struct people_scope {
	int64_t id, operator_id, tenant, inbox; /* 0: all */
	char *tenant_slug, *address, *role;
	int risk_cap;
};
struct people_scopes {
	struct review_answer is;
	struct people_scope *row;
	size_t n;
};
void people_scopes(const struct store_operator *who, struct arena *mem,
    struct people_scopes *out, review_done_fn *done, void *arg);

/* A role over a tenant, or one inbox of it; 0: everything. */
struct people_role {
	const char *role;
	int64_t tenant, inbox;
	int risk_cap;
};
struct people_secret {
	unsigned char salt[OPERATOR_SALT];
	const char *params;
	unsigned char verifier[32];
};
void people_operator_add(const struct store_operator *who, const char *name,
    const struct people_secret *secret, const struct people_role *role,
    struct review_answer *out, review_done_fn *done, void *arg);
void people_operator_disable(const struct store_operator *who, const char *name,
    struct review_answer *out, review_done_fn *done, void *arg);
void people_scope_add(const struct store_operator *who, int64_t operator_id,
    const struct people_role *role, struct review_answer *out,
    review_done_fn *done, void *arg);
void people_scope_end(const struct store_operator *who, int64_t scope,
    struct review_answer *out, review_done_fn *done, void *arg);

/* One's own sessions; `ref` names one and opens nothing. */
struct people_session {
	unsigned char ref[32];
	char *peer;
	int64_t created_us, touched_us, expires_us;
	bool mine; /* the one that asks */
};
struct people_sessions {
	struct review_answer is;
	struct people_session *row;
	size_t n;
};
void people_sessions(const struct store_operator *who, struct arena *mem,
    struct people_sessions *out, review_done_fn *done, void *arg);
void people_session_end(const struct store_operator *who,
    const unsigned char ref[32], struct review_answer *out,
    review_done_fn *done, void *arg);
/* A new password for the old one's output; the other sessions end. */
void people_password_set(const struct store_operator *who,
    const unsigned char output[OPERATOR_OUTPUT],
    const struct people_secret *secret, const unsigned char next_sha256[32],
    struct review_answer *out, review_done_fn *done, void *arg);

#endif
