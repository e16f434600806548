/* SPDX-License-Identifier: ISC */
/*
 * review_risk.c - what opening a message asks and tells: whom its inbox
 * reached before, and that its risk is higher than it was thought to be.
 */
#include "store/review.h"

#include "base/arena.h"
#include "store/review_call.h"

static void
fill_known(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_known *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct review_knows){
			.ix = (int)pg_get_i64(res, i, "ix"),
			.by_inbox = pg_get_bool(res, i, "by_inbox"),
			.by_any = pg_get_bool(res, i, "by_any"),
		};
}

void
review_known(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_known *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_known_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_known,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_volume(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_volume *o = out;

	(void)mem;
	o->recent = pg_get_i64(res, 0, "recent");
	o->past = pg_get_i64(res, 0, "past");
	o->hours = pg_get_i64(res, 0, "hours");
}

void
review_volume(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct review_volume *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_volume_1($1,$2)",
		.mem = mem,
		.out = out,
		.fill = fill_volume,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_risk(void *out, struct arena *mem, const struct pg_result *res)
{
	struct review_risk *o = out;

	o->risk = (int)pg_get_i64(res, 0, "risk");
	o->may_decide = pg_get_bool(res, 0, "may_decide");
	o->may_why = review_text(mem, res, 0, "may_why");
}

void
review_risk(const struct store_operator *who, const struct uuid *message,
    int version, int risk, struct arena *mem, struct review_risk *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_risk_1($1,$2,$3,$4)",
		.mem = mem,
		.out = out,
		.fill = fill_risk,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_i16(&call.args, version);
	pg_i16(&call.args, risk);
	review_call(who->db, &call);
}
