/* SPDX-License-Identifier: ISC */
/*
 * job.c - calls for jobs
 */
#include "store/job.h"

#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

#define RISK_MAX 100

#define TEXT(col) review_text(mem, res, i, col)
#define INT(col) pg_get_int(res, i, col)
#define I64(col) pg_get_i64(res, i, col)
#define TIME(col) pg_get_time(res, i, col)

static void
copy_bytes(
    void *to, size_t n, const struct pg_result *res, int row, const char *col)
{
	struct str s = pg_get_bytes(res, row, col);

	if (s.n == n)
		memcpy(to, s.p, n);
}

static struct str
keep_bytes(struct arena *mem, struct str s)
{
	return (struct str){ arena_str(mem, s), s.n };
}

static void
fill_made(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_made *o = out;

	(void)mem;
	o->items = pg_get_int(res, 0, "items");
	o->refused = pg_get_int(res, 0, "refused");
	o->more = pg_get_bool(res, 0, "more");
}

void
job_make(const struct store_operator *who, const struct job_request *request,
    struct job_made *out, review_done_fn *done, void *arg)
{
	const char verdict[] = { request->verdict, '\0' };
	struct review_call call = review_begin(who,
	    "select * from api.job_make_1($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)", out,
	    done, arg);
	size_t i;

	call.fill = fill_made;
	pg_uuid(&call.args, &request->job);
	pg_text(&call.args, verdict);
	review_id_arg(&call.args, request->tenant);
	review_id_arg(&call.args, request->inbox);
	pg_text(&call.args, request->search);
	if (request->ids_n == 0) {
		pg_null(&call.args);
	} else {
		pg_array_begin(&call.args, PG_ELEM_UUID);
		for (i = 0; i < request->ids_n; i++)
			pg_item_uuid(&call.args, &request->ids[i]);
		pg_array_end(&call.args);
	}
	pg_text(&call.args, request->about);
	pg_i32(&call.args, request->risk_from);
	pg_i32(&call.args, request->risk_to > 0 ? request->risk_to : RISK_MAX);
	review_call(who->db, &call);
}

static void
fill_confirmed(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_confirmed *o = out;

	(void)mem;
	o->verdict = *pg_get_text(res, 0, "verdict");
}

void
job_confirm(const struct store_operator *who, const struct uuid *job,
    const unsigned char items[32], const char *category, const char *note,
    const char *hint, struct job_confirmed *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(who,
	    "select * from api.job_confirm_1($1,$2,$3,$4,$5,$6)", out, done,
	    arg);

	call.fill = fill_confirmed;
	pg_uuid(&call.args, job);
	pg_bytes(&call.args, items, 32);
	pg_text(&call.args, category);
	pg_text(&call.args, note);
	pg_text(&call.args, hint);
	review_call(who->db, &call);
}

static void
fill_undone(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_undone *o = out;

	(void)mem;
	o->remaining = pg_get_int(res, 0, "remaining");
	o->back = pg_get_int(res, 0, "back");
}

void
job_undo(const struct store_operator *who, const struct uuid *job, int limit,
    struct job_undone *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.job_undo_1($1,$2,$3)", out, done, arg);

	call.fill = fill_undone;
	pg_uuid(&call.args, job);
	pg_i32(&call.args, limit);
	review_call(who->db, &call);
}

void
job_stop(const struct store_operator *who, const struct uuid *job,
    enum job_state to, struct review_answer *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.job_stop_1($1,$2,$3)", out, done, arg);

	pg_uuid(&call.args, job);
	pg_i16(&call.args, (int)to);
	review_call(who->db, &call);
}

static void
fill_step(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_step *o = out;

	(void)mem;
	o->state = (enum job_state)pg_get_int(res, 0, "state");
	o->remaining = pg_get_int(res, 0, "remaining");
}

void
job_reject(const struct store_operator *who, const struct uuid *job, int limit,
    struct job_step *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.job_reject_1($1,$2,$3)", out, done, arg);

	call.fill = fill_step;
	pg_uuid(&call.args, job);
	pg_i32(&call.args, limit);
	review_call(who->db, &call);
}

