/* SPDX-License-Identifier: ISC */
/*
 * redis.h - Redis from an event loop: calls with a deadline, and messages.
 *
 * Nothing in Redis is the truth, so every answer may be "unknown" (NULL): on
 * a timeout, a lost connection, or while the breaker is open. Three failures
 * in a row open the breaker; it closes when a probe, once a second, succeeds.
 * Callbacks never run inside the call that asked for them.
 */
#ifndef STORE_REDIS_H
#define STORE_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct conf;
struct loop;
struct redis;
struct redis_req;
struct redisReply;

struct redis_conf {
	const char *socket; /* path of the unix socket; NULL or "" = no Redis */
	const char *user; /* "gw"; "" = do not sign in */
	const char *password; /* "" = none */
	bool probe_limiter; /* up only if the function library answers */
};

/* Connects in the background. Copies `conf`. */
struct redis *redis_new(struct loop *loop, const struct redis_conf *conf);
/* From the configuration, as the user that `program` is to Redis. */
MUST_CHECK struct redis *redis_open(struct loop *loop, const struct conf *conf,
    const char *program, struct err *err);
/* Open calls are dropped without callback. NULL is fine. */
void redis_free(struct redis *r);
bool redis_up(const struct redis *r);

/* `reply` is borrowed; NULL = unknown. An error reply is given as it is. */
typedef void redis_done_fn(void *arg, const struct redisReply *reply);

#define REDIS_TIMEOUT_MS 50
struct redis_req *redis_call(struct redis *r, size_t argc,
    const struct str *argv, unsigned timeout_ms, redis_done_fn *done,
    void *arg);
/* Never call `done`; what was sent may still run. NULL is fine. */
void redis_cancel(struct redis_req *req);

/* Publish, no answer; messages while Redis is away are lost. */
void redis_publish(struct redis *r, const char *channel, struct str message);
/*
 * Publish to `wake` that mail is due in `in_ms`: workers look then. At most one
 * message in 20 ms; of those put together the soonest counts. NULL is fine.
 */
void redis_wake(struct redis *r, unsigned in_ms);

/*
 * Listen to a channel for as long as `r` lives, on a connection of its own,
 * subscribed again after each reconnect. Messages in between are lost.
 */
typedef void redis_message_fn(
    void *arg, struct str channel, struct str message);
void redis_subscribe(
    struct redis *r, const char *channel, redis_message_fn *fn, void *arg);

#endif
