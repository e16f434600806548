/* SPDX-License-Identifier: ISC */
/*
 * draft.c - see draft.h.
 *
 * Version v of a draft has the key that version v of a message with its id
 * would have; head and body are notes under it (seal/note.h), told apart by
 * their first byte.
 */
#include "store/draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "seal/body.h"
#include "seal/key.h"
#include "seal/note.h"
#include "store/store_internal.h"

#define HEAD 'h'
#define BODY 'b'

struct store_draft_op {
	struct pg_req *req;
	struct store *st; /* of a put, as all up to `charge` */
	struct limit_op *charging;
	struct pg_args args;
	struct limit_inbox inbox;
	struct limit_cost cost;
	struct limit_answer charge;
	struct secret kek;
	unsigned char deployment[16];
	char what; /* HEAD or BODY, which is read */
	union {
		store_drafts_fn *read;
		store_draft_put_fn *put;
		store_draft_end_fn *end;
		store_draft_go_fn *go;
	} done;
	void *arg;
};

static const struct uuid none;

static void
free_op(struct store_draft_op *op)
{
	secret_wipe(&op->kek);
	pg_args_free(&op->args);
	free(op);
}

void
store_draft_cancel(struct store_draft_op *op)
{
	if (op == NULL)
		return;
	limit_cancel(op->charging);
	pg_cancel(op->req);
	free_op(op);
}

/* Reading. */

/* The key of this row's version; false when the inbox was reset since. */
static bool
open_key(struct secret *key, const struct store_draft_op *op,
    const struct store_draft *d, const struct pg_result *res, int row)
{
	struct str pub = pg_get_bytes(res, row, "inbox_pub");
	struct secret priv = { 0 }, hour = { 0 };
	struct seal_id id = {
		.tenant = (uint64_t)pg_get_i64(res, row, "tenant_id"),
		.inbox = (uint64_t)pg_get_i64(res, row, "inbox_id"),
		.message = d->draft,
		.version = (uint16_t)d->version,
	};
	unsigned char pub32[32];
	bool ok = false;

	memcpy(id.deployment, op->deployment, sizeof(id.deployment));
	if (pub.n == sizeof(pub32) && !pg_is_null(res, row, "wrapped")) {
		memcpy(pub32, pub.p, sizeof(pub32));
		ok = seal_unwrap(&priv, &op->kek, pub32,
			 pg_get_bytes(res, row, "wrapped")) &&
		     seal_hour_open(&hour, pg_get_bytes(res, row, "inbox_box"),
			 pub32, &priv);
	}
	if (ok)
		seal_message_key(key, &hour, &id);
	secret_wipe(&priv);
	secret_wipe(&hour);
	return ok;
}

static bool
open_text(struct buf *text, const struct store_draft_op *op,
    const struct store_draft *d, const struct pg_result *res, int row)
{
	struct secret key = { 0 };
	bool ok;

	ok = open_key(&key, op, d, res, row) &&
	     seal_note_open(text, &key, pg_get_bytes(res, row, "sealed")) &&
	     text->n > 0 && text->p[0] == (unsigned char)op->what;
	secret_wipe(&key);
	return ok;
}

static void
read_row(struct store_draft *d, struct buf *text,
    const struct store_draft_op *op, const struct pg_result *res, int row)
{
	*d = (struct store_draft){
		.draft = pg_get_uuid(res, row, "draft_id"),
		.version = pg_get_int(res, row, "version"),
		.created_at = pg_get_time(res, row, "created_at"),
		.updated_at = pg_get_time(res, row, "updated_at"),
	};
	if (!pg_is_null(res, row, "message_id"))
		d->message = pg_get_uuid(res, row, "message_id");
	else
		d->opened = open_text(text, op, d, res, row);
	if (d->opened)
		d->text =
		    (struct str){ (const char *)text->p + 1, text->n - 1 };
	else
		d->text = (struct str){ "", 0 };
}

