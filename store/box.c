/* SPDX-License-Identifier: ISC */
/*
 * box.c - rows of one inbox into structs, and what changes it
 */
#include "store/box.h"

#include <string.h>

#include "base/arena.h"
#include "mail/address.h"
#include "store/review_call.h"

#define TEXT(col) review_text(mem, res, i, col)
#define INT(col) pg_get_int(res, i, col)
#define I64(col) pg_get_i64(res, i, col)
#define BOOL(col) pg_get_bool(res, i, col)
#define TIME(col) pg_get_time(res, i, col)
#define CHAR(col) pg_get_text(res, i, col)[0]

static void
key_args(struct pg_args *a, struct box_key key)
{
	pg_i64(a, key.tenant);
	review_id_arg(a, key.inbox);
}

/* A question about one inbox, whose rows `fill` reads. */
static void
ask(const struct store_operator *who, const char *sql, struct box_key key,
    struct arena *mem, review_fill_fn *fill, void *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(who, sql, out, done, arg);

	call.mem = mem;
	call.fill = fill;
	key_args(&call.args, key);
	review_call(who->db, &call);
}

static void
fill_box(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box *o = out;
	const int i = 0;

	o->tenant_slug = TEXT("tenant_slug");
	o->address = TEXT("address");
	o->alarm = TEXT("alarm");
	o->oversight = TEXT("oversight");
	o->display_name = TEXT("display_name");
	o->mode = INT("mode");
	o->held = INT("held");
	o->used_day = INT("used_day");
	o->used_month = INT("used_month");
	o->need = INT("need_approvals");
	o->limits =
	    (struct box_limits){ TEXT("plan"), INT("lim_hour"), INT("lim_day"),
		    INT("lim_month"), INT("lim_held"), I64("lim_bytes") };
	o->own_need = INT("own_approvals");
	o->tenant_need = INT("tenant_approvals");
	o->own_hold_s = INT("own_hold");
	o->tenant_hold_s = INT("tenant_hold");
	o->full_key_smtp = BOOL("smtp_wide");
	o->retry_uncertain = BOOL("may_duplicate");
	o->paused = BOOL("paused");
	o->suspended = BOOL("suspended");
	o->claimed = BOOL("claimed");
	o->one_click = BOOL("one_click");
	o->test = BOOL("test");
	o->created_us = TIME("created_at");
	o->claim_until_us = TIME("claim_until");
	o->reset_us = TIME("reset_at");
	o->may_tighten = BOOL("may_tighten");
	o->may_loosen = BOOL("may_loosen");
	o->may_admin = BOOL("may_admin");
}

void
box_get(const struct store_operator *who, struct box_key key, struct arena *mem,
    struct box *out, review_done_fn *done, void *arg)
{
	ask(who, "SELECT * FROM api.review_inbox_1($1,$2,$3)", key, mem,
	    fill_box, out, done, arg);
}

static void
fill_credentials(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box_credentials *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct box_credential){ I64("key_id"),
			CHAR("kind"), CHAR("scope"), TEXT("label"),
			TIME("created_at"), TIME("expires_at"),
			TIME("revoked_at"), TIME("last_used") };
}

void
box_credentials(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_credentials *out, review_done_fn *done,
    void *arg)
{
	ask(who, "SELECT * FROM api.review_credentials_1($1,$2,$3)", key, mem,
	    fill_credentials, out, done, arg);
}

static void
fill_allows(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box_allows *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct box_allow){ I64("rule_id"), TEXT("entry"),
			TEXT("reason"), TEXT("by_name"), INT("uses_left"),
			TIME("expires_at"), TIME("created_at") };
}

void
box_allows(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_allows *out, review_done_fn *done, void *arg)
{
	ask(who, "SELECT * FROM api.allows_1($1,$2,$3)", key, mem, fill_allows,
	    out, done, arg);
}

static void
fill_blocks(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box_blocks *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct box_block){ I64("entry_id"),
			I64("tenant_id"), I64("inbox_id"), CHAR("verdict"),
			TEXT("entry"), TEXT("reason"), TIME("expires_at"),
			TIME("created_at") };
}

void
box_blocks(const struct store_operator *who, struct box_key key,
    struct arena *mem, struct box_blocks *out, review_done_fn *done, void *arg)
{
	ask(who, "SELECT * FROM api.lists_1($1,$2,$3)", key, mem, fill_blocks,
	    out, done, arg);
}

static void
fill_plans(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box_plans *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i].limits =
		    (struct box_limits){ TEXT("plan"), INT("hour"), INT("day"),
			    INT("month"), INT("held"), I64("bytes") };
}

void
box_plans(const struct store_operator *who, int64_t tenant, struct arena *mem,
    struct box_plans *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.plans_1($1,NULL,$2)", out, done, arg);

	call.mem = mem;
	call.fill = fill_plans;
	pg_i64(&call.args, tenant);
	review_call(who->db, &call);
}

/* ---- changes */

void
box_mode_set(const struct store_operator *who, struct box_key key, int mode,
    const char *reason, struct review_answer *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.mode_set_1($1,$2,$3,$4,$5)", out, done, arg);

	key_args(&call.args, key);
	pg_i16(&call.args, mode);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}

