/* SPDX-License-Identifier: ISC */
/*
 * message.c - an agent's questions about its own messages and keys.
 *
 * Each is one function of the database; here rows become structs.
 */
#include "store/message_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "seal/key.h"

static const struct uuid none;

void
store_op_cancel(struct store_op *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	limit_cancel(op->peek);
	secret_wipe(&op->kek);
	free(op);
}

static void
on_answer(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_op *op = arg;
	enum err_code code = store_code(err, res);

	/* No row is an empty list; questions for one thing always have one. */
	if (code == E_NONE && pg_rows(res) > 0)
		code = store_row_code(err, res);
	op->tell(op, code, res);
	secret_wipe(&op->kek);
	free(op);
}

struct store_op *
store_op_ask(const struct store_cred *cred, const char *sql,
    struct pg_args *args, store_tell_fn *tell, void *arg)
{
	struct store_op *op = xcalloc(1, sizeof(*op));

	op->tell = tell;
	op->arg = arg;
	op->req = pg_call_move(cred->store->pool, sql, args, on_answer, op);
	return op;
}

void
store_message_read(
    struct store_message *m, const struct pg_result *res, int row)
{
	struct str digest = pg_get_bytes(res, row, "digest");

	*m = (struct store_message){
		.message = pg_get_uuid(res, row, "message_id"),
		.thread = pg_get_uuid(res, row, "thread_id"),
		.version = pg_get_int(res, row, "version"),
		.round = pg_get_int(res, row, "round"),
		.state = pg_get_int(res, row, "state"),
		.mail_from = pg_get_text(res, row, "mail_from"),
		.rcpts = pg_get_text(res, row, "rcpts"),
		.rcpt_kind = pg_get_text(res, row, "rcpt_kind"),
		.subject = pg_get_text(res, row, "subject"),
		.header_from = pg_get_text(res, row, "header_from"),
		.labels = pg_get_text(res, row, "labels"),
		.size = pg_get_i64(res, row, "size"),
		.chunks = pg_get_int(res, row, "chunks"),
		.rfc_message_id = pg_get_text(res, row, "rfc_message_id"),
		.in_reply_to = pg_get_text(res, row, "in_reply_to"),
		.references = pg_get_text(res, row, "refs"),
		.reasons = pg_get_text(res, row, "reasons"),
		.hold_until = pg_get_time(res, row, "hold_until"),
		.verdict = pg_get_text(res, row, "verdict"),
		.category = pg_get_text(res, row, "category"),
		.note = pg_get_text(res, row, "note"),
		.hint = pg_get_text(res, row, "hint"),
		.edited = pg_get_bool(res, row, "edited"),
		.decided_at = pg_get_time(res, row, "decided_at"),
		.send_at = pg_get_i64(res, row, "send_at"),
		.not_after = pg_get_i64(res, row, "not_after"),
		.test = pg_get_bool(res, row, "test"),
		.attachments = pg_get_int(res, row, "attachments"),
		.key = pg_get_i64(res, row, "key_id"),
		.created_at = pg_get_time(res, row, "created_at"),
		.updated_at = pg_get_time(res, row, "updated_at"),
		.doubt = pg_get_bool(res, row, "doubt"),
	};
	if (digest.n == sizeof(m->digest))
		memcpy(m->digest, digest.p, digest.n);
}

static size_t
rows_of(enum err_code code, const struct pg_result *res)
{
	return code == E_NONE ? (size_t)pg_rows(res) : 0;
}

/* Of a thread every row says how much there is. */
static void
read_total(struct store_message *m, const struct pg_result *res, int row)
{
	if (!pg_has(res, "total"))
		return;
	m->total = pg_get_i64(res, row, "total");
	m->total_size = pg_get_i64(res, row, "total_size");
	m->last = pg_get_uuid(res, row, "last_id");
}