static void
fill_next(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_next *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++) {
		struct job_next_item *n = &o->row[i];
		struct review_keys *k = &n->keys;

		n->ix = INT("ix");
		n->message = pg_get_uuid(res, i, "message_id");
		n->not_after = I64("not_after");
		copy_bytes(k->deployment, 16, res, i, "deployment");
		copy_bytes(k->digest, 32, res, i, "digest");
		copy_bytes(k->tenant_pub, 32, res, i, "tenant_pub");
		k->tenant_box =
		    keep_bytes(mem, pg_get_bytes(res, i, "tenant_box"));
		k->tenant_priv =
		    keep_bytes(mem, pg_get_bytes(res, i, "tenant_priv"));
		k->epoch = INT("epoch");
		k->version = INT("version");
		k->round = INT("round");
		k->tenant_epoch = INT("tenant_epoch");
		k->tenant = I64("tenant_id");
		k->inbox = I64("inbox_id");
		k->now_us = TIME("now");
	}
}

void
job_next(const struct store_operator *who, const struct uuid *job, int limit,
    struct arena *mem, struct job_next *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.job_next_1($1,$2,$3)", out, done, arg);

	call.mem = mem;
	call.fill = fill_next;
	pg_uuid(&call.args, job);
	pg_i32(&call.args, limit);
	review_call(who->db, &call);
}

void
job_approve(const struct store_operator *who, const struct uuid *job,
    const struct job_release *release, struct job_step *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(who,
	    "select * from api.job_approve_1($1,$2,$3,$4,$5,$6,$7,$8)", out,
	    done, arg);

	call.fill = fill_step;
	pg_uuid(&call.args, job);
	pg_i32(&call.args, release->ix);
	pg_bytes(&call.args, release->relay_box.p, release->relay_box.n);
	pg_bytes(&call.args, release->tag.p, release->tag.n);
	pg_i64(&call.args, release->expiry_us);
	pg_i32(&call.args, release->undo_s);
	pg_text(&call.args, release->failed);
	review_call(who->db, &call);
}

static void
fill_jobs(void *out, struct arena *mem, const struct pg_result *res)
{
	struct jobs *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++) {
		struct job *j = &o->row[i];

		j->id = pg_get_uuid(res, i, "job_id");
		j->verdict = *pg_get_text(res, i, "verdict");
		j->state = (enum job_state)INT("state");
		j->about = TEXT("about");
		j->category = TEXT("category");
		j->note = TEXT("note");
		j->hint = TEXT("hint");
		j->items = INT("items");
		j->done = INT("done");
		j->failed = INT("failed");
		j->refused = INT("refused");
		j->undone = INT("undone");
		j->undo_left =
		    pg_is_null(res, i, "undo_ix") ? -1 : INT("undo_ix") - 1;
		copy_bytes(j->items_sha256, 32, res, i, "items_sha256");
		j->made_us = TIME("made_at");
		j->confirmed_us = TIME("confirmed_at");
		j->moved_us = TIME("moved_at");
		j->ended_us = TIME("ended_at");
		j->now_us = TIME("now");
		j->more = pg_get_bool(res, i, "more");
	}
}

void
job_list(const struct store_operator *who, const struct uuid *job,
    struct arena *mem, struct jobs *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.jobs_1($1,$2)", out, done, arg);

	call.mem = mem;
	call.fill = fill_jobs;
	if (job != NULL)
		pg_uuid(&call.args, job);
	else
		pg_null(&call.args);
	review_call(who->db, &call);
}

static void
fill_items(void *out, struct arena *mem, const struct pg_result *res)
{
	struct job_items *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct job_item){
			.ix = INT("ix"),
			.risk = INT("risk"),
			.message = pg_get_uuid(res, i, "message_id"),
			.address = TEXT("address"),
			.rcpts = TEXT("rcpts"),
			.subject = TEXT("subject"),
			.outcome = TEXT("outcome"),
		};
}

void
job_items(const struct store_operator *who, const struct uuid *job,
    bool problems, int after, struct arena *mem, struct job_items *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.job_items_1($1,$2,$3,$4)", out, done, arg);

	call.mem = mem;
	call.fill = fill_items;
	pg_uuid(&call.args, job);
	pg_bool(&call.args, problems);
	pg_i32(&call.args, after);
	review_call(who->db, &call);
}
