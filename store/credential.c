/* SPDX-License-Identifier: ISC */
/*
 * credential.c - signing in, and the list of those who are.
 *
 * S, the bytes of a key, exists here only inside store_auth() and
 * store_token_kek(). What stays in a store_cred cannot open a mailbox.
 */
#include "store/credential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "seal/key.h"
#include "store/known.h"
#include "store/pg.h"
#include "store/store_internal.h"

struct store_auth {
	struct store *st;
	struct pg_req *req; /* NULL: told from `at_once`, without asking */
	enum err_code early; /* what is told then */
	struct store_cred *cred;
	store_auth_fn *done;
	void *arg;
	struct secret shown; /* A, until the answer is here */
};

struct store_touch {
	struct store_cred *cred;
	struct pg_req *req;
	store_touch_fn *done;
	void *arg;
};

enum err_code
store_code(enum pg_err err, const struct pg_result *res)
{
	switch (err) {
	case PG_OK:
		return E_NONE;
	case PG_REJECTED:
		return strcmp(pg_sqlstate(res), PG_NO_ROOM) == 0
			   ? E_STORAGE_FULL
		       : strchr("45", pg_sqlstate(res)[0]) != NULL &&
			       strncmp(pg_sqlstate(res), "42", 2) != 0
			   ? E_STORE_UNAVAILABLE
			   : E_INTERNAL_ERROR;
	case PG_UNSENT:
	case PG_LOST:
		return E_STORE_UNAVAILABLE;
	}
	return E_INTERNAL_ERROR;
}

enum err_code
store_row_code(enum pg_err err, const struct pg_result *res)
{
	if (err != PG_OK)
		return store_code(err, res);
	if (pg_rows(res) == 0)
		return E_INTERNAL_ERROR;
	if (pg_get_int(res, 0, "status") < 300)
		return E_NONE;
	return error_find(str_of(pg_get_text(res, 0, "code")));
}

void
store_cred_args(struct pg_args *a, const struct store_cred *cred)
{
	pg_i64(a, cred->tenant);
	pg_i64(a, cred->key);
	pg_bytes(a, cred->proof.b, cred->proof.n);
}

static void
link_cred(struct store_cred *cred)
{
	struct store *st = cred->store;

	cred->next = st->creds;
	cred->prev = &st->creds;
	if (st->creds != NULL)
		st->creds->prev = &cred->next;
	st->creds = cred;
}

void
store_cred_free(struct store_cred *cred)
{
	if (cred == NULL)
		return;
	if (cred->prev != NULL) {
		*cred->prev = cred->next;
		if (cred->next != NULL)
			cred->next->prev = cred->prev;
	}
	secret_wipe(&cred->proof);
	secret_wipe(&cred->idem);
	free(cred);
}

bool
store_cred_alive(const struct store_cred *cred)
{
	return !cred->revoked &&
	       (cred->key_expires == 0 || cred->key_expires > clock_real_us());
}

bool
store_cred_fresh(const struct store_cred *cred)
{
	return known_fresh(cred->store->known, cred, clock_mono_ms());
}

static void
copy_text(char *out, size_t size, const struct pg_result *res, const char *col)
{
	snprintf(out, size, "%s", pg_get_text(res, 0, col));
}

static void
copy_key(unsigned char *out, size_t size, const struct pg_result *res,
    const char *col)
{
	struct str v = pg_get_bytes(res, 0, col);

	if (v.n == size)
		memcpy(out, v.p, size);
}

static void
fill_limits(struct store_cred *c, const struct pg_result *res)
{
	c->rcpt_max = pg_get_int(res, 0, "rcpt_max");
	c->size_max = pg_get_i64(res, 0, "size_max");
	c->lim_hour = pg_get_int(res, 0, "lim_hour");
	c->lim_day = pg_get_int(res, 0, "lim_day");
	c->lim_month = pg_get_int(res, 0, "lim_month");
	c->lim_held = pg_get_int(res, 0, "lim_held");
	c->lim_bytes = pg_get_i64(res, 0, "lim_bytes");
	c->limits_version = pg_get_int(res, 0, "limits_version");
	c->used_day = pg_get_int(res, 0, "used_day");
	c->used_month = pg_get_int(res, 0, "used_month");
	store_cred_counted(c);
	c->held = pg_get_int(res, 0, "held");
}