static void
on_read(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_draft_op *op = arg;
	enum err_code code = store_code(err, res);
	struct store_draft *d;
	struct buf *text;
	int i, n = 0;

	if (code == E_NONE && pg_rows(res) > 0)
		code = store_row_code(err, res);
	if (code == E_NONE)
		n = pg_rows(res);
	d = xcalloc((size_t)n + 1, sizeof(*d));
	text = xcalloc((size_t)n + 1, sizeof(*text));
	for (i = 0; i < n; i++)
		read_row(&d[i], &text[i], op, res, i);
	op->done.read(op->arg, code, d, (size_t)n);
	for (i = 0; i < n; i++) {
		buf_wipe(&text[i]);
		buf_free(&text[i]);
	}
	free(text);
	free(d);
	free_op(op);
}

static struct store_draft_op *
new_reader(const struct store_cred *cred, const struct secret *kek, char what,
    store_drafts_fn *done, void *arg)
{
	struct store_draft_op *op = xcalloc(1, sizeof(*op));

	op->kek = *kek;
	op->what = what;
	memcpy(op->deployment, cred->deployment, sizeof(op->deployment));
	op->done.read = done;
	op->arg = arg;
	return op;
}

struct store_draft_op *
store_draft_get(const struct store_cred *cred, const struct uuid *id,
    const struct secret *kek, store_drafts_fn *done, void *arg)
{
	struct store_draft_op *op = new_reader(cred, kek, BODY, done, arg);
	struct pg_args args = { 0 };

	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.draft_1($1,$2,$3,$4)", &args, on_read, op);
	return op;
}

struct store_draft_op *
store_draft_list(const struct store_cred *cred, const struct uuid *after,
    int limit, const struct secret *kek, store_drafts_fn *done, void *arg)
{
	struct store_draft_op *op = new_reader(cred, kek, HEAD, done, arg);
	struct pg_args args = { 0 };

	store_cred_args(&args, cred);
	pg_uuid(&args, uuid_eq(after, &none) ? NULL : after);
	pg_i32(&args, limit);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.drafts_1($1,$2,$3,$4,$5)", &args, on_read, op);
	return op;
}

/* Writing. */

static void
on_put(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_draft_op *op = arg;
	enum err_code code = store_row_code(err, res);
	struct store_draft d = { 0 };
	bool replay = false;

	op->req = NULL;
	if (code == E_NONE) {
		d.draft = pg_get_uuid(res, 0, "draft_id");
		d.version = pg_get_int(res, 0, "version");
		d.created_at = pg_get_time(res, 0, "created_at");
		d.updated_at = pg_get_time(res, 0, "updated_at");
		replay = pg_get_bool(res, 0, "replay");
	}
	/* As of a submission: what is lost may have been written (D20). */
	if (replay || (code != E_NONE && err != PG_LOST))
		limit_refund(
		    op->st->limiter, &op->inbox, &op->cost, &op->charge);
	op->done.put(op->arg, code, &d, replay, NULL);
	free_op(op);
}

static void
refuse_put(struct store_draft_op *op)
{
	const struct limit_answer *a = &op->charge;
	const struct store_draft d = { 0 };
	enum err_code code = E_LIMITER_UNAVAILABLE;

	if (a->verdict == LIMIT_OVER) {
		code = E_RATE_LIMITED;
		metrics_inc(M_LIMIT, a->window, "refused");
		log_info("limit.reached", KV("tenant", op->inbox.tenant),
		    KV("inbox", op->inbox.inbox), KV("why", a->window));
	}
	op->done.put(op->arg, code, &d, false, a);
	free_op(op);
}

/* Nothing is lost with a draft that has to wait: no local limits for it. */
static void
on_charged(void *arg, const struct limit_answer *answer)
{
	struct store_draft_op *op = arg;

	op->charging = NULL;
	op->charge = *answer;
	if (answer->verdict != LIMIT_OK) {
		refuse_put(op);
		return;
	}
	op->req = pg_call_move(op->st->pool,
	    "select * from api.draft_put_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,"
	    "$11)",
	    &op->args, on_put, op);
}

static void
put_sealed(
    struct pg_args *args, const struct secret *key, char what, struct str text)
{
	struct buf plain = { 0 }, sealed = { 0 };