static void
tell_list(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_message *m = xcalloc(n + 1, sizeof(*m));

	for (i = 0; i < n; i++) {
		store_message_read(&m[i], res, (int)i);
		read_total(&m[i], res, (int)i);
	}
	op->done.list(op->arg, code, m, n);
	free(m);
}

struct store_op *
store_message_list(const struct store_cred *cred,
    const struct store_list *query, store_list_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_uuid(&args, uuid_eq(&query->after, &none) ? NULL : &query->after);
	pg_i32(&args, query->limit);
	pg_text(&args, query->states);
	pg_time(&args, query->since);
	pg_time(&args, query->until);
	pg_text(&args, query->label);
	op = store_op_ask(cred,
	    "select * from api.my_list_1($1,$2,$3,$4,$5,$6,$7,$8,$9)", &args,
	    tell_list, arg);
	op->done.list = done;
	return op;
}

struct store_op *
store_thread_messages(const struct store_cred *cred, const struct uuid *thread,
    store_list_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_uuid(&args, thread);
	pg_i32(&args, 100);
	op = store_op_ask(cred, "select * from api.my_thread_1($1,$2,$3,$4,$5)",
	    &args, tell_list, arg);
	op->done.list = done;
	return op;
}

static void
tell_threads(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_thread *t = xcalloc(n + 1, sizeof(*t));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		t[i] = (struct store_thread){
			.thread = pg_get_uuid(res, row, "thread_id"),
			.last = pg_get_uuid(res, row, "last_id"),
			.messages = pg_get_i64(res, row, "messages"),
			.size = pg_get_i64(res, row, "size"),
			.subject = pg_get_text(res, row, "subject"),
			.rcpts = pg_get_text(res, row, "rcpts"),
			.labels = pg_get_text(res, row, "labels"),
			.created_at = pg_get_time(res, row, "created_at"),
			.updated_at = pg_get_time(res, row, "updated_at"),
		};
	}
	op->done.threads(op->arg, code, t, n);
	free(t);
}

struct store_op *
store_threads(const struct store_cred *cred, const struct uuid *after,
    int limit, store_threads_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_uuid(&args, uuid_eq(after, &none) ? NULL : after);
	pg_i32(&args, limit);
	op =
	    store_op_ask(cred, "select * from api.my_threads_1($1,$2,$3,$4,$5)",
		&args, tell_threads, arg);
	op->done.threads = done;
	return op;
}

static void
put_message(
    struct pg_args *args, const struct store_cred *cred, const struct uuid *id)
{
	store_cred_args(args, cred);
	pg_uuid(args, id);
}

static void
tell_message(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	struct store_message m;

	if (rows_of(code, res) == 0) {
		op->done.message(
		    op->arg, code != E_NONE ? code : E_NOT_FOUND, NULL);
		return;
	}
	store_message_read(&m, res, 0);
	op->done.message(op->arg, E_NONE, &m);
}

struct store_op *
store_message_get(const struct store_cred *cred, const struct uuid *id,
    store_message_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op = store_op_ask(cred, "select * from api.my_get_1($1,$2,$3,$4)",
	    &args, tell_message, arg);
	op->done.message = done;
	return op;
}

static void
tell_recipients(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_recipient *r = xcalloc(n + 1, sizeof(*r));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		r[i] = (struct store_recipient){
			.ix = pg_get_int(res, row, "ix"),
			.address = pg_get_text(res, row, "address"),
			.kind = pg_get_text(res, row, "kind"),
			.delivery = pg_get_int(res, row, "delivery"),
			.reply_code = pg_get_int(res, row, "reply_code"),
			.enhanced = pg_get_text(res, row, "enhanced"),
			.reply = pg_get_text(res, row, "reply"),
			.attempts = pg_get_int(res, row, "attempts"),
			.next_attempt_at =
			    pg_get_time(res, row, "next_attempt_at"),
			.updated_at = pg_get_time(res, row, "updated_at"),
		};
	}
	op->done.recipients(op->arg, code, r, n);
	free(r);
}