void
box_suspend(const struct store_operator *who, struct box_key key,
    bool suspended, const char *reason, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.suspend_1($1,$2,$3,$4,$5)", out, done, arg);

	key_args(&call.args, key);
	pg_bool(&call.args, suspended);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}

/* What is no entry of a list stays as it is, for the database to refuse. */
static void
pg_entry(struct pg_args *args, const char *text)
{
	char entry[ADDRESS_MAX + 1];

	if (text != NULL && address_entry_canonical(entry, str_of(text)))
		pg_text(args, entry);
	else
		pg_text(args, text);
}

void
box_allow_add(const struct store_operator *who, struct box_key key,
    const char *entry, int uses, int days, const char *reason,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.allow_set_1($1,$2,$3,$4,$5,$6,$7)", out, done,
	    arg);

	key_args(&call.args, key);
	pg_entry(&call.args, entry);
	pg_i32(&call.args, uses);
	pg_i32(&call.args, days);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}

void
box_allow_end(const struct store_operator *who, int64_t rule,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.allow_end_1($1,$2)", out, done, arg);

	pg_i64(&call.args, rule);
	review_call(who->db, &call);
}

void
box_block_add(const struct store_operator *who, struct box_key key,
    const char *entry, int64_t until_us, const char *reason,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.list_set_1($1,$2,$3,$4,'b',$5,$6)", out, done,
	    arg);

	key_args(&call.args, key);
	pg_entry(&call.args, entry);
	if (until_us == 0)
		pg_null(&call.args);
	else
		pg_time(&call.args, until_us);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}

void
box_block_end(const struct store_operator *who, int64_t id, const char *reason,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.list_remove_1($1,$2,$3)", out, done, arg);

	pg_i64(&call.args, id);
	pg_text(&call.args, reason);
	review_call(who->db, &call);
}

static void
limit_arg(struct pg_args *a, int v)
{
	if (v < 0)
		pg_null(a);
	else
		pg_i32(a, v);
}

void
box_limits_set(const struct store_operator *who, struct box_key key,
    const struct box_limits *limits, struct review_answer *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.limits_set_1($1,NULL,$2,$3,$4,$5,$6,$7,$8,$9)",
	    out, done, arg);

	key_args(&call.args, key);
	pg_text(&call.args, limits->plan);
	limit_arg(&call.args, limits->hour);
	limit_arg(&call.args, limits->day);
	limit_arg(&call.args, limits->month);
	limit_arg(&call.args, limits->held);
	if (limits->bytes < 0)
		pg_null(&call.args);
	else
		pg_i64(&call.args, limits->bytes);
	review_call(who->db, &call);
}

static void
switch_arg(struct pg_args *a, int v)
{
	if (v < 0)
		pg_null(a);
	else
		pg_bool(a, v != 0);
}

void
box_own_set(const struct store_operator *who, struct box_key key,
    const struct box_own *own, struct review_answer *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.inbox_own_1($1,NULL,$2,$3,$4,$5,$6,$7,$8,$9)",
	    out, done, arg);

	key_args(&call.args, key);
	if (own->need < 0)
		pg_null(&call.args);
	else
		pg_i16(&call.args, own->need);
	limit_arg(&call.args, own->hold_s);
	pg_text(&call.args, own->overseer);
	switch_arg(&call.args, own->full_key_smtp);
	switch_arg(&call.args, own->retry_uncertain);
	switch_arg(&call.args, own->one_click);
	review_call(who->db, &call);
}

void
box_credential_end(const struct store_operator *who, int64_t tenant,
    int64_t key, struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.key_kill_1($1,NULL,$2,$3)", out, done, arg);

	pg_i64(&call.args, tenant);
	pg_i64(&call.args, key);
	review_call(who->db, &call);
}

static void
fill_made(void *out, struct arena *mem, const struct pg_result *res)
{
	struct box_made *o = out;

	(void)mem;
	if (pg_has(res, "inbox_id"))
		o->inbox = pg_get_i64(res, 0, "inbox_id");
	if (pg_has(res, "unreadable"))
		o->unreadable = pg_get_int(res, 0, "unreadable");
	o->claim_until_us = pg_get_time(res, 0, "claim_until");
}

void
box_create(const struct store_operator *who, int64_t tenant,
    const char *address, const char *plan, const char *display_name,
    const unsigned char claim_sha256[32], struct box_made *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.inbox_create_1($1,NULL,$2,$3,$4,$5,$6)", out,
	    done, arg);

	call.fill = fill_made;
	pg_i64(&call.args, tenant);
	pg_text(&call.args, address);
	pg_text(&call.args, plan);
	pg_text(&call.args, display_name);
	pg_bytes(&call.args, claim_sha256, 32);
	review_call(who->db, &call);
}

void
box_reset(const struct store_operator *who, struct box_key key,
    const unsigned char claim_sha256[32], struct box_made *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.inbox_reset_1($1,NULL,$2,$3,$4)", out, done,
	    arg);

	call.fill = fill_made;
	key_args(&call.args, key);
	pg_bytes(&call.args, claim_sha256, 32);
	review_call(who->db, &call);
}
