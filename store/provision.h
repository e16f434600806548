/* SPDX-License-Identifier: ISC */
/*
 * provision.h - tokens that make inboxes, and nothing that is in them. The
 * database checks the token with every call; another's inbox is not_found.
 */
#ifndef STORE_PROVISION_H
#define STORE_PROVISION_H

#include "store/credential.h"

struct store_prov_op;

#define STORE_CLAIM_TEXT 40 /* "claim_" and 26 characters, with the NUL */

/* Who asks. Read it; only provision.c fills it. */
struct store_prov {
	struct store *store;
	int64_t tenant, key;
	struct secret proof;
	char tenant_slug[40], name[401], plan[40];
	char rights[8]; /* of c create, l list, p pause, d delete */
	char *domains; /* '\n' between; "": all of the tenant */
	int max_inboxes, inboxes;
	bool test; /* makes test inboxes only */
	int64_t expires_at; /* us since 1970 */
};

/* Has the text the shape of such a token? */
bool store_prov_valid(struct str token);

/* `prov` is the caller's, to be freed; NULL with any code but 0. */
typedef void store_prov_fn(
    void *arg, enum err_code code, struct store_prov *prov);
struct store_prov_op *store_prov_auth(
    struct store *st, struct str token, store_prov_fn *done, void *arg);
/* Wipes. NULL is fine. */
void store_prov_free(struct store_prov *prov);

/* What became of a call; texts during the callback. */
struct store_prov_box {
	int64_t id; /* a place in the list */
	const char *address, *display_name, *client_id;
	bool test, claimed, paused, suspended, one_click;
	int mode;
	int64_t created_at;
};
struct store_prov_made {
	const char *address;
	bool fresh; /* false: it was there under this client_id */
	bool test;
	const char *claim_code; /* NULL: it has an owner */
	int64_t claim_until, created_at;
};
typedef void store_prov_made_fn(
    void *arg, enum err_code code, const struct store_prov_made *made);
typedef void store_prov_list_fn(void *arg, enum err_code code,
    const struct store_prov_box *v, size_t count);
typedef void store_prov_done_fn(void *arg, enum err_code code, int64_t n);

/* `display_name` and `client_id` may be NULL. */
struct store_prov_op *store_prov_create(const struct store_prov *prov,
    const char *address, const char *display_name, const char *client_id,
    bool test, store_prov_made_fn *done, void *arg);
/* A new code, while nobody has claimed it. */
struct store_prov_op *store_prov_code(const struct store_prov *prov,
    const char *address, store_prov_made_fn *done, void *arg);
/* Newest first, behind the place `after` (0: all), at most `limit`. */
struct store_prov_op *store_prov_list(const struct store_prov *prov,
    int64_t after, int limit, store_prov_list_fn *done, void *arg);
struct store_prov_op *store_prov_pause(const struct store_prov *prov,
    const char *address, store_prov_done_fn *done, void *arg);
/* `n`: how many messages ended with it. */
struct store_prov_op *store_prov_delete(const struct store_prov *prov,
    const char *address, store_prov_done_fn *done, void *arg);
/* No callback any more. NULL is fine. */
void store_prov_cancel(struct store_prov_op *op);

#endif
