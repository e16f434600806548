/* SPDX-License-Identifier: ISC */
#include "store/watch.h"

#include "base/arena.h"
#include "store/review_call.h"

#define TEXT(col) review_text(mem, res, i, col)
#define I64(col) pg_get_i64(res, i, col)
#define TIME(col) pg_get_time(res, i, col)

static void
fill_audit(void *out, struct arena *mem, const struct pg_result *res)
{
	struct watch_rows *o = out;
	int i, n = pg_rows(res);

	/* Without an event: only where the search stopped. */
	if (n > 0 && pg_is_null(res, n - 1, "event")) {
		i = --n;
		o->stopped = TEXT("key");
	}
	o->n = (size_t)n;
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < n; i++)
		o->row[i] = (struct watch_row){
			.key = TEXT("key"),
			.actor = TEXT("actor"),
			.by_name = TEXT("by_name"),
			.tenant_slug = TEXT("tenant_slug"),
			.event = TEXT("event"),
			.detail = TEXT("detail"),
			.at_us = TIME("at"),
			.has_message = !pg_is_null(res, i, "message_id"),
			.sealed = pg_get_bool(res, i, "sealed"),
			.message = pg_get_uuid(res, i, "message_id"),
		};
}

void
watch_audit(const struct store_operator *who, const struct watch_query *query,
    struct arena *mem, struct watch_rows *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "SELECT * FROM api.review_audit_1($1,$2,$3,$4,$5,$6,$7)", out, done,
	    arg);

	call.mem = mem;
	call.fill = fill_audit;
	review_id_arg(&call.args, query->tenant);
	pg_text(&call.args, query->who);
	pg_text(&call.args, query->what);
	pg_uuid(&call.args, query->message);
	pg_text(&call.args, query->before);
	pg_i32(&call.args, query->limit);
	review_call(who->db, &call);
}

static void
fill_health(void *out, struct arena *mem, const struct pg_result *res)
{
	struct watch_facts *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct watch_fact){ TEXT("what"), TEXT("label"),
			TIME("at"), I64("n"), I64("m"), I64("x"),
			!pg_is_null(res, i, "n") };
}

void
watch_health(const struct store_operator *who, int64_t tenant,
    struct arena *mem, struct watch_facts *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "SELECT * FROM api.review_health_1($1,$2)", out, done, arg);

	call.mem = mem;
	call.fill = fill_health;
	review_id_arg(&call.args, tenant);
	review_call(who->db, &call);
}
