/* SPDX-License-Identifier: ISC */
/*
 * operator.c - sign-in and sessions of people (decision D25)
 */
#include "store/operator.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

static void
fill_salt(void *out, struct arena *mem, const struct pg_result *res)
{
	struct operator_salt *o = out;
	struct str salt = pg_get_bytes(res, 0, "salt");

	(void)mem;
	if (salt.n == sizeof(o->salt))
		memcpy(o->salt, salt.p, sizeof(o->salt));
	snprintf(
	    o->params, sizeof(o->params), "%s", pg_get_text(res, 0, "params"));
}

void
operator_salt(struct review_db *db, const char *name, struct operator_salt *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = { .sql =
					"select * from api.operator_salt_1($1)",
		.out = out,
		.fill = fill_salt,
		.done = done,
		.arg = arg };

	pg_text(&call.args, name);
	review_call(db, &call);
}

void
operator_setup(struct review_db *db, const char *name,
    const unsigned char salt[OPERATOR_SALT], const char *params,
    const unsigned char verifier[32], struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.setup_1($1,$2,$3,$4)",
		.out = out,
		.done = done,
		.arg = arg,
	};

	pg_text(&call.args, name);
	pg_bytes(&call.args, salt, OPERATOR_SALT);
	pg_text(&call.args, params);
	pg_bytes(&call.args, verifier, 32);
	review_call(db, &call);
}

static void
fill_signin(void *out, struct arena *mem, const struct pg_result *res)
{
	struct operator_signin *o = out;

	(void)mem;
	o->wait_s = pg_get_int(res, 0, "wait");
	o->operator_id = pg_get_i64(res, 0, "operator_id");
	o->expires_us = pg_get_time(res, 0, "expires_at");
	o->factor_due = pg_get_bool(res, 0, "factor_due");
}

void
operator_session_create(struct review_db *db, const char *name,
    const unsigned char output[OPERATOR_OUTPUT],
    const unsigned char session_sha256[32], const char *peer,
    struct operator_signin *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.session_create_1($1,$2,$3,$4)",
		.out = out,
		.fill = fill_signin,
		.fill_always = true,
		.done = done,
		.arg = arg,
	};

	pg_text(&call.args, name);
	pg_bytes(&call.args, output, OPERATOR_OUTPUT);
	pg_bytes(&call.args, session_sha256, 32);
	pg_text(&call.args, peer);
	review_call(db, &call);
}

static void
fill_session(void *out, struct arena *mem, const struct pg_result *res)
{
	struct operator_session *o = out;

	o->operator_id = pg_get_i64(res, 0, "operator_id");
	o->name = review_text(mem, res, 0, "name");
	o->roles = review_text(mem, res, 0, "roles");
	o->idle_us = pg_get_time(res, 0, "idle_until");
	o->expires_us = pg_get_time(res, 0, "expires_at");
	o->step_up_us = pg_get_time(res, 0, "step_up_until");
	o->global_paused = pg_get_bool(res, 0, "global_paused");
	o->now_us = pg_get_time(res, 0, "now");
	o->totp = pg_get_bool(res, 0, "totp");
	o->passkeys = pg_get_int(res, 0, "passkeys");
	o->csrf = pg_get_uuid(res, 0, "csrf");
}

void
operator_session_touch(const struct store_operator *who, bool used,
    struct arena *mem, struct operator_session *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.session_touch_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_session,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_bool(&call.args, used);
	review_call(who->db, &call);
}

void
operator_session_end(const struct store_operator *who, bool everywhere,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.session_end_1($1,$2)",
		.out = out,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_bool(&call.args, everywhere);
	review_call(who->db, &call);
}

static void
fill_step_up(void *out, struct arena *mem, const struct pg_result *res)
{
	struct operator_step_up *o = out;

	(void)mem;
	o->wait_s = pg_get_int(res, 0, "wait");
	o->until_us = pg_get_time(res, 0, "step_up_until");
}

void
operator_step_up_password(const struct store_operator *who,
    const unsigned char output[OPERATOR_OUTPUT],
    const unsigned char next_sha256[32], struct operator_step_up *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.step_up_password_1($1,$2,$3)",
		.out = out,
		.fill = fill_step_up,
		.fill_always = true,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_bytes(&call.args, output, OPERATOR_OUTPUT);
	pg_bytes(&call.args, next_sha256, 32);
	review_call(who->db, &call);
}

void
operator_pause(const struct store_operator *who, int64_t tenant, int64_t inbox,
    bool paused, const char *reason, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.pause_1($1,$2,$3,$4,$5)",
		.out = out,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	review_id_arg(&call.args, tenant);
	review_id_arg(&call.args, inbox);
	pg_bool(&call.args, paused);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}
