/* SPDX-License-Identifier: ISC */
/* grant.c - see grant.h. */
#include "store/grant.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "seal/key.h"
#include "store/message_internal.h"

#define PRIVATE_BYTES 32

struct store_grant_op {
	struct store *st;
	struct pg_req *req;
	struct store_cred cred; /* a copy; in no list */
	struct secret kek;
	int64_t grant;
	store_grant_fn *done;
	void *arg;
};

static void
free_op(struct store_grant_op *op)
{
	secret_wipe(&op->kek);
	secret_wipe(&op->cred.proof);
	secret_wipe(&op->cred.idem);
	free(op);
}

void
store_grant_cancel(struct store_grant_op *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	free_op(op);
}

static void
tell_grants(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t n = code == E_NONE ? (size_t)pg_rows(res) : 0, i;
	struct store_grant *g = xcalloc(n + 1, sizeof(*g));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		g[i] = (struct store_grant){
			.id = pg_get_i64(res, row, "permit_id"),
			.given = pg_get_bool(res, row, "given"),
			.other = pg_get_text(res, row, "other"),
			.messages = pg_get_bool(res, row, "messages"),
			.offered_at = pg_get_time(res, row, "offered_at"),
			.accepted_at = pg_get_time(res, row, "accepted_at"),
			.expires_at = pg_get_time(res, row, "expires_at"),
			.ended_at = pg_get_time(res, row, "ended_at"),
			.reads = pg_get_int(res, row, "reads"),
		};
	}
	op->done.grants(op->arg, code, g, n);
	free(g);
}

struct store_op *
store_grants(
    const struct store_cred *cred, int limit, store_grants_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_i32(&args, limit);
	op = store_op_ask(cred, "select * from api.my_grants_1($1,$2,$3,$4)",
	    &args, tell_grants, arg);
	op->done.grants = done;
	return op;
}

static void
tell_granted(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t n = code == E_NONE ? (size_t)pg_rows(res) : 0, i;
	struct store_granted *m = xcalloc(n + 1, sizeof(*m));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		m[i] = (struct store_granted){
			.message = pg_get_uuid(res, row, "message_id"),
			.state = pg_get_int(res, row, "state"),
			.created_at = pg_get_time(res, row, "created_at"),
			.updated_at = pg_get_time(res, row, "updated_at"),
			.mail_from = pg_get_text(res, row, "mail_from"),
			.rcpts = pg_get_text(res, row, "rcpts"),
			.subject = pg_get_text(res, row, "subject"),
			.size = pg_get_i64(res, row, "size"),
			.digest = pg_get_bytes(res, row, "digest"),
		};
		if (!pg_is_null(res, row, "thread_id"))
			m[i].thread = pg_get_uuid(res, row, "thread_id");
	}
	op->done.granted(op->arg, code, m, n);
	free(m);
}

struct store_op *
store_granted(const struct store_cred *cred, int64_t grant,
    const struct uuid *id, const struct uuid *after, int limit,
    store_granted_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_i64(&args, grant);
	if (id != NULL)
		pg_uuid(&args, id);
	else
		pg_null(&args);
	if (after != NULL)
		pg_uuid(&args, after);
	else
		pg_null(&args);
	pg_i32(&args, limit);
	op = store_op_ask(cred,
	    "select * from api.granted_list_1($1,$2,$3,$4,$5,$6,$7)", &args,
	    tell_granted, arg);
	op->done.granted = done;
	return op;
}

static void
on_done(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_grant_op *op = arg;

	op->done(op->arg, store_row_code(err, res));
	free_op(op);
}

static struct store_grant_op *
begin(const struct store_cred *cred, int64_t grant, store_grant_fn *done,
    void *arg)
{
	struct store_grant_op *op = xcalloc(1, sizeof(*op));

	op->st = cred->store;
	op->cred = *cred;
	op->grant = grant;
	op->done = done;
	op->arg = arg;
	return op;
}

struct store_grant_op *
store_grant_leave(const struct store_cred *cred, int64_t grant,
    store_grant_fn *done, void *arg)
{
	struct store_grant_op *op = begin(cred, grant, done, arg);
	struct pg_args args = { 0 };

	store_cred_args(&args, cred);
	pg_i64(&args, grant);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.grant_leave_1($1,$2,$3,$4)", &args, on_done, op);
	return op;
}

/* The inbox's private key, for the other inbox alone. */
static bool
seal_for_other(unsigned char box[PRIVATE_BYTES + SEAL_BOX_EXTRA],
    const struct store_grant_op *op, const struct pg_result *res)
{
	struct str pub = pg_get_bytes(res, 0, "pub");
	struct str other = pg_get_bytes(res, 0, "other_pub");
	struct secret priv = { 0 };
	unsigned char pub32[32];
	bool ok;

	if (pub.n != sizeof(pub32) || other.n != sizeof(pub32) ||
	    pg_is_null(res, 0, "wrapped"))
		return false;
	memcpy(pub32, pub.p, sizeof(pub32));
	ok = seal_unwrap(
		 &priv, &op->kek, pub32, pg_get_bytes(res, 0, "wrapped")) &&
	     priv.n == PRIVATE_BYTES;
	if (ok)
		seal_box(box, (const unsigned char *)other.p, priv.b, priv.n);
	secret_wipe(&priv);
	return ok;
}

static void
on_key(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_grant_op *op = arg;
	enum err_code code = store_row_code(err, res);
	unsigned char box[PRIVATE_BYTES + SEAL_BOX_EXTRA];
	struct pg_args args = { 0 };
	bool messages;

	op->req = NULL;
	messages = code == E_NONE && pg_get_bool(res, 0, "messages");
	if (messages && !seal_for_other(box, op, res))
		code = E_STATE_CONFLICT; /* the other side has no key yet */
	if (code != E_NONE) {
		op->done(op->arg, code);
		free_op(op);
		return;
	}
	store_cred_args(&args, &op->cred);
	pg_i64(&args, op->grant);
	if (messages) {
		pg_i32(&args, pg_get_int(res, 0, "epoch"));
		pg_i32(&args, pg_get_int(res, 0, "other_epoch"));
		pg_bytes(&args, box, sizeof(box));
	} else {
		pg_null(&args);
		pg_null(&args);
		pg_null(&args);
	}
	op->req = pg_call_move(op->st->pool,
	    "select * from api.grant_accept_1($1,$2,$3,$4,$5,$6,$7)", &args,
	    on_done, op);
}

struct store_grant_op *
store_grant_accept(const struct store_cred *cred, int64_t grant,
    const struct secret *kek, store_grant_fn *done, void *arg)
{
	struct store_grant_op *op = begin(cred, grant, done, arg);
	struct pg_args args = { 0 };

	op->kek = *kek;
	store_cred_args(&args, cred);
	pg_i64(&args, grant);
	op->req = pg_call_move(op->st->pool,
	    "select * from api.grant_key_1($1,$2,$3,$4)", &args, on_key, op);
	return op;
}
