/* SPDX-License-Identifier: ISC */
/* follow.c - see follow.h. */
#include "store/follow.h"

#include <stdlib.h>

#include "base/loop.h"
#include "base/xalloc.h"
#include "store/store_internal.h"

#define INTERVAL_MS 1000
#define BATCH 100

struct store_follow {
	const struct store_cred *cred;
	struct store *st;
	struct loop_timer *timer;
	struct pg_req *req;
	struct store_place place;
	struct uuid only;
	bool has_place, has_only, told, paused;
	store_follow_fn *fn;
	void *arg;
	bool *ended; /* set by an end from inside `fn` */
};

static void
look_again(struct store_follow *f, bool soon)
{
	uint64_t ms = (uint64_t)f->st->follows * 1000 / FOLLOW_RATE;

	if (f->paused)
		return;
	loop_timer_set(f->timer, soon               ? 1
				 : ms > INTERVAL_MS ? ms
						    : INTERVAL_MS);
}

static void
read_event(struct store_happening *e, const struct pg_result *res, int i)
{
	*e = (struct store_happening){
		.message = pg_get_uuid(res, i, "message_id"),
		.n = pg_get_int(res, i, "n"),
		.type = pg_get_text(res, i, "type"),
		.at = pg_get_time(res, i, "at"),
		.actor = pg_get_text(res, i, "actor"),
		.state = pg_get_int(res, i, "state"),
		.detail = pg_get_text(res, i, "detail"),
	};
	e->place = (struct store_place){ pg_get_i64(res, i, "xid"), e->at,
		e->message, e->n };
}

/* The last row is the place behind all; the others are events. */
static void
tell(struct store_follow *f, const struct pg_result *res)
{
	struct store_happening e[BATCH];
	int i, n = pg_rows(res) - 1;
	bool ended = false;

	for (i = 0; i < n; i++)
		read_event(&e[i], res, i);
	/* A full batch: there may be more before that place. */
	if (n == BATCH)
		f->place = e[n - 1].place;
	else
		f->place = (struct store_place){ pg_get_i64(res, n, "xid"),
			pg_get_time(res, n, "at"), { { 0 } }, 0 };
	f->has_place = true;
	if (n > 0 || !f->told) {
		f->told = true;
		f->ended = &ended;
		f->fn(f->arg, E_NONE, e, (size_t)n, &f->place);
		if (ended)
			return;
		f->ended = NULL;
	}
	look_again(f, n == BATCH);
}

static void
on_answer(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct store_follow *f = arg;
	enum err_code code = store_row_code(err, res);

	f->req = NULL;
	if (code == E_NONE && pg_rows(res) <= BATCH + 1)
		tell(f, res);
	else if (code == E_UNKNOWN_API_KEY || code == E_NOT_FOUND)
		f->fn(f->arg, code, NULL, 0, &f->place);
	else
		look_again(f, false);
}

static void
ask(void *arg)
{
	struct store_follow *f = arg;
	struct pg_args args = { 0 };

	if (f->req != NULL)
		return;
	if (!store_cred_alive(f->cred)) {
		f->fn(f->arg, E_UNKNOWN_API_KEY, NULL, 0, &f->place);
		return;
	}
	store_cred_args(&args, f->cred);
	if (f->has_place) {
		pg_i64(&args, f->place.xid);
		pg_time(&args, f->place.at);
		pg_uuid(&args, &f->place.message);
		pg_i32(&args, f->place.n);
	} else {
		pg_null(&args);
		pg_null(&args);
		pg_null(&args);
		pg_null(&args);
	}
	pg_uuid(&args, f->has_only ? &f->only : NULL);
	pg_i32(&args, BATCH);
	f->req = pg_call_move(f->st->pool,
	    "select * from api.my_stream_1($1,$2,$3,$4,$5,$6,$7,$8,$9)", &args,
	    on_answer, f);
}

struct store_follow *
store_follow(const struct store_cred *cred, const struct store_place *from,
    const struct uuid *only, store_follow_fn *fn, void *arg)
{
	struct store_follow *f = xcalloc(1, sizeof(*f));

	f->cred = cred;
	f->st = cred->store;
	f->fn = fn;
	f->arg = arg;
	if (from != NULL) {
		f->place = *from;
		f->has_place = true;
	}
	if (only != NULL) {
		f->only = *only;
		f->has_only = true;
	}
	f->st->follows++;
	f->timer = loop_timer_new(f->st->loop, ask, f);
	loop_timer_set(f->timer, 1);
	return f;
}

void
store_follow_pause(struct store_follow *f, bool pause)
{
	if (f->paused == pause)
		return;
	f->paused = pause;
	if (pause)
		loop_timer_stop(f->timer);
	else if (f->req == NULL)
		look_again(f, true);
}

void
store_follow_end(struct store_follow *f)
{
	if (f == NULL)
		return;
	if (f->ended != NULL)
		*f->ended = true;
	pg_cancel(f->req);
	loop_timer_free(f->timer);
	f->st->follows--;
	free(f);
}
