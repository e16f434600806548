/* SPDX-License-Identifier: ISC */
/* relay_internal.h - what relay.c and relay_way.c share. */
#ifndef STORE_RELAY_INTERNAL_H
#define STORE_RELAY_INTERNAL_H

#include <sys/queue.h>

#include "store/pg.h"
#include "store/relay.h"

struct relay_op {
	LIST_ENTRY(relay_op) link;
	struct pg_req *req;
	void *arg;
	size_t n; /* rows that must come back from beat */
	union {
		relay_claim_fn *claim;
		relay_fetch_fn *fetch;
		relay_body_fn *body;
		relay_done_fn *done;
		relay_stats_fn *stats;
		relay_dkim_fn *dkim;
		relay_route_fn *route;
		relay_key_fn *key;
	} fn;
};

LIST_HEAD(relay_ops, relay_op);

struct relay {
	struct pg_pool *pool;
	struct relay_ops ops;
};

struct relay_op *relay_call(struct relay *r, const char *sql, struct pg_args *a,
    pg_done_fn *done, void *arg);
/* The handle dies here; what it carried is copied out. */
struct relay_op relay_take(void *arg);
enum relay_status relay_status_of(enum pg_err err, const struct pg_result *res);
const char *relay_why_of(enum pg_err err, const struct pg_result *res);
/* For calls that answer with nothing but a status. */
void relay_on_done(void *arg, enum pg_err err, const struct pg_result *res);
void relay_lease_args(struct pg_args *a, const struct store_lease *l);

#endif
