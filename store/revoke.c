/* SPDX-License-Identifier: ISC */
/*
 * revoke.c - a key that is revoked dies on open connections too.
 *
 * The database refuses it at once in every call. This tells the sessions that
 * hold it: twice a second by asking, sooner by a message on `revoke`, whose
 * content does not matter.
 */
#include "store/store_internal.h"

#include "base/clock.h"
#include "base/loop.h"
#include "store/known.h"
#include "store/redis.h"

#define POLL_MS 500
/* Commits that became visible late must not slip through. */
#define OVERLAP_US (5 * 1000 * 1000)

static void
mark(struct store *st, int64_t tenant, int64_t key)
{
	struct store_cred *c;

	for (c = st->creds; c != NULL; c = c->next) {
		if (c->tenant == tenant && c->key == key)
			c->revoked = true;
	}
	known_forget(st->known, tenant, key);
}

static void
on_revoked(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store *st = arg;
	int i, n;

	st->polling = NULL;
	loop_timer_set(st->poll, POLL_MS);
	if (err != PG_OK)
		return;
	n = pg_rows(res);
	for (i = 0; i < n; i++) {
		st->polled = pg_get_time(res, i, "now");
		if (!pg_is_null(res, i, "key_id"))
			mark(st, pg_get_i64(res, i, "tenant_id"),
			    pg_get_i64(res, i, "key_id"));
	}
}

void
store_revoke_now(struct store *st)
{
	struct pg_args args = { 0 };

	if (st->polling != NULL)
		return;
	pg_time(&args, st->polled - OVERLAP_US);
	st->polling = pg_call_move(st->pool,
	    "select * from api.revoked_since_1($1)", &args, on_revoked, st);
}

static void
on_poll(void *arg)
{
	struct store *st = arg;

	/* Nobody to tell: the window only grows. */
	if (st->creds == NULL) {
		loop_timer_set(st->poll, POLL_MS);
		return;
	}
	store_revoke_now(st);
}

static void
on_message(void *arg, struct str channel, struct str message)
{
	(void)channel;
	(void)message;
	store_revoke_now(arg);
}

void
store_revoke_start(struct store *st)
{
	st->polled = clock_real_us();
	st->poll = loop_timer_new(st->loop, on_poll, st);
	loop_timer_set(st->poll, POLL_MS);
	redis_subscribe(st->redis, "revoke", on_message, st);
}
