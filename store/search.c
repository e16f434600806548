/* SPDX-License-Identifier: ISC */
/*
 * search.c - keeping the words that operators search by
 *
 * No submission waits for an index of words: postern-admin reads the audit
 * log behind it, as the seal does, twice a second. No search waits for that:
 * what was held just now is found a moment later.
 */
#include "store/search.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/review_call.h"

#define EACH_MS 500
#define MORE_MS 10
#define ROWS 1000

struct search_filler {
	struct review_db *db;
	struct loop_timer *timer;
	struct search_filled filled;
};

static void
fill_filled(void *out, struct arena *mem, const struct pg_result *res)
{
	struct search_filled *o = out;

	(void)mem;
	o->n = pg_get_int(res, 0, "n");
	o->more = pg_get_bool(res, 0, "more");
}

void
search_fill(struct review_db *db, int limit, struct search_filled *out,
    review_done_fn *done, void *arg)
{
	struct review_call call = {
		.sql = "select * from api.search_fill_1($1)",
		.out = out,
		.fill = fill_filled,
		.done = done,
		.arg = arg,
	};

	pg_i32(&call.args, limit);
	review_call(db, &call);
}

static void
on_filled(void *arg)
{
	struct search_filler *f = arg;

	loop_timer_set(f->timer,
	    f->filled.is.status < 300 && f->filled.more ? MORE_MS : EACH_MS);
}

static void
on_timer(void *arg)
{
	struct search_filler *f = arg;

	f->filled = (struct search_filled){ 0 };
	if (review_db_ready(f->db))
		search_fill(f->db, ROWS, &f->filled, on_filled, f);
	else
		loop_timer_set(f->timer, EACH_MS);
}

struct search_filler *
search_filler_new(struct loop *loop, struct review_db *db)
{
	struct search_filler *f = xcalloc(1, sizeof(*f));

	f->db = db;
	f->timer = loop_timer_new(loop, on_timer, f);
	loop_timer_set(f->timer, EACH_MS);
	return f;
}

void
search_filler_free(struct search_filler *f)
{
	if (f == NULL)
		return;
	loop_timer_free(f->timer);
	free(f);
}
