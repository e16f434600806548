/* SPDX-License-Identifier: ISC */
/* session.c - see session.h. The key is made here and shown once. */
#include "store/session.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/xalloc.h"
#include "seal/key.h"
#include "store/store_internal.h"

struct store_session_op {
	struct pg_req *req;
	struct secret s;
	int64_t tenant;
	const char *column; /* of the value that is told */
	union {
		store_session_new_fn *made;
		store_session_fn *changed;
		store_sessions_fn *listed;
	} done;
	void *arg;
};

void
store_session_cancel(struct store_session_op *op)
{
	if (op == NULL)
		return;
	pg_cancel(op->req);
	secret_wipe(&op->s);
	free(op);
}

static void
put_list(struct pg_args *args, const struct str *v, size_t n)
{
	size_t i;

	pg_array_begin(args, PG_ELEM_TEXT);
	for (i = 0; i < n; i++)
		pg_item_str(args, v[i]);
	pg_array_end(args);
}

static void
on_made(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_session_op *op = arg;
	enum err_code code = store_row_code(err, res);
	char text[SEAL_TOKEN_MAX] = "";
	struct seal_token token;
	int64_t id = 0, until = 0;

	if (code == E_NONE) {
		id = pg_get_i64(res, 0, "key_id");
		until = pg_get_time(res, 0, "expires_at");
		token = (struct seal_token){ SEAL_TOKEN_SESSION,
			(uint64_t)op->tenant, (uint64_t)id, op->s };
		seal_token_format(text, &token);
		seal_token_wipe(&token);
	}
	op->done.made(op->arg, code, id, text, until);
	OPENSSL_cleanse(text, sizeof(text));
	secret_wipe(&op->s);
	free(op);
}

static void
put_auth(struct pg_args *args, const struct secret *s)
{
	unsigned char hash[32];
	struct secret a = { 0 };

	seal_token_auth(&a, s);
	seal_auth_hash(hash, &a);
	pg_bytes(args, hash, sizeof(hash));
	secret_wipe(&a);
}

struct store_session_op *
store_session_create(const struct store_cred *cred,
    const struct store_session_new *session, store_session_new_fn *done,
    void *arg)
{
	struct store_session_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->tenant = cred->tenant;
	op->done.made = done;
	op->arg = arg;
	secret_random(&op->s, 32);
	store_cred_args(&args, cred);
	put_auth(&args, &op->s);
	pg_i32(&args, session->seconds);
	pg_str(&args, session->run);
	pg_str(&args, session->sandbox_id);
	pg_str(&args, session->template_name);
	pg_str(&args, session->purpose);
	put_list(&args, session->recipients, session->recipient_count);
	put_list(&args, session->domains, session->domain_count);
	pg_i32(&args, session->max_messages);
	pg_bool(&args, session->attachments);
	pg_text(&args, session->doors);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.run_create_1($1,$2,$3,$4,$5,$6,$7,$8,$9,"
	    "$10,$11,$12,$13,$14)",
	    &args, on_made, op);
	return op;
}

static void
on_changed(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_session_op *op = arg;
	enum err_code code = store_row_code(err, res);
	int64_t value = 0;

	if (code == E_NONE && pg_is_null(res, 0, op->column))
		value = -1;
	else if (code == E_NONE)
		value = strcmp(op->column, "expires_at") == 0
			    ? pg_get_time(res, 0, op->column)
			    : pg_get_i64(res, 0, op->column);
	op->done.changed(op->arg, code, value);
	free(op);
}

static struct store_session_op *
change(struct store *st, const char *sql, struct pg_args *args,
    const char *column, store_session_fn *done, void *arg)
{
	struct store_session_op *op = xcalloc(1, sizeof(*op));

	op->column = column;
	op->done.changed = done;
	op->arg = arg;
	op->req = pg_call_move(st->pool, sql, args, on_changed, op);
	return op;
}

struct store_session_op *
store_session_extend(const struct store_cred *cred, int64_t id, int seconds,
    store_session_fn *done, void *arg)
{
	struct pg_args args = { 0 };

	store_cred_args(&args, cred);
	pg_i64(&args, id);
	pg_i32(&args, seconds);
	return change(cred->store,
	    "select * from api.run_extend_1($1,$2,$3,$4,$5)", &args,
	    "expires_at", done, arg);
}

