/* SPDX-License-Identifier: ISC */
/* provision.c - see provision.h. */
#include "store/provision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/codec.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "seal/key.h"
#include "store/store_internal.h"

#define CLAIM_PREFIX "claim_"
#define CLAIM_BYTES 16

struct store_prov_op {
	struct store *st;
	struct pg_req *req; /* NULL: malformed, told soon */
	struct store_prov *prov; /* of a sign-in */
	char code[STORE_CLAIM_TEXT];
	union {
		store_prov_fn *auth;
		store_prov_made_fn *made;
		store_prov_list_fn *list;
		store_prov_done_fn *done;
	} fn;
	void *arg;
};

static void
free_op(struct store_prov_op *op)
{
	OPENSSL_cleanse(op->code, sizeof(op->code));
	free(op);
}

void
store_prov_free(struct store_prov *prov)
{
	if (prov == NULL)
		return;
	secret_wipe(&prov->proof);
	free(prov->domains);
	free(prov);
}

static void prov_refuse(void *arg);

void
store_prov_cancel(struct store_prov_op *op)
{
	if (op == NULL)
		return;
	if (op->req != NULL)
		pg_cancel(op->req);
	else
		loop_undefer(op->st->loop, prov_refuse, op);
	store_prov_free(op->prov);
	free_op(op);
}

bool
store_prov_valid(struct str text)
{
	struct seal_token token;
	bool ok = seal_token_parse(&token, text) &&
		  token.kind == SEAL_TOKEN_PROVISION;

	seal_token_wipe(&token);
	return ok;
}

static void
fill(struct store_prov *p, const struct pg_result *res)
{
	(void)snprintf(p->tenant_slug, sizeof(p->tenant_slug), "%s",
	    pg_get_text(res, 0, "tenant_slug"));
	(void)snprintf(
	    p->name, sizeof(p->name), "%s", pg_get_text(res, 0, "name"));
	(void)snprintf(
	    p->plan, sizeof(p->plan), "%s", pg_get_text(res, 0, "plan"));
	(void)snprintf(
	    p->rights, sizeof(p->rights), "%s", pg_get_text(res, 0, "rights"));
	p->domains = xstrdup(pg_get_text(res, 0, "domains"));
	p->max_inboxes = pg_get_int(res, 0, "max_inboxes");
	p->inboxes = pg_get_int(res, 0, "inboxes");
	p->test = pg_get_bool(res, 0, "test");
	p->expires_at = pg_get_time(res, 0, "expires_at");
}

static void
on_auth(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_prov_op *op = arg;
	enum err_code code = store_row_code(err, res);
	struct store_prov *prov = op->prov;

	if (code == E_NONE) {
		fill(prov, res);
	} else {
		store_prov_free(prov);
		prov = NULL;
	}
	op->fn.auth(op->arg, code, prov);
	free_op(op);
}

static void
prov_refuse(void *arg)
{
	struct store_prov_op *op = arg;

	store_prov_free(op->prov);
	op->fn.auth(op->arg, E_UNKNOWN_API_KEY, NULL);
	free_op(op);
}

static void
prov_args(struct pg_args *args, const struct store_prov *prov)
{
	pg_i64(args, prov->tenant);
	pg_i64(args, prov->key);
	pg_bytes(args, prov->proof.b, prov->proof.n);
}

struct store_prov_op *
store_prov_auth(
    struct store *st, struct str text, store_prov_fn *done, void *arg)
{
	struct store_prov_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };
	struct seal_token token;

	op->st = st;
	op->fn.auth = done;
	op->arg = arg;
	op->prov = xcalloc(1, sizeof(*op->prov));
	op->prov->store = st;
	if (!seal_token_parse(&token, text) ||
	    token.kind != SEAL_TOKEN_PROVISION) {
		seal_token_wipe(&token);
		loop_defer(st->loop, prov_refuse, op);
		return op;
	}
	op->prov->tenant = (int64_t)token.tenant;
	op->prov->key = (int64_t)token.key;
	seal_token_auth(&op->prov->proof, &token.s);
	seal_token_wipe(&token);
	prov_args(&args, op->prov);
	op->req = pg_call_move(st->pool,
	    "select * from api.prov_me_1($1,$2,$3)", &args, on_auth, op);
	return op;
}

static struct store_prov_op *
begin(const struct store_prov *prov, struct pg_args *args, void *arg)
{
	struct store_prov_op *op = xcalloc(1, sizeof(*op));

	op->st = prov->store;
	op->arg = arg;
	prov_args(args, prov);
	return op;
}

