/* SPDX-License-Identifier: ISC */
/*
 * people.c - tenants, operators and sessions, from rows into structs
 */
#include "store/people.h"

#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

#define TEXT(col) review_text(mem, res, i, col)
#define INT(col) pg_get_int(res, i, col)
#define I64(col) pg_get_i64(res, i, col)
#define BOOL(col) pg_get_bool(res, i, col)
#define TIME(col) pg_get_time(res, i, col)

static void
ask(struct review_call call, const struct store_operator *who,
    struct arena *mem, review_fill_fn *fill)
{
	call.mem = mem;
	call.fill = fill;
	review_call(who->db, &call);
}

static void
fill_tenants(void *out, struct arena *mem, const struct pg_result *res)
{
	struct people_tenants *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct people_tenant){ I64("tenant_id"),
			TEXT("slug"), TEXT("name"), INT("inboxes"), INT("held"),
			INT("need_approvals"), BOOL("paused"),
			BOOL("disabled") };
}

void
people_tenants(const struct store_operator *who, struct arena *mem,
    struct people_tenants *out, review_done_fn *done, void *arg)
{
	ask(review_begin(
		who, "SELECT * FROM api.tenants_1($1,NULL)", out, done, arg),
	    who, mem, fill_tenants);
}

static void
fill_domains(void *out, struct arena *mem, const struct pg_result *res)
{
	struct people_domains *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] =
		    (struct people_domain){ I64("tenant_id"), TEXT("domain"),
			    TEXT("token"), TEXT("how"), TIME("verified_at") };
}

void
people_domains(const struct store_operator *who, struct arena *mem,
    struct people_domains *out, review_done_fn *done, void *arg)
{
	ask(review_begin(who, "SELECT * FROM api.domains_1($1,NULL,NULL)", out,
		done, arg),
	    who, mem, fill_domains);
}

void
people_tenant_create(const struct store_operator *who, const char *slug,
    const char *name, const unsigned char pub[32], const void *priv_box,
    size_t priv_n, struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.tenant_create_1($1,NULL,$2,$3,$4,$5)", out, done,
	    arg);

	pg_text(&call.args, slug);
	pg_text(&call.args, name);
	pg_bytes(&call.args, pub, 32);
	pg_bytes(&call.args, priv_box, priv_n);
	review_call(who->db, &call);
}

void
people_tenant_set(const struct store_operator *who, int64_t tenant,
    const struct people_tenant_set *set, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.tenant_set_1($1,NULL,$2,$3,$4,$5)", out, done,
	    arg);

	pg_i64(&call.args, tenant);
	if (set->need < 0)
		pg_null(&call.args);
	else
		pg_i16(&call.args, set->need);
	if (set->hold_s < 0)
		pg_null(&call.args);
	else
		pg_i32(&call.args, set->hold_s);
	if (set->disabled < 0)
		pg_null(&call.args);
	else
		pg_bool(&call.args, set->disabled != 0);
	review_call(who->db, &call);
}

void
people_domain_add(const struct store_operator *who, int64_t tenant,
    const char *domain, const char *token, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.domain_add_1($1,NULL,$2,$3,$4)", out, done, arg);

	pg_i64(&call.args, tenant);
	pg_text(&call.args, domain);
	pg_text(&call.args, token);
	review_call(who->db, &call);
}

static void
fill_operators(void *out, struct arena *mem, const struct pg_result *res)
{
	struct people_operators *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct people_operator){ I64("operator_id"),
			TIME("last_seen"), TEXT("name"), TEXT("roles"),
			BOOL("disabled") };
}

void
people_operators(const struct store_operator *who, struct arena *mem,
    struct people_operators *out, review_done_fn *done, void *arg)
{
	ask(review_begin(
		who, "SELECT * FROM api.operators_1($1,NULL)", out, done, arg),
	    who, mem, fill_operators);
}

static void
fill_scopes(void *out, struct arena *mem, const struct pg_result *res)
{
	struct people_scopes *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct people_scope){ I64("scope_id"),
			I64("operator_id"), I64("tenant_id"), I64("inbox_id"),
			TEXT("tenant_slug"), TEXT("address"), TEXT("role"),
			INT("risk_cap") };
}

void
people_scopes(const struct store_operator *who, struct arena *mem,
    struct people_scopes *out, review_done_fn *done, void *arg)
{
	ask(review_begin(
		who, "SELECT * FROM api.scopes_1($1,NULL)", out, done, arg),
	    who, mem, fill_scopes);
}

static void
secret_args(struct pg_args *a, const struct people_secret *secret)
{
	pg_bytes(a, secret->salt, sizeof(secret->salt));
	pg_text(a, secret->params);
	pg_bytes(a, secret->verifier, sizeof(secret->verifier));
}

static void
role_args(struct pg_args *a, const struct people_role *role)
{
	pg_text(a, role->role);
	review_id_arg(a, role->tenant);
	review_id_arg(a, role->inbox);
}

void
people_operator_add(const struct store_operator *who, const char *name,
    const struct people_secret *secret, const struct people_role *role,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.operator_add_1($1,NULL,$2,$3,$4,$5,$6,$7,$8)",
	    out, done, arg);

	pg_text(&call.args, name);
	secret_args(&call.args, secret);
	role_args(&call.args, role);
	review_call(who->db, &call);
}

void
people_operator_disable(const struct store_operator *who, const char *name,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.operator_disable_1($1,NULL,$2)", out, done, arg);

	pg_text(&call.args, name);
	review_call(who->db, &call);
}

void
people_scope_add(const struct store_operator *who, int64_t operator_id,
    const struct people_role *role, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.scope_add_1($1,NULL,$2,$3,$4,$5,$6)", out, done,
	    arg);

	pg_i64(&call.args, operator_id);
	role_args(&call.args, role);
	pg_i16(&call.args, role->risk_cap);
	review_call(who->db, &call);
}

void
people_scope_end(const struct store_operator *who, int64_t scope,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.scope_end_1($1,NULL,$2)", out, done, arg);

	pg_i64(&call.args, scope);
	review_call(who->db, &call);
}

/* ---- one's own sessions */

static void
fill_sessions(void *out, struct arena *mem, const struct pg_result *res)
{
	struct people_sessions *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++) {
		struct people_session *row = &o->row[i];
		struct str ref = pg_get_bytes(res, i, "ref");

		if (ref.n == sizeof(row->ref))
			memcpy(row->ref, ref.p, sizeof(row->ref));
		row->peer = TEXT("peer");
		row->created_us = TIME("created_at");
		row->touched_us = TIME("touched_at");
		row->expires_us = TIME("expires_at");
		row->mine = BOOL("mine");
	}
}

void
people_sessions(const struct store_operator *who, struct arena *mem,
    struct people_sessions *out, review_done_fn *done, void *arg)
{
	ask(review_begin(
		who, "SELECT * FROM api.sessions_1($1)", out, done, arg),
	    who, mem, fill_sessions);
}

void
people_session_end(const struct store_operator *who,
    const unsigned char ref[32], struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.session_drop_1($1,$2)", out, done, arg);

	pg_bytes(&call.args, ref, 32);
	review_call(who->db, &call);
}

void
people_password_set(const struct store_operator *who,
    const unsigned char output[OPERATOR_OUTPUT],
    const struct people_secret *secret, const unsigned char next_sha256[32],
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.password_set_1($1,$2,$3,$4,$5,$6)", out, done,
	    arg);

	pg_bytes(&call.args, output, OPERATOR_OUTPUT);
	secret_args(&call.args, secret);
	pg_bytes(&call.args, next_sha256, 32);
	review_call(who->db, &call);
}
