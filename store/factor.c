/* SPDX-License-Identifier: ISC */
/*
 * factor.c - second factors, from rows into structs
 */
#include "store/factor.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

struct review_db *
factor_db_new(struct loop *loop, const struct conf *conf)
{
	return review_db_open(loop, conf, "l_auth", "postern-auth");
}

/* Begin a call whose answer is read also when it is a refusal. */
static struct review_call
begin(const struct store_operator *who, const char *sql, review_fill_fn *fill,
    void *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who, sql, out, done, arg);

	call.fill = fill;
	call.fill_always = true;
	return call;
}

static size_t
copy(void *to, size_t size, struct str from)
{
	if (from.n > size)
		return 0;
	if (from.n > 0)
		memcpy(to, from.p, from.n);
	return from.n;
}

static void
fill_state(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_state *o = out;

	(void)mem;
	o->operator_id = pg_get_i64(res, 0, "operator_id");
	o->now_us = pg_get_time(res, 0, "now");
	snprintf(o->name, sizeof(o->name), "%s", pg_get_text(res, 0, "name"));
	o->due = pg_get_bool(res, 0, "due");
	o->totp = pg_get_bool(res, 0, "totp");
	o->passkeys = pg_get_int(res, 0, "passkeys");
	o->recovery = pg_get_int(res, 0, "recovery");
	o->wait_s = pg_get_int(res, 0, "wait");
}

void
factor_state(const struct store_operator *who, struct factor_state *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = begin(who,
	    "SELECT * FROM api.factor_state_1($1)", fill_state, out, done, arg);

	review_call(who->db, &call);
}

void
factor_totp_begin(const struct store_operator *who, const void *sealed,
    size_t n, struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.totp_begin_1($1,$2)", out, done, arg);

	pg_bytes(&call.args, sealed, n);
	review_call(who->db, &call);
}

static void
fill_totp(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_totp *o = out;

	(void)mem;
	o->wait_s = pg_get_int(res, 0, "wait");
	o->factor = pg_get_i64(res, 0, "factor_id");
	o->operator_id = pg_get_i64(res, 0, "operator_id");
	o->last_step = pg_get_i64(res, 0, "last_step");
	o->now_us = pg_get_time(res, 0, "now");
	o->sealed_n =
	    copy(o->sealed, sizeof(o->sealed), pg_get_bytes(res, 0, "sealed"));
}

void
factor_totp_try(const struct store_operator *who, bool confirm,
    struct factor_totp *out, review_done_fn *done, void *arg)
{
	struct review_call call = begin(who,
	    "SELECT * FROM api.totp_try_1($1,$2)", fill_totp, out, done, arg);

	pg_bool(&call.args, confirm);
	review_call(who->db, &call);
}

static void
fill_mark(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_mark *o = out;

	(void)mem;
	if (pg_has(res, "wait"))
		o->wait_s = pg_get_int(res, 0, "wait");
	if (pg_has(res, "step_up_until"))
		o->until_us = pg_get_time(res, 0, "step_up_until");
	if (pg_has(res, "confirmed"))
		o->confirmed = pg_get_bool(res, 0, "confirmed");
	if (pg_has(res, "codes"))
		o->codes = pg_get_bool(res, 0, "codes");
}

static void
hashes_arg(struct pg_args *a, const factor_hashes *hashes)
{
	size_t i;

	pg_array_begin(a, PG_ELEM_BYTES);
	for (i = 0; hashes != NULL && i < FACTOR_CODES; i++)
		pg_item_bytes(a, (*hashes)[i], 32);
	pg_array_end(a);
}

void
factor_totp_done(const struct store_operator *who, int64_t factor, int64_t step,
    const factor_hashes *hashes, struct str next_sha256,
    struct factor_mark *out, review_done_fn *done, void *arg)
{
	struct review_call call =
	    begin(who, "SELECT * FROM api.totp_done_1($1,$2,$3,$4,$5)",
		fill_mark, out, done, arg);

	pg_i64(&call.args, factor);
	pg_i64(&call.args, step);
	hashes_arg(&call.args, hashes);
	pg_bytes(&call.args, next_sha256.p, next_sha256.n);
	review_call(who->db, &call);
}

void
factor_recovery_set(const struct store_operator *who,
    const factor_hashes *hashes, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.recovery_set_1($1,$2)", out, done, arg);

	hashes_arg(&call.args, hashes);
	review_call(who->db, &call);
}

void
factor_recovery_use(const struct store_operator *who,
    const unsigned char hash[32], struct str next_sha256,
    struct factor_mark *out, review_done_fn *done, void *arg)
{
	struct review_call call =
	    begin(who, "SELECT * FROM api.recovery_use_1($1,$2,$3)", fill_mark,
		out, done, arg);

	pg_bytes(&call.args, hash, 32);
	pg_bytes(&call.args, next_sha256.p, next_sha256.n);
	review_call(who->db, &call);
}

static void
fill_credentials(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_credentials *o = out;
	int i;

	o->operator_id = pg_get_i64(res, 0, "operator_id");
	snprintf(o->name, sizeof(o->name), "%s", pg_get_text(res, 0, "name"));
	o->row = arena_array(mem, (size_t)pg_rows(res), sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++) {
		struct str s = pg_get_bytes(res, i, "credential");

		if (s.n > 0)
			o->row[o->n++] = (struct str){ arena_str(mem, s), s.n };
	}
}