/* A new code; the database is shown only its hash. */
static void
put_claim(struct pg_args *args, struct store_prov_op *op)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct secret code = { 0 };

	secret_random(&code, CLAIM_BYTES);
	(void)SHA256(code.b, code.n, hash);
	(void)strcpy(op->code, CLAIM_PREFIX);
	base32_encode(op->code + strlen(CLAIM_PREFIX), code.b, code.n);
	secret_wipe(&code);
	pg_bytes(args, hash, sizeof(hash));
}

static void
on_made(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_prov_op *op = arg;
	enum err_code code = store_row_code(err, res);
	struct store_prov_made made = { .address = "" };

	if (code == E_NONE) {
		if (pg_has(res, "address")) {
			made.address = pg_get_text(res, 0, "address");
			made.test = pg_get_bool(res, 0, "test");
			made.created_at = pg_get_time(res, 0, "created_at");
		}
		made.fresh = pg_get_int(res, 0, "status") == 201;
		made.claim_until = pg_get_time(res, 0, "claim_until");
		if (made.claim_until != 0)
			made.claim_code = op->code;
	}
	op->fn.made(op->arg, code, &made);
	free_op(op);
}

struct store_prov_op *
store_prov_create(const struct store_prov *prov, const char *address,
    const char *display_name, const char *client_id, bool test,
    store_prov_made_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_prov_op *op = begin(prov, &args, arg);

	op->fn.made = done;
	pg_text(&args, address);
	pg_text(&args, display_name);
	pg_bool(&args, test);
	pg_text(&args, client_id);
	put_claim(&args, op);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.prov_create_1($1,$2,$3,$4,$5,$6,$7,$8)", &args,
	    on_made, op);
	return op;
}

struct store_prov_op *
store_prov_code(const struct store_prov *prov, const char *address,
    store_prov_made_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_prov_op *op = begin(prov, &args, arg);

	op->fn.made = done;
	pg_text(&args, address);
	put_claim(&args, op);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.prov_code_1($1,$2,$3,$4,$5)", &args, on_made,
	    op);
	return op;
}

static void
on_list(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_prov_op *op = arg;
	enum err_code code = err == PG_OK && pg_rows(res) == 0
				 ? E_NONE
				 : store_row_code(err, res);
	size_t n = code == E_NONE ? (size_t)pg_rows(res) : 0, i;
	struct store_prov_box *v = xcalloc(n + 1, sizeof(*v));

	for (i = 0; i < n; i++) {
		int row = (int)i;

		v[i] = (struct store_prov_box){
			.id = pg_get_i64(res, row, "inbox_id"),
			.address = pg_get_text(res, row, "address"),
			.display_name = pg_get_text(res, row, "display_name"),
			.client_id = pg_get_text(res, row, "client_id"),
			.test = pg_get_bool(res, row, "test"),
			.claimed = pg_get_bool(res, row, "claimed"),
			.paused = pg_get_bool(res, row, "paused"),
			.suspended = pg_get_bool(res, row, "suspended"),
			.mode = pg_get_int(res, row, "mode"),
			.one_click = pg_get_bool(res, row, "one_click"),
			.created_at = pg_get_time(res, row, "created_at"),
		};
	}
	op->fn.list(op->arg, code, v, n);
	free(v);
	free_op(op);
}

struct store_prov_op *
store_prov_list(const struct store_prov *prov, int64_t after, int limit,
    store_prov_list_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_prov_op *op = begin(prov, &args, arg);

	op->fn.list = done;
	if (after == 0)
		pg_null(&args);
	else
		pg_i64(&args, after);
	pg_i32(&args, limit);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.prov_list_1($1,$2,$3,$4,$5)", &args, on_list,
	    op);
	return op;
}

static void
on_done(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_prov_op *op = arg;
	enum err_code code = store_row_code(err, res);
	int64_t n = 0;

	if (code == E_NONE && pg_has(res, "ended"))
		n = pg_get_int(res, 0, "ended");
	op->fn.done(op->arg, code, n);
	free_op(op);
}

static struct store_prov_op *
change(const struct store_prov *prov, const char *sql, const char *address,
    store_prov_done_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_prov_op *op = begin(prov, &args, arg);

	op->fn.done = done;
	pg_text(&args, address);
	op->req = pg_call_move(op->st->pool, sql, &args, on_done, op);
	return op;
}

struct store_prov_op *
store_prov_pause(const struct store_prov *prov, const char *address,
    store_prov_done_fn *done, void *arg)
{
	return change(prov, "select * from api.prov_pause_1($1,$2,$3,$4)",
	    address, done, arg);
}

struct store_prov_op *
store_prov_delete(const struct store_prov *prov, const char *address,
    store_prov_done_fn *done, void *arg)
{
	return change(prov, "select * from api.prov_delete_1($1,$2,$3,$4)",
	    address, done, arg);
}
