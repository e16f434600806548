/* SPDX-License-Identifier: ISC */
/*
 * raw.c - an agent reads back the bytes of a message of its own.
 *
 * my_get_1 gives the wrapped inbox key and the box with the hour key; with
 * the KEK both open here, for this one read. Chunks come two at a time.
 */
#include "store/message_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "seal/body.h"
#include "seal/key.h"

#define CHUNKS_AT_ONCE 2

struct store_raw {
	struct store *st;
	struct store_cred cred; /* a copy; in no list */
	struct uuid id;
	struct secret kek;
	struct store_raw_fns fns;
	void *arg;
	struct pg_req *req;
	struct seal_open *open;
	int chunks, next;
	bool paused, in_data, gone;
};

static void fetch(struct store_raw *raw);

static void
free_raw(struct store_raw *raw)
{
	pg_cancel(raw->req);
	seal_open_free(raw->open);
	secret_wipe(&raw->kek);
	secret_wipe(&raw->cred.proof);
	secret_wipe(&raw->cred.idem);
	free(raw);
}

static void
end(struct store_raw *raw, enum err_code code)
{
	raw->fns.end(raw->arg, code);
	free_raw(raw);
}

static void
on_plain(void *arg, const void *p, size_t n)
{
	struct store_raw *raw = arg;

	if (!raw->gone && !raw->fns.data(raw->arg, p, n))
		raw->paused = true;
}

static void
on_chunks(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_raw *raw = arg;
	enum err_code code = store_row_code(err, res);
	struct str data;
	int i;

	raw->req = NULL;
	raw->in_data = true;
	for (i = 0; code == E_NONE && !raw->gone && i < pg_rows(res); i++) {
		data = pg_get_bytes(res, i, "data");
		if (pg_get_int(res, i, "seq") != raw->next++ ||
		    !seal_open_chunk(raw->open, data.p, data.n))
			code = E_INTERNAL_ERROR;
	}
	raw->in_data = false;
	if (raw->gone)
		free_raw(raw);
	else if (code != E_NONE)
		end(raw, code);
	else if (raw->next >= raw->chunks)
		end(raw,
		    seal_open_finish(raw->open) ? E_NONE : E_INTERNAL_ERROR);
	else if (!raw->paused)
		fetch(raw);
}

static void
fetch(struct store_raw *raw)
{
	struct pg_args args = { 0 };

	store_cred_args(&args, &raw->cred);
	pg_uuid(&args, &raw->id);
	pg_i32(&args, raw->next);
	pg_i32(&args, CHUNKS_AT_ONCE);
	raw->req = pg_call_move(raw->st->large,
	    "select * from api.my_body_1($1,$2,$3,$4,$5,$6)", &args, on_chunks,
	    raw);
}

/* Inbox key from the wrapped one, hour key from its box, message key. */
static bool
open_keys(struct store_raw *raw, const struct pg_result *res)
{
	struct str pub = pg_get_bytes(res, 0, "inbox_pub");
	struct secret priv = { 0 }, hour = { 0 }, key = { 0 };
	struct seal_id id = {
		.tenant = (uint64_t)pg_get_i64(res, 0, "tenant_id"),
		.inbox = (uint64_t)pg_get_i64(res, 0, "inbox_id"),
		.message = raw->id,
		.version = (uint16_t)pg_get_int(res, 0, "version"),
	};
	unsigned char pub32[32];
	bool ok = false;

	memcpy(id.deployment, raw->cred.deployment, sizeof(id.deployment));
	if (pub.n == sizeof(pub32)) {
		memcpy(pub32, pub.p, sizeof(pub32));
		ok = seal_unwrap(&priv, &raw->kek, pub32,
			 pg_get_bytes(res, 0, "wrapped")) &&
		     seal_hour_open(&hour, pg_get_bytes(res, 0, "inbox_box"),
			 pub32, &priv);
	}
	if (ok) {
		seal_message_key(&key, &hour, &id);
		raw->open =
		    seal_open_new(raw->st->zstd, &key, &id, on_plain, raw);
	}
	secret_wipe(&priv);
	secret_wipe(&hour);
	secret_wipe(&key);
	secret_wipe(&raw->kek);
	return ok;
}

static void
on_message(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_raw *raw = arg;
	enum err_code code = store_row_code(err, res);
	struct store_message m;

	raw->req = NULL;
	if (code != E_NONE) {
		end(raw, code);
		return;
	}
	if (pg_is_null(res, 0, "wrapped") || !open_keys(raw, res)) {
		/* A send key, or the inbox was reset since. */
		end(raw, E_MISSING_PERMISSION);
		return;
	}
	store_message_read(&m, res, 0);
	raw->chunks = m.chunks;
	raw->in_data = true;
	raw->fns.head(raw->arg, &m);
	raw->in_data = false;
	if (raw->gone)
		free_raw(raw);
	else
		fetch(raw);
}

struct store_raw *
store_message_raw(const struct store_cred *cred, const struct uuid *id,
    const struct secret *kek, const struct store_raw_fns *fns, void *arg)
{
	struct store_raw *raw = xcalloc(1, sizeof(*raw));
	struct pg_args args = { 0 };

	raw->st = cred->store;
	raw->cred = *cred;
	raw->id = *id;
	raw->kek = *kek;
	raw->fns = *fns;
	raw->arg = arg;
	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	raw->req = pg_call_move(raw->st->pool,
	    "select * from api.my_get_1($1,$2,$3,$4)", &args, on_message, raw);
	return raw;
}

void
store_raw_resume(struct store_raw *raw)
{
	if (!raw->paused)
		return;
	raw->paused = false;
	if (raw->req == NULL && !raw->in_data)
		fetch(raw);
}

void
store_raw_cancel(struct store_raw *raw)
{
	if (raw == NULL)
		return;
	raw->gone = true;
	if (!raw->in_data)
		free_raw(raw);
}
