/* SPDX-License-Identifier: ISC */
/* newkey.c - see newkey.h. */
#include "store/newkey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "seal/key.h"
#include "store/store_internal.h"

struct store_newkey {
	struct store *st;
	struct pg_req *req;
	int64_t tenant, key;
	struct secret proof, kek, s;
	char scope;
	struct buf label;
	int64_t expires_at;
	int epoch;
	unsigned char wrapped[SEAL_WRAPPED_LEN];
	store_newkey_fn *done;
	void *arg;
};

static void
free_op(struct store_newkey *op)
{
	secret_wipe(&op->proof);
	secret_wipe(&op->kek);
	secret_wipe(&op->s);
	buf_free(&op->label);
	free(op);
}

static void
on_made(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_newkey *op = arg;
	enum err_code code = store_row_code(err, res);
	struct store_newkey_made made = { 0 };
	char text[SEAL_TOKEN_MAX];
	struct seal_token token;

	if (code == E_NONE) {
		made.key = pg_get_i64(res, 0, "key_id");
		made.kind = pg_get_text(res, 0, "kind")[0];
		made.created_at = pg_get_time(res, 0, "created_at");
		made.expires_at = pg_get_time(res, 0, "expires_at");
		token = (struct seal_token){ made.kind == 't' ? SEAL_TOKEN_TEST
							      : SEAL_TOKEN_LIVE,
			(uint64_t)op->tenant, (uint64_t)made.key, op->s };
		seal_token_format(text, &token);
		(void)snprintf(made.text, sizeof(made.text), "%s", text);
		OPENSSL_cleanse(text, sizeof(text));
		seal_token_wipe(&token);
	}
	op->done(op->arg, code, &made);
	OPENSSL_cleanse(&made, sizeof(made));
	free_op(op);
}

static void
create(struct store_newkey *op)
{
	char letter[2] = { op->scope, '\0' };
	unsigned char hash[32];
	struct secret a = { 0 };
	struct pg_args args = { 0 };

	seal_token_auth(&a, &op->s);
	seal_auth_hash(hash, &a);
	secret_wipe(&a);
	pg_i64(&args, op->tenant);
	pg_i64(&args, op->key);
	pg_bytes(&args, op->proof.b, op->proof.n);
	pg_bytes(&args, hash, sizeof(hash));
	pg_text(&args, letter);
	pg_str(&args,
	    op->label.n > 0 ? buf_str(&op->label) : (struct str){ NULL, 0 });
	if (op->expires_at == 0)
		pg_null(&args);
	else
		pg_time(&args, op->expires_at);
	if (op->scope == 's') {
		pg_null(&args);
		pg_null(&args);
	} else {
		pg_i32(&args, op->epoch);
		pg_bytes(&args, op->wrapped, sizeof(op->wrapped));
	}
	op->req = pg_call_move(op->st->pool,
	    "select * from api.key_create_1($1,$2,$3,$4,$5,$6,$7,$8,$9)", &args,
	    on_made, op);
}

/* The inbox's private key, from the one's hands into the other's. */
static bool
wrap_again(struct store_newkey *op, const struct pg_result *res)
{
	struct str pub = pg_get_bytes(res, 0, "inbox_pub");
	struct secret priv = { 0 }, kek = { 0 };
	unsigned char pub32[32];
	bool ok;

	if (pub.n != sizeof(pub32))
		return false;
	memcpy(pub32, pub.p, sizeof(pub32));
	ok = seal_unwrap(
	    &priv, &op->kek, pub32, pg_get_bytes(res, 0, "wrapped"));
	if (ok) {
		seal_token_kek(&kek, &op->s);
		seal_wrap(op->wrapped, &kek, pub32, &priv);
		op->epoch = pg_get_int(res, 0, "inbox_epoch");
	}
	secret_wipe(&kek);
	secret_wipe(&priv);
	secret_wipe(&op->kek);
	return ok;
}

static void
on_wrap(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_newkey *op = arg;
	enum err_code code = store_row_code(err, res);
	static const struct store_newkey_made none;

	op->req = NULL;
	if (code == E_NONE && !wrap_again(op, res))
		code = E_MISSING_PERMISSION;
	if (code == E_NONE) {
		create(op);
		return;
	}
	op->done(op->arg, code, &none);
	free_op(op);
}

struct store_newkey *
store_newkey(const struct store_cred *cred, const struct secret *kek,
    char scope, struct str label, int64_t expires_at, store_newkey_fn *done,
    void *arg)
{
	struct store_newkey *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->st = cred->store;
	op->tenant = cred->tenant;
	op->key = cred->key;
	op->proof = cred->proof;
	op->scope = scope;
	op->expires_at = expires_at;
	op->done = done;
	op->arg = arg;
	buf_add_str(&op->label, label);
	secret_random(&op->s, 32);
	if (scope == 's') {
		create(op);
		return op;
	}
	op->kek = *kek;
	store_cred_args(&args, cred);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.key_wrap_1($1,$2,$3)", &args, on_wrap, op);
	return op;
}

void
store_newkey_cancel(struct store_newkey *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	free_op(op);
}
