/* SPDX-License-Identifier: ISC */
/*
 * limit.h - how much an inbox may send: rolling windows in Redis, one counter
 * for every door (decisions D20, D21), and what happens without Redis (A18).
 *
 * Day, month, held count and held bytes are rows in PostgreSQL as well and
 * are decided there; these windows stop a flood before it costs a commit.
 * A busy inbox far from its limits is charged ahead (store/lease.h).
 */
#ifndef STORE_LIMIT_H
#define STORE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limiter;
struct limit_op;
struct loop;
struct redis;

enum limit_window { LIMIT_HOUR, LIMIT_DAY, LIMIT_BYTES, LIMIT_WINDOWS };

/* Whose counter, and its limits. */
struct limit_inbox {
	int64_t tenant, inbox;
	int hour, day; /* messages */
	int64_t bytes; /* a day */
};

int64_t limit_of(const struct limit_inbox *inbox, int window);

struct limit_cost {
	int64_t messages, recipients, bytes;
};

enum limit_verdict {
	LIMIT_OK, /* charged in Redis */
	LIMIT_OVER, /* not charged */
	LIMIT_LOCAL, /* Redis away: charged to this process's own share */
	LIMIT_LOCAL_OVER,
	LIMIT_CLOSED, /* Redis away and redis.down = closed */
};

struct limit_answer {
	enum limit_verdict verdict;
	const char *window; /* "hour", "day", "bytes"; NULL = not known */
	int64_t limit, left; /* of that window */
	int64_t wait_ms; /* until it has room, or more room */
	int64_t at; /* when it was charged, for limit_refund() */
};

/* Once, later, never from inside limit_charge(). */
typedef void limit_fn(void *arg, const struct limit_answer *answer);

/* `redis` is borrowed. `shares`: processes that share the local limits. */
struct limiter *limiter_new(
    struct loop *loop, struct redis *redis, unsigned shares, bool closed);
void limiter_free(struct limiter *l);
void limiter_set_closed(struct limiter *l, bool closed);
bool limiter_up(const struct limiter *l);
/* From now on charge nothing ahead; what was and is not used goes back. */
void limiter_drain(struct limiter *l);
/* Refunds that Redis has not answered yet. */
unsigned limiter_pending(const struct limiter *l);

struct limit_op *limit_charge(struct limiter *l,
    const struct limit_inbox *inbox, const struct limit_cost *cost,
    limit_fn *done, void *arg);
/* What was charged stays charged. NULL is fine. */
void limit_cancel(struct limit_op *op);
/* Nothing was stored after all. `answer` is that of the charge. */
void limit_refund(struct limiter *l, const struct limit_inbox *inbox,
    const struct limit_cost *cost, const struct limit_answer *answer);

struct limit_left {
	const char *name;
	unsigned seconds;
	int64_t limit, left, reset_ms;
};
/* `left` has LIMIT_WINDOWS entries; NULL when Redis does not answer. */
typedef void limit_peek_fn(void *arg, const struct limit_left *left);
struct limit_op *limit_peek(struct limiter *l, const struct limit_inbox *inbox,
    limit_peek_fn *done, void *arg);

#endif