static void
put_number(struct pg_args *args, int64_t v)
{
	if (v < 0)
		pg_null(args);
	else
		pg_i64(args, v);
}

struct store_session_op *
store_session_end(const struct store_cred *cred, int64_t id,
    const struct store_session_end *end, store_session_fn *done, void *arg)
{
	struct pg_args args = { 0 };

	store_cred_args(&args, cred);
	pg_i64(&args, id);
	pg_bool(&args, end->keep);
	pg_str(&args, end->exit_error);
	put_number(&args, end->stdout_lines);
	put_number(&args, end->stderr_lines);
	put_number(&args, end->payload_length);
	return change(cred->store,
	    "select * from api.run_end_1($1,$2,$3,$4,$5,$6,$7,$8,$9)", &args,
	    "canceled", done, arg);
}

struct store_session_op *
store_sandbox_gone(struct store *st, const unsigned char event[32],
    struct str sandbox, const char *why, int64_t at, store_session_fn *done,
    void *arg)
{
	struct pg_args args = { 0 };

	pg_bytes(&args, event, 32);
	pg_str(&args, sandbox);
	pg_text(&args, why);
	pg_time(&args, at);
	return change(st, "select * from api.sandbox_gone_1($1,$2,$3,$4)",
	    &args, "ended", done, arg);
}

static int64_t
number(const struct pg_result *res, int row, const char *column)
{
	return pg_is_null(res, row, column) ? -1 : pg_get_i64(res, row, column);
}

static void
read_session(struct store_session *s, const struct pg_result *res, int row)
{
	*s = (struct store_session){
		.id = pg_get_i64(res, row, "key_id"),
		.run = pg_get_text(res, row, "run"),
		.sandbox_id = pg_get_text(res, row, "sandbox_id"),
		.template_name = pg_get_text(res, row, "template"),
		.purpose = pg_get_text(res, row, "purpose"),
		.recipients = pg_get_text(res, row, "recipients"),
		.domains = pg_get_text(res, row, "domains"),
		.max_messages = pg_get_int(res, row, "max_messages"),
		.attachments = pg_get_bool(res, row, "attachments"),
		.doors = pg_get_text(res, row, "doors"),
		.sent = pg_get_int(res, row, "sent"),
		.refused = pg_get_int(res, row, "refused"),
		.started_at = pg_get_time(res, row, "started_at"),
		.expires_at = pg_get_time(res, row, "expires_at"),
		.ended_at = pg_get_time(res, row, "ended_at"),
		.dead = pg_get_bool(res, row, "dead"),
		.exit_error = pg_get_text(res, row, "exit_error"),
		.stdout_lines = number(res, row, "stdout_lines"),
		.stderr_lines = number(res, row, "stderr_lines"),
		.payload_length = number(res, row, "payload_length"),
		.counts = pg_get_text(res, row, "counts"),
	};
}

static void
on_listed(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_session_op *op = arg;
	enum err_code code = store_code(err, res);
	struct store_session *s;
	int i, n = 0;

	if (code == E_NONE && pg_rows(res) > 0)
		code = store_row_code(err, res);
	if (code == E_NONE)
		n = pg_rows(res);
	s = xcalloc((size_t)n + 1, sizeof(*s));
	for (i = 0; i < n; i++)
		read_session(&s[i], res, i);
	op->done.listed(op->arg, code, s, (size_t)n);
	free(s);
	free(op);
}

static void
put_id(struct pg_args *args, int64_t id)
{
	if (id == 0)
		pg_null(args);
	else
		pg_i64(args, id);
}

struct store_session_op *
store_sessions(const struct store_cred *cred, int64_t id, int64_t after,
    int limit, store_sessions_fn *done, void *arg)
{
	struct store_session_op *op = xcalloc(1, sizeof(*op));
	struct pg_args args = { 0 };

	op->done.listed = done;
	op->arg = arg;
	store_cred_args(&args, cred);
	put_id(&args, id);
	put_id(&args, after);
	pg_i32(&args, limit);
	op->req = pg_call_move(cred->store->pool,
	    "select * from api.runs_1($1,$2,$3,$4,$5,$6)", &args, on_listed,
	    op);
	return op;
}