static void
fill_cred(struct store_cred *c, const struct pg_result *res)
{
	c->inbox = pg_get_i64(res, 0, "inbox_id");
	copy_text(c->address, sizeof(c->address), res, "address");
	copy_text(
	    c->display_name, sizeof(c->display_name), res, "display_name");
	copy_text(c->tenant_slug, sizeof(c->tenant_slug), res, "tenant_slug");
	copy_text(c->oversight, sizeof(c->oversight), res, "oversight");
	copy_text(c->reset_by, sizeof(c->reset_by), res, "reset_by");
	c->kind = pg_get_text(res, 0, "kind")[0];
	c->scope = pg_get_text(res, 0, "scope")[0];
	c->smtp_wide = pg_get_bool(res, 0, "smtp_wide");
	c->test = pg_get_bool(res, 0, "test");
	c->releasable = pg_get_bool(res, 0, "releasable");
	c->domain_verified = pg_get_bool(res, 0, "domain_verified");
	c->paused = pg_get_bool(res, 0, "paused");
	c->mode = pg_get_int(res, 0, "mode");
	c->mode_epoch = pg_get_int(res, 0, "mode_epoch");
	c->epoch = pg_get_int(res, 0, "epoch");
	c->tenant_epoch = pg_get_int(res, 0, "tenant_epoch");
	c->inbox_epoch = pg_get_int(res, 0, "inbox_epoch");
	copy_key(c->deployment, sizeof(c->deployment), res, "deployment");
	copy_key(c->tenant_pub, sizeof(c->tenant_pub), res, "tenant_pub");
	copy_key(c->inbox_pub, sizeof(c->inbox_pub), res, "inbox_pub");
	c->reset_at = pg_get_time(res, 0, "reset_at");
	c->key_expires = pg_get_time(res, 0, "key_expires");
	fill_limits(c, res);
}

static void
on_denied(void *arg, enum pg_err err, const struct pg_result *res)
{
	(void)arg;
	(void)err;
	(void)res;
}

/*
 * The database writes it down when `proof` is the credential's, be it alive
 * or dead, and at most 20 times an inbox and hour.
 */
static void
denied(const struct store_cred *cred, const struct secret *proof,
    const char *what, const char *detail)
{
	struct pg_args args = { 0 };

	pg_i64(&args, cred->tenant);
	pg_i64(&args, cred->key);
	pg_bytes(&args, proof->b, proof->n);
	pg_text(&args, what);
	pg_text(&args, detail);
	pg_call_move(cred->store->pool,
	    "select * from api.denied_1($1,$2,$3,$4,$5)", &args, on_denied,
	    NULL);
}

void
store_denied(
    const struct store_cred *cred, const char *what, const char *detail)
{
	denied(cred, &cred->proof, what, detail);
}

static void
end_auth(struct store_auth *op, enum err_code code)
{
	struct store_cred *cred = op->cred;

	secret_wipe(&op->shown);
	if (code != E_NONE) {
		store_cred_free(cred);
		cred = NULL;
	} else {
		link_cred(cred);
	}
	op->done(op->arg, code, cred);
	free(op);
}

static void
on_auth(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_auth *op = arg;
	enum err_code code = store_row_code(err, res);

	if (code == E_NONE) {
		fill_cred(op->cred, res);
		op->cred->asked_ms = clock_mono_ms();
		known_put(op->st->known, &op->shown, op->cred);
	} else if (code == E_UNKNOWN_API_KEY) {
		known_forget(op->st->known, op->cred->tenant, op->cred->key);
		denied(op->cred, &op->shown, "dead_key", "sign-in");
	}
	end_auth(op, code);
}

static void
at_once(void *arg)
{
	struct store_auth *op = arg;

	end_auth(op, op->early);
}

