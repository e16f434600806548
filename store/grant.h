/* SPDX-License-Identifier: ISC */
/*
 * grant.h - one inbox's agent sees what another's sent, because an operator
 * offered it and the other's own key accepted. Each look is written down.
 */
#ifndef STORE_GRANT_H
#define STORE_GRANT_H

#include "base/uuid.h"
#include "store/credential.h"

struct store_op;
struct store_grant_op;

/* Texts are borrowed during the callback; times are us since 1970, 0: not. */
struct store_grant {
	int64_t id;
	bool given; /* this inbox is the one that is seen */
	const char *other; /* the other inbox's address */
	bool messages; /* mail, not only states */
	int64_t offered_at, accepted_at, expires_at, ended_at;
	int reads;
};
typedef void store_grants_fn(
    void *arg, enum err_code code, const struct store_grant *g, size_t count);
struct store_op *store_grants(
    const struct store_cred *cred, int limit, store_grants_fn *done, void *arg);

/* What is seen; without the grant of mail texts are "" and sizes 0. */
struct store_granted {
	struct uuid message, thread;
	int state;
	int64_t created_at, updated_at;
	const char *mail_from, *rcpts, *subject;
	int64_t size;
	struct str digest;
};
typedef void store_granted_fn(
    void *arg, enum err_code code, const struct store_granted *m, size_t count);
/* The one `id`, or those behind `after` (NULL: all), newest first. */
struct store_op *store_granted(const struct store_cred *cred, int64_t grant,
    const struct uuid *id, const struct uuid *after, int limit,
    store_granted_fn *done, void *arg);

typedef void store_grant_fn(void *arg, enum err_code code);
/*
 * Accept an offer with the inbox's full key; `kek` as store_message_raw()
 * takes it. With mail, the inbox's private key goes sealed to the other inbox.
 */
struct store_grant_op *store_grant_accept(const struct store_cred *cred,
    int64_t grant, const struct secret *kek, store_grant_fn *done, void *arg);
/* Either side ends it. */
struct store_grant_op *store_grant_leave(const struct store_cred *cred,
    int64_t grant, store_grant_fn *done, void *arg);
/* No callback any more. NULL is fine. */
void store_grant_cancel(struct store_grant_op *op);

#endif
