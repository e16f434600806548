/* SPDX-License-Identifier: ISC */
/*
 * claim.c - a claim code becomes the two keys of an inbox (decision D27).
 *
 * The keys are made here and shown once. The database gets SHA-256(A) of
 * each, the inbox's public key, and its private half wrapped for the full
 * key; the numbers that make the two tokens come back.
 */
#include "store/credential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/codec.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "seal/key.h"
#include "store/pg.h"
#include "store/store_internal.h"

struct store_claim {
	struct store *st;
	struct pg_req *req; /* NULL: malformed */
	struct secret full, send;
	store_claim_fn *done;
	void *arg;
};

static void
free_claim(struct store_claim *op)
{
	secret_wipe(&op->full);
	secret_wipe(&op->send);
	free(op);
}

static void
format_token(char *out, const struct pg_result *res, const char *number,
    const struct secret *s)
{
	struct seal_token token = {
		pg_get_bool(res, 0, "test") ? SEAL_TOKEN_TEST : SEAL_TOKEN_LIVE,
		(uint64_t)pg_get_i64(res, 0, "tenant_id"),
		(uint64_t)pg_get_i64(res, 0, number), *s
	};
	char text[SEAL_TOKEN_MAX];

	seal_token_format(text, &token);
	snprintf(out, STORE_TOKEN_MAX, "%s", text);
	OPENSSL_cleanse(text, sizeof(text));
	seal_token_wipe(&token);
}

static void
on_claimed(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_claim *op = arg;
	enum err_code code = store_row_code(err, res);
	struct store_claimed out = { 0 };

	if (code != E_NONE) {
		op->done(op->arg, code, NULL);
		free_claim(op);
		return;
	}
	snprintf(
	    out.inbox, sizeof(out.inbox), "%s", pg_get_text(res, 0, "address"));
	out.epoch = pg_get_int(res, 0, "inbox_epoch");
	out.test = pg_get_bool(res, 0, "test");
	format_token(out.key, res, "full_key", &op->full);
	format_token(out.smtp_key, res, "send_key", &op->send);
	op->done(op->arg, E_NONE, &out);
	OPENSSL_cleanse(&out, sizeof(out));
	free_claim(op);
}

static void
refuse(void *arg)
{
	struct store_claim *op = arg;

	op->done(op->arg, E_CLAIM_INVALID, NULL);
	free_claim(op);
}

static void
put_auth_hash(struct pg_args *args, const struct secret *s)
{
	unsigned char hash[32];
	struct secret a = { 0 };

	seal_token_auth(&a, s);
	seal_auth_hash(hash, &a);
	pg_bytes(args, hash, sizeof(hash));
	secret_wipe(&a);
}

static void
put_pair(struct pg_args *args, const struct secret *s)
{
	unsigned char pub[32], wrapped[SEAL_WRAPPED_LEN];
	struct secret kek = { 0 }, priv = { 0 };

	seal_pair_new(pub, &priv);
	seal_token_kek(&kek, s);
	seal_wrap(wrapped, &kek, pub, &priv);
	pg_bytes(args, pub, sizeof(pub));
	pg_bytes(args, wrapped, sizeof(wrapped));
	secret_wipe(&kek);
	secret_wipe(&priv);
}

/* What people type: "claim_" and 26 characters (16 bytes) of base32. */
static bool
parse_claim(unsigned char out[16], struct str text)
{
	struct str prefix = str_lit("claim_");

	if (str_starts(text, prefix)) {
		text.p += prefix.n;
		text.n -= prefix.n;
	}
	return base32_decode(out, 16, text.p, text.n);
}

struct store_claim *
store_claim(struct store *st, struct str text, store_claim_fn *done, void *arg)
{
	struct store_claim *op = xcalloc(1, sizeof(*op));
	unsigned char claim[16];
	struct pg_args args = { 0 };

	op->st = st;
	op->done = done;
	op->arg = arg;
	if (!parse_claim(claim, text)) {
		loop_defer(st->loop, refuse, op);
		return op;
	}
	secret_random(&op->full, 32);
	secret_random(&op->send, 32);
	pg_bytes(&args, claim, sizeof(claim));
	put_auth_hash(&args, &op->full);
	put_auth_hash(&args, &op->send);
	put_pair(&args, &op->full);
	OPENSSL_cleanse(claim, sizeof(claim));
	op->req = pg_call_move(st->pool,
	    "select * from api.claim_1($1,$2,$3,$4,$5)", &args, on_claimed, op);
	return op;
}

void
store_claim_cancel(struct store_claim *op)
{
	if (op == NULL)
		return;
	if (op->req != NULL)
		pg_cancel(op->req);
	else
		loop_undefer(op->st->loop, refuse, op);
	free_claim(op);
}