	buf_putc(&plain, what);
	buf_add_str(&plain, text);
	seal_note(&sealed, key, buf_str(&plain));
	pg_bytes(args, sealed.p, sealed.n);
	buf_wipe(&plain);
	buf_free(&plain);
	buf_free(&sealed);
}

struct store_draft_op *
store_draft_put(const struct store_cred *cred,
    const struct store_draft_put *put, store_draft_put_fn *done, void *arg)
{
	struct store_draft_op *op = xcalloc(1, sizeof(*op));
	size_t bytes = put->head.n + put->body.n;
	struct secret key = { 0 };
	struct seal_hour hour;
	struct seal_id id = {
		.tenant = (uint64_t)cred->tenant,
		.inbox = (uint64_t)cred->inbox,
		.message = put->draft,
		.version = (uint16_t)(put->version + 1),
	};

	op->st = cred->store;
	op->done.put = done;
	op->arg = arg;
	op->inbox = (struct limit_inbox){ cred->tenant, cred->inbox,
		cred->lim_hour, cred->lim_day, cred->lim_bytes };
	op->cost.bytes =
	    (int64_t)(bytes > STORE_DRAFT_COST_MIN ? bytes
						   : STORE_DRAFT_COST_MIN);
	memcpy(id.deployment, cred->deployment, sizeof(id.deployment));
	hours_get(cred->store->hours, cred, &hour);
	seal_message_key(&key, &hour.key, &id);
	store_cred_args(&op->args, cred);
	pg_uuid(&op->args, &put->draft);
	pg_i16(&op->args, put->version);
	pg_i32(&op->args, cred->inbox_epoch);
	pg_bytes(&op->args, hour.inbox_box, SEAL_HOUR_BOX);
	put_sealed(&op->args, &key, HEAD, put->head);
	put_sealed(&op->args, &key, BODY, put->body);
	pg_bytes(&op->args, put->idem, put->idem != NULL ? 32 : 0);
	pg_bytes(&op->args, put->request, sizeof(put->request));
	seal_hour_wipe(&hour);
	secret_wipe(&key);
	op->charging = limit_charge(
	    op->st->limiter, &op->inbox, &op->cost, on_charged, op);
	return op;
}

static void
on_go(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_draft_op *op = arg;
	enum err_code code = store_row_code(err, res);
	bool sent = code == E_NONE && !pg_is_null(res, 0, "message_id");
	struct uuid message = sent ? pg_get_uuid(res, 0, "message_id") : none;
	int64_t at = code == E_NONE && !sent ? pg_get_time(res, 0, "at") : 0;

	op->done.go(op->arg, code, sent ? &message : NULL, at);
	free_op(op);
}

struct store_draft_op *
store_draft_go(const struct store_cred *cred, const struct uuid *id,
    int version, const unsigned char key[32], store_draft_go_fn *done,
    void *arg)
{
	struct store_draft_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->done.go = done;
	op->arg = arg;
	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	pg_i16(&args, version);
	pg_bytes(&args, key, 32);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.draft_go_1($1,$2,$3,$4,$5,$6)", &args, on_go,
	    op);
	return op;
}

static void
on_end(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_draft_op *op = arg;

	op->done.end(op->arg, store_row_code(err, res));
	free_op(op);
}

struct store_draft_op *
store_draft_end(const struct store_cred *cred, const struct uuid *id,
    const struct uuid *sent, store_draft_end_fn *done, void *arg)
{
	struct store_draft_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->done.end = done;
	op->arg = arg;
	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	pg_uuid(&args, sent);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.draft_end_1($1,$2,$3,$4,$5)", &args, on_end, op);
	return op;
}

struct store_draft_op *
store_draft_stay(const struct store_cred *cred, const struct uuid *id,
    int64_t at, store_draft_end_fn *done, void *arg)
{
	struct store_draft_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->done.end = done;
	op->arg = arg;
	store_cred_args(&args, cred);
	pg_uuid(&args, id);
	pg_time(&args, at);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.draft_stay_1($1,$2,$3,$4,$5)", &args, on_end,
	    op);
	return op;
}