struct store_op *
store_message_recipients(const struct store_cred *cred, const struct uuid *id,
    store_recipients_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op =
	    store_op_ask(cred, "select * from api.my_recipients_1($1,$2,$3,$4)",
		&args, tell_recipients, arg);
	op->done.recipients = done;
	return op;
}

static void
tell_events(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_event *e = xcalloc(n + 1, sizeof(*e));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		e[i] = (struct store_event){
			.n = pg_get_int(res, row, "n"),
			.type = pg_get_text(res, row, "type"),
			.at = pg_get_time(res, row, "at"),
			.actor = pg_get_text(res, row, "actor"),
			.state = pg_get_int(res, row, "state"),
			.detail = pg_get_text(res, row, "detail"),
		};
	}
	op->done.events(op->arg, code, e, n);
	free(e);
}

struct store_op *
store_message_events(const struct store_cred *cred, const struct uuid *id,
    store_events_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op = store_op_ask(cred, "select * from api.my_events_1($1,$2,$3,$4)",
	    &args, tell_events, arg);
	op->done.events = done;
	return op;
}

static const char *
report_kind(const char *letter)
{
	if (letter[0] == 'd')
		return "delayed";
	return letter[0] == 's' ? "relayed" : "failed";
}

/* The text, in `out`; empty when this key cannot open it. */
static void
open_report(struct buf *out, const struct secret *kek,
    const struct pg_result *res, int row)
{
	struct str pub = pg_get_bytes(res, row, "inbox_pub");
	struct str box = pg_get_bytes(res, row, "box");
	struct secret priv = { 0 };
	unsigned char pub32[32];

	if (pg_is_null(res, row, "wrapped") || pub.n != sizeof(pub32) ||
	    box.n <= SEAL_BOX_EXTRA)
		return;
	memcpy(pub32, pub.p, sizeof(pub32));
	if (seal_unwrap(&priv, kek, pub32, pg_get_bytes(res, row, "wrapped")) &&
	    seal_box_open(
		buf_reserve(out, box.n - SEAL_BOX_EXTRA), box, pub32, &priv))
		out->n = box.n - SEAL_BOX_EXTRA;
	secret_wipe(&priv);
}

static void
tell_reports(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t count = code == E_NONE ? (size_t)pg_rows(res) : 0, i;
	struct store_report *r = xcalloc(count + 1, sizeof(*r));
	struct buf *text = xcalloc(count + 1, sizeof(*text));

	for (i = 0; i < count; i++) {
		r[i].kind = report_kind(pg_get_text(res, (int)i, "kind"));
		r[i].ix = pg_get_text(res, (int)i, "ix");
		r[i].at = pg_get_time(res, (int)i, "at");
		open_report(&text[i], &op->kek, res, (int)i);
		if (text[i].n > 0)
			r[i].content = buf_str(&text[i]);
	}
	op->done.reports(op->arg, code, r, count);
	for (i = 0; i < count; i++) {
		buf_wipe(&text[i]);
		buf_free(&text[i]);
	}
	free(text);
	free(r);
}

struct store_op *
store_message_reports(const struct store_cred *cred, const struct uuid *id,
    const struct secret *kek, store_reports_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op = store_op_ask(cred, "select * from api.my_reports_1($1,$2,$3,$4)",
	    &args, tell_reports, arg);
	op->kek = *kek;
	op->done.reports = done;
	return op;
}

static void
tell_captures(
    struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_capture *c = xcalloc(n + 1, sizeof(*c));
	struct buf *text = xcalloc(n + 1, sizeof(*text));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		open_report(&text[i], &op->kek, res, row);
		c[i] = (struct store_capture){
			.n = pg_get_int(res, row, "n"),
			.domain = pg_get_text(res, row, "domain"),
			.rcpts = pg_get_text(res, row, "rcpts"),
			.mail_from = pg_get_text(res, row, "mail_from"),
			.at = pg_get_time(res, row, "at"),
			.fields = buf_str(&text[i]),
		};
	}
	op->done.captures(op->arg, code, c, n);
	for (i = 0; i < n; i++)
		buf_free(&text[i]);
	free(text);
	free(c);
}

