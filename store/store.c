/* SPDX-License-Identifier: ISC */
/*
 * store.c - puts the parts of the gateway's store together.
 */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "seal/body.h"
#include "seal/key.h"
#include "seal/keyfile.h"
#include "store/known.h"
#include "store/redis.h"
#include "store/store_internal.h"

#define COMMIT_DEADLINE_MS 10000
#define CHUNK_DEADLINE_MS 30000

void
store_pg_conf(struct pg_conf *out, const struct conf *conf, const char *login,
    const char *program)
{
	*out = (struct pg_conf){
		.socket = conf->store_socket,
		.port = (unsigned)conf->store_port,
		.database = conf->store_database,
		.user = login,
		.program = program,
		.conns = (unsigned)conf->store_pool,
	};
}

static bool
is_closed(const struct conf *conf)
{
	return strcmp(conf->redis_down, "closed") == 0;
}

static void
open_pools(struct store *st)
{
	struct pg_conf pc;
	size_t i;

	store_pg_conf(&pc, st->conf, "l_gateway", "posternd");
	st->pool = pg_pool_new(st->loop, &pc);
	pc.conns = 1;
	pc.inflight = 2;
	pc.deadline_ms = COMMIT_DEADLINE_MS;
	for (i = 0; i < COMMIT_LANES; i++)
		st->lane[i] = pg_pool_new(st->loop, &pc);
	pc.conns = (unsigned)st->conf->store_large_pool;
	pc.inflight = 2;
	pc.deadline_ms = CHUNK_DEADLINE_MS;
	st->large = pg_pool_new(st->loop, &pc);
}

/* Needed only to release without a person: absent means that none is. */
static bool
load_keys(struct store *st, struct err *err)
{
	struct secret pub = { 0 };
	const struct conf *conf = st->conf;

	if (conf->keys_policy_key_file != NULL &&
	    conf->keys_policy_key_file[0] != '\0' &&
	    !seal_keyfile_load(&st->policy_key, conf->keys_policy_key_file,
		SEAL_KEYFILE_POLICY, err))
		return false;
	if (conf->keys_relay_pub_file == NULL ||
	    conf->keys_relay_pub_file[0] == '\0')
		return true;
	if (!seal_keyfile_load(
		&pub, conf->keys_relay_pub_file, SEAL_KEYFILE_RELAY_PUB, err))
		return false;
	memcpy(st->relay_pub, pub.b, sizeof(st->relay_pub));
	st->has_relay_pub = true;
	return true;
}

struct store *
store_new(struct loop *loop, const struct conf *conf, unsigned worker,
    unsigned workers, struct err *err)
{
	struct store *st = xcalloc(1, sizeof(*st));

	(void)worker;
	st->loop = loop;
	st->conf = conf;
	TAILQ_INIT(&st->uploads);
	if (!seal_init(err) || !load_keys(st, err) ||
	    (st->redis = redis_open(loop, conf, "posternd", err)) == NULL) {
		store_free(st);
		return NULL;
	}
	open_pools(st);
	st->limiter = limiter_new(loop, st->redis, workers, is_closed(conf));
	st->committer = committer_new(loop, st->lane, st->pool);
	st->hours = hours_new();
	st->known = known_new();
	st->zstd = seal_zstd_new();
	store_revoke_start(st);
	return st;
}

void
store_reconf(struct store *st, const struct conf *conf)
{
	st->conf = conf;
	limiter_set_closed(st->limiter, is_closed(conf));
}

void
store_free(struct store *st)
{
	size_t i;

	if (st == NULL)
		return;
	for (i = 0; i < COMMIT_LANES; i++)
		pg_pool_free(st->lane[i]);
	pg_pool_free(st->large);
	pg_pool_free(st->pool);
	committer_free(st->committer);
	limiter_free(st->limiter);
	redis_free(st->redis);
	hours_free(st->hours);
	known_free(st->known);
	seal_zstd_free(st->zstd);
	loop_timer_free(st->poll);
	secret_wipe(&st->policy_key);
	free(st);
}

void
store_set_filter(struct store *st, const struct store_filter *filter)
{
	st->filter = *filter;
}

bool
store_ready(const struct store *st)
{
	return pg_pool_ready(st->lane[0]) && pg_pool_ready(st->pool);
}

bool
store_limiter_up(const struct store *st)
{
	return redis_up(st->redis);
}

void
store_drain(struct store *st)
{
	limiter_drain(st->limiter);
}

unsigned
store_pending(const struct store *st)
{
	return st->submissions + limiter_pending(st->limiter);
}
