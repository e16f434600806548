/* SPDX-License-Identifier: ISC */
/*
 * upload.c - see upload.h. A chunk keeps its bytes until it is committed.
 */
#include "store/upload.h"

#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/pg.h"
#include "store/store_internal.h"

#define PER_UPLOAD 2
#define PER_WORKER 32
#define TRIES 4
#define AGAIN_MS 250

TAILQ_HEAD(chunks, chunk);

struct chunk {
	TAILQ_ENTRY(chunk) link;
	struct upload *u;
	uint32_t seq;
	struct buf data;
	struct pg_req *req; /* NULL: waits for a slot or for `again` */
	struct loop_timer *again;
	unsigned tries;
	bool has_slot;
};

struct upload {
	TAILQ_ENTRY(upload) link; /* in st->uploads while one chunk waits */
	bool waits;
	struct store *st;
	int64_t tenant, key;
	struct secret proof;
	struct uuid message;
	struct chunks chunks;
	unsigned busy, inflight;
	enum err_code code;
	upload_fn *moved;
	void *arg;
};

static void put(struct chunk *k);

struct upload *
upload_new(struct store *st, int64_t tenant, int64_t key, struct str proof,
    const struct uuid *message, upload_fn *moved, void *arg)
{
	struct upload *u = xcalloc(1, sizeof(*u));

	u->st = st;
	u->tenant = tenant;
	u->key = key;
	BUG_ON(!secret_set(&u->proof, proof.p, proof.n));
	u->message = *message;
	TAILQ_INIT(&u->chunks);
	u->moved = moved;
	u->arg = arg;
	return u;
}

unsigned
upload_busy(const struct upload *u)
{
	return u->busy;
}

enum err_code
upload_code(const struct upload *u)
{
	return u->code;
}

static void
set_waits(struct upload *u, bool waits)
{
	if (u->waits == waits)
		return;
	u->waits = waits;
	if (waits)
		TAILQ_INSERT_TAIL(&u->st->uploads, u, link);
	else
		TAILQ_REMOVE(&u->st->uploads, u, link);
}

/* Start what may start; one chunk of each upload in turn. */
static void
pump(struct store *st)
{
	struct upload *u;
	struct chunk *k;

	while (st->chunks < PER_WORKER &&
	       (u = TAILQ_FIRST(&st->uploads)) != NULL) {
		set_waits(u, false);
		TAILQ_FOREACH(k, &u->chunks, link) {
			if (!k->has_slot)
				break;
		}
		if (k == NULL || u->inflight >= PER_UPLOAD)
			continue;
		k->has_slot = true;
		u->inflight++;
		st->chunks++;
		put(k);
		set_waits(u, u->busy > u->inflight && u->inflight < PER_UPLOAD);
	}
}

static void
free_chunk(struct chunk *k)
{
	struct upload *u = k->u;

	TAILQ_REMOVE(&u->chunks, k, link);
	u->busy--;
	if (k->has_slot) {
		u->inflight--;
		u->st->chunks--;
	}
	pg_cancel(k->req);
	loop_timer_free(k->again);
	buf_free(&k->data);
	free(k);
}

static void
on_again(void *arg)
{
	put(arg);
}

/* False: it failed for good, `code` says why. */
static bool
try_again(struct chunk *k, enum pg_err err, enum err_code code)
{
	bool worth = err == PG_LOST || err == PG_UNSENT ||
		     (err == PG_REJECTED && code == E_STORE_UNAVAILABLE);

	if (!worth || ++k->tries >= TRIES)
		return false;
	if (k->again == NULL)
		k->again = loop_timer_new(k->u->st->loop, on_again, k);
	loop_timer_set(k->again, AGAIN_MS << k->tries);
	return true;
}

static void
on_put(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct chunk *k = arg;
	struct upload *u = k->u;
	struct store *st = u->st;
	enum err_code code = store_row_code(err, res);

	k->req = NULL;
	if (code != E_NONE && try_again(k, err, code))
		return;
	if (code != E_NONE && u->code == E_NONE)
		u->code = code;
	free_chunk(k);
	set_waits(u, u->busy > u->inflight);
	pump(st);
	u->moved(u->arg);
}

static void
put(struct chunk *k)
{
	struct upload *u = k->u;
	struct pg_args args = { 0 };

	pg_i64(&args, u->tenant);
	pg_i64(&args, u->key);
	pg_bytes(&args, u->proof.b, u->proof.n);
	pg_uuid(&args, &u->message);
	pg_i32(&args, (int32_t)k->seq);
	pg_bytes(&args, k->data.p, k->data.n);
	k->req = pg_call_move(u->st->large,
	    "select * from api.put_chunk_1($1,$2,$3,$4,$5,$6)", &args, on_put,
	    k);
}

void
upload_put(struct upload *u, uint32_t seq, const void *p, size_t n)
{
	struct chunk *k = xcalloc(1, sizeof(*k));

	k->u = u;
	k->seq = seq;
	buf_add(&k->data, p, n);
	TAILQ_INSERT_TAIL(&u->chunks, k, link);
	u->busy++;
	set_waits(u, true);
	pump(u->st);
}

void
upload_free(struct upload *u)
{
	struct chunk *k, *next;
	struct store *st;

	if (u == NULL)
		return;
	st = u->st;
	TAILQ_FOREACH_SAFE(k, &u->chunks, link, next)
		free_chunk(k);
	set_waits(u, false);
	secret_wipe(&u->proof);
	free(u);
	pump(st);
}
