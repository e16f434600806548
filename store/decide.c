/* SPDX-License-Identifier: ISC */
/*
 * decide.c - decisions and their undo
 */
#include "store/decide.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "store/review_call.h"

struct deciding {
	struct store_operator who;
	struct decide_request request; /* its strings are the caller's */
	struct decide_answer *out;
	review_done_fn *done;
	void *arg;
	bool repeated;
};

static void on_decided(void *arg);

static void
fill_decide(void *out, struct arena *mem, const struct pg_result *res)
{
	struct decide_answer *o = out;

	(void)mem;
	o->state = pg_get_int(res, 0, "state");
	o->version = pg_get_int(res, 0, "version");
	o->round = pg_get_int(res, 0, "round");
	o->approvals = pg_get_int(res, 0, "approvals");
	o->need = pg_get_int(res, 0, "need");
	o->undo_until_us = pg_get_time(res, 0, "undo_until");
	o->replay = pg_get_bool(res, 0, "replay");
}

static void
send_decide(struct deciding *d)
{
	const struct decide_request *r = &d->request;
	const char verdict[] = { r->verdict, '\0' };
	struct review_call call = {
		.sql = "select * from api.decide_1($1,$2,$3,$4,$5,$6,$7,$8,"
		       "$9,$10,$11,$12,$13,$14,$15,$16,$17)",
		.out = d->out,
		.fill = fill_decide,
		.fill_always = true,
		.done = on_decided,
		.arg = d,
	};
	struct pg_args *a = &call.args;

	review_session_arg(a, &d->who);
	pg_uuid(a, &r->message);
	pg_i16(a, r->version);
	pg_i16(a, r->round);
	pg_bytes(a, r->digest, sizeof(r->digest));
	pg_text(a, verdict);
	pg_bytes(a, r->once, sizeof(r->once));
	pg_text(a, r->category);
	pg_text(a, r->note);
	pg_text(a, r->hint);
	pg_i32(a, r->seconds);
	pg_text(a, "page");
	pg_bytes(a, r->relay_box.p, r->relay_box.n);
	pg_bytes(a, r->tag.p, r->tag.n);
	if (r->expiry_us != 0)
		pg_i64(a, r->expiry_us);
	else
		pg_null(a);
	pg_i32(a, r->undo_s);
	pg_null(a);
	review_call(d->who.db, &call);
}

static void
on_decided(void *arg)
{
	struct deciding *d = arg;

	if (d->out->is.lost && !d->repeated) {
		d->repeated = true;
		memset(d->out, 0, sizeof(*d->out));
		send_decide(d);
		return;
	}
	secret_wipe(&d->who.session);
	d->done(d->arg);
	free(d);
}

void
decide(const struct store_operator *who, const struct decide_request *request,
    struct decide_answer *out, review_done_fn *done, void *arg)
{
	struct deciding *d = xcalloc(1, sizeof(*d));

	d->who = *who;
	d->request = *request;
	d->out = out;
	d->done = done;
	d->arg = arg;
	send_decide(d);
}

static void
fill_undo(void *out, struct arena *mem, const struct pg_result *res)
{
	struct undo_answer *o = out;

	(void)mem;
	o->state = pg_get_int(res, 0, "state");
	o->version = pg_get_int(res, 0, "version");
	o->round = pg_get_int(res, 0, "round");
}

void
decide_undo(const struct store_operator *who, const struct uuid *message,
    int version, int round, struct undo_answer *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = {
		.sql = "select * from api.undo_1($1,$2,$3,$4)",
		.out = out,
		.fill = fill_undo,
		.fill_always = true,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_i16(&call.args, version);
	pg_i16(&call.args, round);
	review_call(who->db, &call);
}

static void
fill_moved(void *out, struct arena *mem, const struct pg_result *res)
{
	struct moved_answer *o = out;

	(void)mem;
	o->state = pg_get_int(res, 0, "state");
}

void
decide_cancel(const struct store_operator *who, const struct uuid *message,
    const char *note, struct moved_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.review_cancel_1($1,$2,$3)",
		.out = out,
		.fill = fill_moved,
		.fill_always = true,
		.done = done,
		.arg = arg,
	};

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_text(&call.args, note);
	review_call(who->db, &call);
}

void
decide_settle(const struct store_operator *who, const struct uuid *message,
    const int *ix, size_t n, const char *outcome, const char *note,
    struct moved_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.uncertain_1($1,$2,$3,$4,$5)",
		.out = out,
		.fill = fill_moved,
		.fill_always = true,
		.done = done,
		.arg = arg,
	};
	size_t i;

	review_session_arg(&call.args, who);
	pg_uuid(&call.args, message);
	pg_array_begin(&call.args, PG_ELEM_I32);
	for (i = 0; i < n; i++)
		pg_item_i32(&call.args, ix[i]);
	pg_array_end(&call.args);
	pg_text(&call.args, outcome);
	pg_text(&call.args, note);
	review_call(who->db, &call);
}
