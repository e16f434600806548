/* SPDX-License-Identifier: ISC */
/*
 * store.h - the gateway's connection to PostgreSQL and Redis, as a whole.
 *
 * One per posternd worker. Nothing here blocks and no callback runs inside
 * the call that asked for it. Callbacks run once unless cancelled; a cancel
 * means "do not call me", never "undo".
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>

#include "base/err.h"

struct conf;
struct loop;
struct pg_conf;
struct store;

/*
 * Connects in the background with the login l_gateway. `worker` counts from
 * 0; `workers` is how many share this host (for the local limits while Redis
 * is away). `conf` is borrowed until store_free().
 */
MUST_CHECK struct store *store_new(struct loop *loop, const struct conf *conf,
    unsigned worker, unsigned workers, struct err *err);
/* Another configuration after a reload: numbers change, sockets do not. */
void store_reconf(struct store *st, const struct conf *conf);
/* Drops what is open without callbacks: drain first. NULL is fine. */
void store_free(struct store *st);

/* Is there a database to write to? */
bool store_ready(const struct store *st);
/* Is Redis answering? */
bool store_limiter_up(const struct store *st);
/* Nothing new comes: give back what limits were charged ahead. */
void store_drain(struct store *st);
/* What is not answered yet: submissions, refunds (for a graceful stop). */
unsigned store_pending(const struct store *st);

/*
 * The newest migration that these programs know, and the oldest schema that
 * they can work with. A schema that a later release expanded still serves
 * them, until api.ready_1().serves says otherwise (docs/upgrade.md).
 */
#define STORE_SCHEMA 19
#define STORE_SCHEMA_MIN 19
/* Behind the name of each connection, so that a migration sees who is left. */
#define STORE_KNOWS " schema="

/*
 * Checks at start of any program, blocking (decisions A14, A15): server and
 * schema neither too old nor too new, durable settings, and the deployment,
 * epoch, system identifier, timeline and place in its log last seen, which are
 * kept in state_dir (empty: not kept). `login` is this program's role. False:
 * do not start.
 */
MUST_CHECK bool store_check(
    const struct conf *conf, const char *login, struct err *err);

/* Fill what pg_pool_new() and pg_sync_open() need from the configuration. */
void store_pg_conf(struct pg_conf *out, const struct conf *conf,
    const char *login, const char *program);

#endif
