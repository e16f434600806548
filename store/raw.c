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
	int64_t grant; /* 0: mail of its own */
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
	if (raw->grant != 0)
		pg_i64(&args, raw->grant);
	pg_uuid(&args, &raw->id);
	pg_i32(&args, raw->next);
	pg_i32(&args, CHUNKS_AT_ONCE);
	raw->req = pg_call_move(raw->st->large,
	    raw->grant != 0
		? "select * from api.granted_body_1($1,$2,$3,$4,$5,$6,$7)"
		: "select * from api.my_body_1($1,$2,$3,$4,$5,$6)",
	    &args, on_chunks, raw);
}

/* The 32 bytes of a public key; false: there are not as many. */
static bool
take_pub(unsigned char out[32], const struct pg_result *res, const char *column)
{
	struct str pub = pg_get_bytes(res, 0, column);

	if (pub.n != 32)
		return false;
	memcpy(out, pub.p, 32);
	return true;
}

/* The private key of the inbox: of this one, or of that which gave a grant. */
static bool
open_inbox(struct secret *priv, const struct store_raw *raw,
    const struct pg_result *res, const unsigned char pub[32])
{
	struct str wrapped = pg_get_bytes(res, 0, "wrapped"), box;
	struct secret own = { 0 };
	unsigned char own_pub[32];
	bool ok;

	if (raw->grant == 0)
		return seal_unwrap(priv, &raw->kek, pub, wrapped);
	box = pg_get_bytes(res, 0, "grant_box");
	ok = box.n == 32 + SEAL_BOX_EXTRA &&
	     take_pub(own_pub, res, "own_pub") &&
	     seal_unwrap(&own, &raw->kek, own_pub, wrapped) &&
	     seal_box_open(priv->b, box, own_pub, &own);
	if (ok)
		priv->n = 32;
	secret_wipe(&own);
	return ok;
}

/* Inbox key from the wrapped one, hour key from its box, message key. */
static bool
open_keys(struct store_raw *raw, const struct pg_result *res)
{
	struct secret priv = { 0 }, hour = { 0 }, key = { 0 };
	struct seal_id id = {
		.tenant = (uint64_t)pg_get_i64(res, 0, "tenant_id"),
		.inbox = (uint64_t)pg_get_i64(res, 0, "inbox_id"),
		.message = raw->id,
		.version = (uint16_t)pg_get_int(res, 0, "version"),
	};
	unsigned char pub32[32];
	bool ok;

	memcpy(id.deployment, raw->cred.deployment, sizeof(id.deployment));
	ok = take_pub(pub32, res, "inbox_pub") &&
	     open_inbox(&priv, raw, res, pub32) &&
	     seal_hour_open(
		 &hour, pg_get_bytes(res, 0, "inbox_box"), pub32, &priv);
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
	struct store_message m = { 0 };
	struct str digest;

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
	if (raw->grant == 0) {
		store_message_read(&m, res, 0);
	} else {
		m.size = pg_get_i64(res, 0, "size");
		m.chunks = pg_get_int(res, 0, "chunks");
		digest = pg_get_bytes(res, 0, "digest");
		if (digest.n == sizeof(m.digest))
			memcpy(m.digest, digest.p, digest.n);
	}
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
    int64_t grant, const struct secret *kek, const struct store_raw_fns *fns,
    void *arg)
{
	struct store_raw *raw = xcalloc(1, sizeof(*raw));
	struct pg_args args = { 0 };

	raw->st = cred->store;
	raw->cred = *cred;
	raw->id = *id;
	raw->grant = grant;
	raw->kek = *kek;
	raw->fns = *fns;
	raw->arg = arg;
	store_cred_args(&args, cred);
	if (grant != 0)
		pg_i64(&args, grant);
	pg_uuid(&args, id);
	raw->req = pg_call_move(raw->st->pool,
	    grant != 0 ? "select * from api.granted_get_1($1,$2,$3,$4,$5)"
		       : "select * from api.my_get_1($1,$2,$3,$4)",
	    &args, on_message, raw);
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
