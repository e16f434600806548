/* SPDX-License-Identifier: ISC */
/*
 * pool.h - a few threads for work that takes long, such as argon2id.
 *
 * `work` runs in a thread and may touch only its argument; `done` runs on the
 * loop afterwards. The queue is bounded: a full pool refuses at once.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct loop;
struct pool;

typedef void pool_fn(void *arg);

struct pool *pool_new(struct loop *loop, size_t threads, size_t queue_max);
/* Waits for running work; jobs not yet done are dropped without `done`. */
void pool_free(struct pool *pool);
/* False when `queue_max` jobs wait or run already; `arg` stays the caller's. */
MUST_CHECK bool pool_submit(
    struct pool *pool, pool_fn *work, pool_fn *done, void *arg);

#endif
