/* SPDX-License-Identifier: ISC */
/* relay_internal.h - what the files of relay.h share. */
#ifndef STORE_RELAY_INTERNAL_H
#define STORE_RELAY_INTERNAL_H

#include <sys/queue.h>

#include "store/pg.h"
#include "store/relay.h"

/* Room for RELAY_SET_RCPTS numbers of up to 1000 in braces. */
#define RELAY_IX_TEXT 128

enum relay_lane_kind {
	RELAY_LANE_FETCH,
	RELAY_LANE_ATTEMPT,
	RELAY_LANE_DOT,
	RELAY_LANE_SENT,
	RELAY_LANE_RELEASE,
	RELAY_LANES,
};

/* What a call that may go in a set says; see relay_set.h. */
struct relay_item {
	struct store_lease lease;
	int64_t inbox;
	char ix[RELAY_IX_TEXT];
	char mx[256], tls[128];
	int code; /* of the reply; or seconds */
	char enhanced[16], text[256];
};

struct relay_op;
struct relay_set;
/* Of a set: this op's part of the answer is `row`. */
typedef void relay_set_fn(
    struct relay_op *op, enum pg_err err, const struct pg_result *res, int row);

struct relay_op {
	LIST_ENTRY(relay_op) link;
	struct relay *relay;
	struct pg_req *req; /* of its own */
	void *arg;

	/* In a lane, until it is answered or goes alone. */
	TAILQ_ENTRY(relay_op) queued;
	struct relay_lane *lane;
	struct relay_set *set;
	size_t place; /* in `set` */
	bool waits;
	bool again; /* a set left it out already */
	struct relay_item item;
	const char *sql;
	struct pg_args single;
	pg_done_fn *single_done;
	relay_set_fn *set_done;
	uint64_t came_ms; /* when the answer did */

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
		relay_one_click_fn *one_click;
	} fn;
};

LIST_HEAD(relay_ops, relay_op);
TAILQ_HEAD(relay_queue, relay_op);

/* Calls of one kind; one of them, or one set of them, is under way. */
struct relay_lane {
	struct relay *relay;
	enum relay_lane_kind kind;
	struct relay_queue waiting;
	size_t waits; /* how many */
	uint64_t since_ms; /* when the first of them came, or was left */
	uint64_t passed; /* since when, as relay->passes counts, one of them has
			  * had to wait for another lane; 0: none has */
	struct relay_set *set;
};

struct relay {
	struct loop *loop;
	struct pg_pool *pool;
	struct relay_ops ops;
	struct relay_lane lane[RELAY_LANES];
	int lane_next; /* whose turn it is */
	int lanes_busy; /* but that of the dots */
	uint64_t passes;
	struct loop_timer *lanes_timer;
	/* Sets whose messages are handed on one by one, `later`, when nothing
	 * else is due; what is left of one at the `latest` after LATER_MS. */
	STAILQ_HEAD(, relay_set) fetched;
	struct loop_timer *later, *latest;
	bool kicked;
};

/* An op that no call carries yet. */
struct relay_op *relay_op_new(struct relay *r, void *arg);

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
