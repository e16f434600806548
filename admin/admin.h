/* SPDX-License-Identifier: ISC */
/*
 * admin.h - postern-admin: one process, one loop, one of each of these
 */
#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/press.h"
#include "base/secret.h"
#include "base/uuid.h"
#include "http/server.h"
#include "store/operator.h"

struct conf;
struct foreign_cache;
struct job_runners;
struct live_streams;
struct helper_pool;
struct http_request;

struct loop;
struct net_ledger;
struct pool;
struct redis;
struct seal_zstd;

#define ADMIN_RECENT 64

/* An approval that can still be taken back, for the bar on the next pages. */
struct admin_recent {
	int64_t operator_id, until_us;
	struct uuid message;
	int version, round;
	char label[160];
};

struct admin {
	struct loop *loop;
	struct review_db *db;
	struct redis *redis; /* to wake the workers; may be away */
	struct pool *pool; /* opening bodies, argon2id of who is signed in */
	struct pool *door; /* argon2id of who is not: fills no other */
	char *auth_socket; /* where postern-auth answers */
	char origin[300]; /* "https://host:port" that the pages live at */
	/* Of links to unsubscribe; "": none can be made. */
	char link_base[256];
	int undo_s;
	int64_t approve_ttl_us;
	struct secret review_key, relay_pub, approve_key;
	unsigned char review_pub[32];
	char *setup_token_file; /* NULL: no first run over the web */
	struct secret setup_token; /* n = 0: used up */
	struct helper_pool *helpers; /* text in charsets not decoded here */
	struct foreign_cache *words; /* of it, from lists */
	struct admin_recent recent[ADMIN_RECENT];
	unsigned recent_at;
	struct presses presses;
	unsigned opening; /* bodies being opened */
	struct job_runners *jobs;
	struct live_streams *live;
	struct net_ledger *signins; /* those that failed, by client address */
};

/* Who may call a route; 0 is anybody. */
enum admin_principal {
	ADMIN_ANYBODY,
	ADMIN_READER, /* any signed-in operator */
	ADMIN_REVIEWER, /* decides: reviewer, senior */
	ADMIN_PAUSER, /* reviewer, senior, admin */
	ADMIN_LOOSENER, /* senior, admin */
	ADMIN_ADMIN, /* admin */
	ADMIN_CONFIG, /* sees what admins set: admin, auditor */
	ADMIN_WATCHER, /* sees the audit log: senior, admin, auditor */
};
/* An open page asks this by itself: it does not make a session last longer. */
#define ADMIN_BY_ITSELF 0x100

extern const struct http_route admin_routes[];
extern const size_t admin_routes_n;
extern const char *const admin_headers[];

/* The http server's authorize and problem functions. */
void admin_authorize(struct http_request *req, int principal);

/* Remember an approval for the undo bar; find the operator's newest. */
void admin_recent_add(struct admin *admin, const struct admin_recent *r);
const struct admin_recent *admin_recent_find(
    const struct admin *admin, int64_t operator_id, int64_t now_us);
void admin_recent_drop(struct admin *admin, const struct uuid *message);

#endif