static bool
is_agent(enum seal_token_kind kind)
{
	return kind == SEAL_TOKEN_LIVE || kind == SEAL_TOKEN_SESSION ||
	       kind == SEAL_TOKEN_TEST;
}

struct store_auth *
store_auth(struct store *st, struct str text, enum store_auth_use use,
    store_auth_fn *done, void *arg)
{
	struct store_auth *op = xcalloc(1, sizeof(*op));
	struct store_cred *cred = xcalloc(1, sizeof(*cred));
	struct pg_args args = { 0 };
	struct secret handle = { 0 };
	struct seal_token token;

	op->st = st;
	op->done = done;
	op->arg = arg;
	op->cred = cred;
	cred->store = st;
	if (!seal_token_parse(&token, text) || !is_agent(token.kind)) {
		seal_token_wipe(&token);
		op->early = E_UNKNOWN_API_KEY;
		loop_defer(st->loop, at_once, op);
		return op;
	}
	cred->tenant = (int64_t)token.tenant;
	cred->key = (int64_t)token.key;
	seal_token_auth(&cred->proof, &token.s);
	seal_token_idem(&cred->idem, &token.s);
	seal_token_wipe(&token);
	op->shown = cred->proof;
	if (use != STORE_AUTH_REQUEST &&
	    known_get(st->known, &op->shown, use == STORE_AUTH_CONNECTION, cred,
		clock_mono_ms())) {
		loop_defer(st->loop, at_once, op);
		return op;
	}
	store_cred_args(&args, cred);
	if (use == STORE_AUTH_CONNECTION) {
		secret_random(&handle, SEAL_HANDLE_LEN);
		pg_bytes(&args, handle.b, handle.n);
		/* From here on only the handle is kept. */
		cred->proof = handle;
		secret_wipe(&handle);
	} else {
		pg_null(&args);
	}
	op->req = pg_call_move(st->pool,
	    "select * from api.auth_1($1,$2,$3,$4)", &args, on_auth, op);
	return op;
}

void
store_auth_cancel(struct store_auth *op)
{
	if (op == NULL)
		return;
	if (op->req != NULL)
		pg_cancel(op->req);
	else
		loop_undefer(op->st->loop, at_once, op);
	store_cred_free(op->cred);
	secret_wipe(&op->shown);
	free(op);
}

static void
on_touch(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_touch *op = arg;
	struct store_cred *cred = op->cred;
	enum err_code code = store_row_code(err, res);

	if (code == E_NONE) {
		cred->mode = pg_get_int(res, 0, "mode");
		cred->mode_epoch = pg_get_int(res, 0, "mode_epoch");
		cred->paused = pg_get_bool(res, 0, "paused");
		cred->domain_verified = pg_get_bool(res, 0, "domain_verified");
		cred->asked_ms = clock_mono_ms();
		known_renew(cred->store->known, cred);
	} else if (code == E_UNKNOWN_API_KEY) {
		cred->revoked = true;
		known_forget(cred->store->known, cred->tenant, cred->key);
	}
	op->done(op->arg, code);
	free(op);
}

struct store_touch *
store_cred_touch(struct store_cred *cred, store_touch_fn *done, void *arg)
{
	struct store_touch *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->cred = cred;
	op->done = done;
	op->arg = arg;
	store_cred_args(&args, cred);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.touch_1($1,$2,$3)", &args, on_touch, op);
	return op;
}

void
store_touch_cancel(struct store_touch *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	free(op);
}

bool
store_token_valid(struct str text, int64_t *tenant, int64_t *key)
{
	struct seal_token token;
	bool ok = seal_token_parse(&token, text) && is_agent(token.kind);

	if (ok) {
		*tenant = (int64_t)token.tenant;
		*key = (int64_t)token.key;
	}
	seal_token_wipe(&token);
	return ok;
}

bool
store_token_kek(struct str text, struct secret *kek)
{
	struct seal_token token;
	bool ok = seal_token_parse(&token, text) && is_agent(token.kind);

	if (ok)
		seal_token_kek(kek, &token.s);
	seal_token_wipe(&token);
	return ok;
}