struct store_op *
store_message_captures(const struct store_cred *cred, const struct uuid *id,
    const struct secret *kek, store_captures_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op = store_op_ask(cred, "select * from api.my_captures_1($1,$2,$3,$4)",
	    &args, tell_captures, arg);
	op->kek = *kek;
	op->done.captures = done;
	return op;
}

/* The column that says where things stand, if there is one. */
static void
tell_state(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	int state = 0;

	if (res != NULL && pg_rows(res) == 1 && pg_has(res, "state"))
		state = pg_get_int(res, 0, "state");
	op->done.state(op->arg, code, state);
}

struct store_op *
store_message_cancel(const struct store_cred *cred, const struct uuid *id,
    store_state_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	put_message(&args, cred, id);
	op = store_op_ask(cred, "select * from api.cancel_1($1,$2,$3,$4)",
	    &args, tell_state, arg);
	op->done.state = done;
	return op;
}

static void
tell_keys(struct store_op *op, enum err_code code, const struct pg_result *res)
{
	size_t i, n = rows_of(code, res);
	struct store_key *k = xcalloc(n + 1, sizeof(*k));
	int row;

	for (i = 0; i < n; i++) {
		row = (int)i;
		k[i] = (struct store_key){
			.key = pg_get_i64(res, row, "key_id"),
			.kind = pg_get_text(res, row, "kind")[0],
			.scope = pg_get_text(res, row, "scope")[0],
			.label = pg_get_text(res, row, "label"),
			.created_at = pg_get_time(res, row, "created_at"),
			.expires_at = pg_get_time(res, row, "expires_at"),
			.revoked_at = pg_get_time(res, row, "revoked_at"),
			.last_used = pg_get_time(res, row, "last_used"),
		};
	}
	op->done.keys(op->arg, code, k, n);
	free(k);
}

struct store_op *
store_keys(const struct store_cred *cred, store_keys_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	op = store_op_ask(
	    cred, "select * from api.keys_1($1,$2,$3)", &args, tell_keys, arg);
	op->done.keys = done;
	return op;
}

struct store_op *
store_key_revoke(
    const struct store_cred *cred, int64_t key, store_state_fn *done, void *arg)
{
	struct pg_args args = { 0 };
	struct store_op *op;

	store_cred_args(&args, cred);
	pg_i64(&args, key);
	op = store_op_ask(cred, "select * from api.key_revoke_1($1,$2,$3,$4)",
	    &args, tell_state, arg);
	op->done.state = done;
	return op;
}

static void
on_peeked(void *arg, const struct limit_left *left)
{
	struct store_op *op = arg;
	struct store_limit l[LIMIT_WINDOWS];
	size_t i;

	op->peek = NULL;
	for (i = 0; left != NULL && i < LIMIT_WINDOWS; i++)
		l[i] = (struct store_limit){ left[i].name, left[i].seconds,
			left[i].limit, left[i].left,
			(unsigned)((left[i].reset_ms + 999) / 1000) };
	if (left != NULL)
		op->done.limits(op->arg, E_NONE, l, LIMIT_WINDOWS);
	else
		op->done.limits(op->arg, E_LIMITER_UNAVAILABLE, NULL, 0);
	free(op);
}

struct store_op *
store_limits(const struct store_cred *cred, store_limits_fn *done, void *arg)
{
	struct limit_inbox inbox = { cred->tenant, cred->inbox, cred->lim_hour,
		cred->lim_day, cred->lim_bytes };
	struct store_op *op = xcalloc(1, sizeof(*op));

	op->done.limits = done;
	op->arg = arg;
	op->peek = limit_peek(cred->store->limiter, &inbox, on_peeked, op);
	return op;
}
