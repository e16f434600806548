/* SPDX-License-Identifier: ISC */
/*
 * together.c - calls for what several people see at once
 */
#include "store/together.h"

#include <string.h>

#include "base/arena.h"
#include "store/review_call.h"

static void
fill_look(void *out, struct arena *mem, const struct pg_result *res)
{
	struct look *o = out;

	o->who = review_text(mem, res, 0, "who");
	o->mine = pg_get_bool(res, 0, "mine");
}

void
look_begin(const struct store_operator *who, const struct uuid *message,
    bool take, struct arena *mem, struct look *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.look_1($1,$2,$3)", out, done, arg);

	call.mem = mem;
	call.fill = fill_look;
	pg_uuid(&call.args, message);
	pg_bool(&call.args, take);
	review_call(who->db, &call);
}

void
look_end(const struct store_operator *who, const struct uuid *message,
    struct review_answer *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.look_end_1($1,$2)", out, done, arg);

	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

static void
fill_comments(void *out, struct arena *mem, const struct pg_result *res)
{
	struct comments *o = out;
	int i;

	o->n = (size_t)pg_rows(res);
	o->row = arena_array(mem, o->n, sizeof(*o->row));
	for (i = 0; i < pg_rows(res); i++)
		o->row[i] = (struct comment){
			.who = review_text(mem, res, i, "who"),
			.text = review_text(mem, res, i, "text"),
			.at_us = pg_get_time(res, i, "at"),
		};
}

void
comment_list(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct comments *out, review_done_fn *done, void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.comments_1($1,$2)", out, done, arg);

	call.mem = mem;
	call.fill = fill_comments;
	pg_uuid(&call.args, message);
	review_call(who->db, &call);
}

void
comment_add(const struct store_operator *who, const struct uuid *message,
    const char *text, struct review_answer *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.comment_1($1,$2,$3)", out, done, arg);

	pg_uuid(&call.args, message);
	pg_text(&call.args, text);
	review_call(who->db, &call);
}

static void
fill_live(void *out, struct arena *mem, const struct pg_result *res)
{
	struct live *o = out;
	size_t n = (size_t)pg_rows(res);
	int i;

	o->fresh = arena_array(mem, n, sizeof(*o->fresh));
	o->look = arena_array(mem, n, sizeof(*o->look));
	for (i = 0; i < pg_rows(res); i++) {
		const char *what = pg_get_text(res, i, "what");

		if (strcmp(what, "held") == 0)
			o->held = pg_get_int(res, i, "n");
		else if (strcmp(what, "new") == 0)
			o->fresh[o->fresh_n++] = pg_get_uuid(res, i, "id");
		else
			o->look[o->look_n++] = (struct live_look){
				pg_get_uuid(res, i, "id"),
				review_text(mem, res, i, "who"),
			};
	}
}

void
live_ask(const struct store_operator *who, const struct uuid *after,
    int64_t tenant, struct arena *mem, struct live *out, review_done_fn *done,
    void *arg)
{
	struct review_call call = review_begin(
	    who, "select * from api.live_1($1,$2,$3)", out, done, arg);

	call.mem = mem;
	call.fill = fill_live;
	if (after != NULL)
		pg_uuid(&call.args, after);
	else
		pg_null(&call.args);
	review_id_arg(&call.args, tenant);
	review_call(who->db, &call);
}