static void
ask_args(struct pg_args *a, const struct factor_ask *ask)
{
	if (ask->purpose == 'a') {
		pg_uuid(a, &ask->message);
		pg_i16(a, ask->version);
		pg_i16(a, ask->round);
		pg_bytes(a, ask->digest, sizeof(ask->digest));
	} else {
		pg_null(a);
		pg_null(a);
		pg_null(a);
		pg_null(a);
	}
}

void
factor_passkey_ask(const struct store_operator *who, struct arena *mem,
    const struct factor_ask *ask, struct factor_credentials *out,
    review_done_fn *done, void *arg)
{
	const char purpose[2] = { ask->purpose, '\0' };
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.passkey_ask_1($1,$2,$3,$4,$5,$6,$7)", out, done,
	    arg);

	call.fill = fill_credentials;
	call.mem = mem;
	pg_text(&call.args, purpose);
	pg_bytes(&call.args, ask->nonce, sizeof(ask->nonce));
	ask_args(&call.args, ask);
	review_call(who->db, &call);
}

static void
fill_passkey(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_passkey *o = out;

	(void)mem;
	o->wait_s = pg_get_int(res, 0, "wait");
	o->factor = pg_get_i64(res, 0, "factor_id");
	o->operator_id = pg_get_i64(res, 0, "operator_id");
	o->sign_count = pg_get_i64(res, 0, "sign_count");
	o->key_n =
	    copy(o->key, sizeof(o->key), pg_get_bytes(res, 0, "public_key"));
	(void)copy(
	    o->ask.nonce, sizeof(o->ask.nonce), pg_get_bytes(res, 0, "nonce"));
	(void)copy(o->ask.digest, sizeof(o->ask.digest),
	    pg_get_bytes(res, 0, "digest"));
	if (!pg_is_null(res, 0, "message_id"))
		o->ask.message = pg_get_uuid(res, 0, "message_id");
	o->proof_n =
	    copy(o->proof, sizeof(o->proof), pg_get_bytes(res, 0, "proof"));
	o->ask.version = pg_get_int(res, 0, "version");
	o->ask.round = pg_get_int(res, 0, "round");
}

void
factor_passkey_try(const struct store_operator *who, char purpose,
    struct str credential, struct factor_passkey *out, review_done_fn *done,
    void *arg)
{
	const char text[2] = { purpose, '\0' };
	struct review_call call =
	    begin(who, "SELECT * FROM api.passkey_try_1($1,$2,$3)",
		fill_passkey, out, done, arg);

	out->ask.purpose = purpose;
	pg_text(&call.args, text);
	pg_bytes(&call.args, credential.p, credential.n);
	review_call(who->db, &call);
}

void
factor_passkey_done(const struct store_operator *who,
    const struct factor_passkey *passkey, int64_t count, struct str packed,
    struct str next_sha256, struct factor_mark *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = begin(who,
	    "SELECT * FROM api.passkey_done_1($1,$2,$3,$4,$5,$6,$7,$8,$9)",
	    fill_mark, out, done, arg);

	pg_i64(&call.args, passkey->factor);
	pg_i64(&call.args, count);
	ask_args(&call.args, &passkey->ask);
	pg_bytes(&call.args, packed.n > 0 ? packed.p : NULL, packed.n);
	pg_bytes(&call.args, next_sha256.p, next_sha256.n);
	review_call(who->db, &call);
}

void
factor_passkey_add(const struct store_operator *who,
    const struct factor_new_passkey *made, struct factor_mark *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = begin(who,
	    "SELECT * FROM api.passkey_add_1($1,$2,$3,$4,$5,$6,$7,$8)",
	    fill_mark, out, done, arg);

	pg_bytes(&call.args, made->credential.p, made->credential.n);
	pg_bytes(&call.args, made->key.p, made->key.n);
	pg_i64(&call.args, made->count);
	pg_text(&call.args, made->label);
	pg_bytes(&call.args, made->proof.p, made->proof.n);
	hashes_arg(&call.args, made->hashes);
	pg_bytes(&call.args, made->next_sha256.p, made->next_sha256.n);
	review_call(who->db, &call);
}

static void
fill_rows(void *out, struct arena *mem, const struct pg_result *res)
{
	struct factor_rows *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] =
		    (struct factor_row){ pg_get_i64(res, i, "factor_id"),
			    pg_get_time(res, i, "created_at"),
			    pg_get_time(res, i, "used_at"),
			    review_text(mem, res, i, "kind"),
			    review_text(mem, res, i, "label") };
}

void
factor_list(const struct store_operator *who, struct arena *mem,
    struct factor_rows *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.factors_1($1)", out, done, arg);

	call.fill = fill_rows;
	call.mem = mem;
	review_call(who->db, &call);
}

void
factor_end(const struct store_operator *who, int64_t factor,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.factor_end_1($1,$2)", out, done, arg);

	pg_i64(&call.args, factor);
	review_call(who->db, &call);
}

void
factor_reset(const struct store_operator *who, const char *name,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.factor_reset_1($1,NULL,$2)", out, done, arg);

	pg_text(&call.args, name);
	review_call(who->db, &call);
}
