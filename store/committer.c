/* SPDX-License-Identifier: ISC */
/*
 * committer.c - the loop of D29, and what happens when it breaks.
 *
 * A row is in one place at a time: the queue, a batch, or alone. The way out
 * of every failure leads to an outcome that is true:
 *
 *	batch rejected  -> each row alone
 *	alone rejected  -> 23505: it was stored after all, look up;
 *	                   "try again" classes: once more; else the code
 *	lost            -> look up by id: there = stored; not there = alone
 *	not sent        -> store_unavailable, nothing happened
 *
 * A lost backend may still be committing while we look. The row sent again
 * then waits for it on the unique id and fails with 23505.
 */
#include "store/committer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "store/commit_row.h"
#include "store/pg.h"

#define BATCH_ROWS 64
/* So much is written before the next batch, which may be small mail's. */
#define BATCH_BYTES (2 * 1024 * 1024)
/* A batch costs much and a row in it little. For this many rows at least one
 * begins beside that under way, to compute while the other's commit is
 * written; for that many one is sent behind, so that the server has it when it
 * is done. Of many rows it waits for half (0097). */
#define BESIDE_ROWS 8
#define AHEAD_ROWS 10
/* Larger bodies would make small mail wait: they go alone (0032). */
#define BATCH_BODY_MAX (128 * 1024 + 256)
#define LANE_BATCHES 2
#define RECOVER_MS 10000
#define TRIES 4
#define SLOW_MS 2000

TAILQ_HEAD(commits, commit);

struct commit {
	TAILQ_ENTRY(commit) link;
	struct committer *c;
	struct commit_row row;
	commit_fn *done;
	void *arg;
	unsigned tries;
};

struct batch {
	struct committer *c;
	struct lane *lane;
	struct commits rows;
	size_t count;
	uint64_t began;
};

/* One connection, whose batches run one after the other. */
struct lane {
	struct pg_pool *pool;
	struct batch *under_way[LANE_BATCHES]; /* in no order; or NULL */
	unsigned inflight;
};

struct committer {
	struct loop *loop;
	struct lane lane[COMMIT_LANES];
	struct pg_pool *single;
	struct commits queue;
	unsigned pending, queued;
	bool woken;
};

static void send_batches(struct committer *c);
static void on_woken(void *arg);
static void send_alone(struct commit *m);
static void look_up(struct commit *m);

struct committer *
committer_new(struct loop *loop, struct pg_pool *const lane[COMMIT_LANES],
    struct pg_pool *single)
{
	struct committer *c = xcalloc(1, sizeof(*c));
	size_t i;

	c->loop = loop;
	for (i = 0; i < COMMIT_LANES; i++)
		c->lane[i].pool = lane[i];
	c->single = single;
	TAILQ_INIT(&c->queue);
	return c;
}

/* The pools are freed first, so nothing of ours is called any more; rows in
 * flight stay allocated with them at the end of the process. */
void
committer_free(struct committer *c)
{
	struct commit *m;

	if (c == NULL)
		return;
	loop_undefer(c->loop, on_woken, c);
	while ((m = TAILQ_FIRST(&c->queue)) != NULL) {
		TAILQ_REMOVE(&c->queue, m, link);
		free(m);
	}
	free(c);
}

unsigned
committer_pending(const struct committer *c)
{
	return c->pending;
}

static void
wake(struct committer *c)
{
	if (c->woken)
		return;
	c->woken = true;
	loop_defer(c->loop, on_woken, c);
}

void
committer_add(struct committer *c, const struct commit_row *row,
    commit_fn *done, void *arg)
{
	struct commit *m = xcalloc(1, sizeof(*m));

	m->c = c;
	m->row = *row;
	m->done = done;
	m->arg = arg;
	c->pending++;
	if (row->body.n > BATCH_BODY_MAX) {
		send_alone(m);
		return;
	}
	TAILQ_INSERT_TAIL(&c->queue, m, link);
	c->queued++;
	wake(c);
}

static void
end(struct commit *m, const struct commit_result *result)
{
	m->c->pending--;
	m->done(m->arg, result);
	free(m);
}

static void
end_code(struct commit *m, enum err_code code)
{
	struct commit_result r = { .code = code };

	end(m, &r);
}

static int
compare(const void *a, const void *b)
{
	const struct commit_row *x = *(const struct commit_row *const *)a;
	const struct commit_row *y = *(const struct commit_row *const *)b;

	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	if (x->inbox != y->inbox)
		return x->inbox < y->inbox ? -1 : 1;
	return uuid_cmp(&x->message, &y->message);
}

/* One answer a row, in the order of the rows: else no answer is believed. */
static bool
is_whole(const struct batch *b, const struct pg_result *res)
{
	int i;

	if (pg_rows(res) != (int)b->count)
		return false;
	for (i = 0; i < pg_rows(res); i++)
		if (pg_get_int(res, i, "ord") != i + 1)
			return false;
	return true;
}

/*
 * Everything failed together: tell which row it is by sending each alone.
 * Alone is also how rows of a lost batch are sent again.
 */
static void
on_batch(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct batch *b = arg;
	struct committer *c = b->c;
	struct commit_result result;
	struct commit *m;
	uint64_t ms = clock_mono_ms() - b->began;
	size_t slot;
	int ix = 0;

	b->lane->inflight--;
	for (slot = 0; b->lane->under_way[slot] != b; slot++)
		;
	b->lane->under_way[slot] = NULL;
	send_batches(c); /* first: the server waits, our answers do not */
	metrics_observe(M_COMMIT_BATCH_ROWS, (int64_t)b->count);
	/* Rows that were stored all the same answer as replays of their id. */
	if (err == PG_REJECTED || (err == PG_OK && !is_whole(b, res))) {
		log_warn("store.retry_rows", KV("rows", b->count),
		    KV("code", pg_sqlstate(res)), KV("why", pg_message(res)));
		err = PG_REJECTED;
	}
	if (ms > SLOW_MS)
		log_warn("store.slow", KV("ms", ms), KV("rows", b->count));
	while ((m = TAILQ_FIRST(&b->rows)) != NULL) {
		TAILQ_REMOVE(&b->rows, m, link);
		switch (err) {
		case PG_OK:
			commit_row_result(&result, res, ix++);
			end(m, &result);
			break;
		case PG_REJECTED:
			send_alone(m);
			break;
		case PG_UNSENT:
			end_code(m, E_STORE_UNAVAILABLE);
			break;
		case PG_LOST:
			look_up(m);
			break;
		}
	}
	free(b);
}

/* Has a batch on `lane` a row of the same inbox, and so that inbox's lock? */
static bool
is_locked(const struct lane *lane, const struct commit_row *row)
{
	const struct commit *m;
	size_t i;

	for (i = 0; i < LANE_BATCHES; i++) {
		if (lane->under_way[i] == NULL)
			continue;
		TAILQ_FOREACH(m, &lane->under_way[i]->rows, link)
			if (m->row.inbox == row->inbox &&
			    m->row.tenant == row->tenant)
				return true;
	}
	return false;
}

static const struct lane *
other_lane(const struct committer *c, const struct lane *lane)
{
	return &c->lane[lane == &c->lane[0] ? 1 : 0];
}

/* Does `lane` find `count` rows whose inboxes the other has not locked? */
static bool
has_rows(const struct committer *c, const struct lane *lane, unsigned count)
{
	const struct lane *other = other_lane(c, lane);
	const struct commit *m;
	unsigned n = 0;

	if (c->queued < count)
		return false;
	TAILQ_FOREACH(m, &c->queue, link)
		if (!is_locked(other, &m->row) && ++n == count)
			return true;
	return false;
}

/* Rows of inboxes that the other lane has locked wait for their turn. */
static struct batch *
take_batch(struct committer *c, struct lane *lane,
    const struct commit_row **row, struct commit **by_row)
{
	const struct lane *other = other_lane(c, lane);
	struct batch *b = xcalloc(1, sizeof(*b));
	struct commit *m, *next;
	size_t bytes = 0, i;

	b->c = c;
	b->lane = lane;
	b->began = clock_mono_ms();
	TAILQ_INIT(&b->rows);
	for (m = TAILQ_FIRST(&c->queue); m != NULL && b->count < BATCH_ROWS;
	     m = next) {
		next = TAILQ_NEXT(m, link);
		if (is_locked(other, &m->row))
			continue;
		bytes += commit_row_size(&m->row);
		if (bytes > BATCH_BYTES && b->count > 0)
			break;
		TAILQ_REMOVE(&c->queue, m, link);
		c->queued--;
		row[b->count++] = &m->row;
	}
	/* One order for everybody, so that no two batches wait in a ring. */
	qsort(row, b->count, sizeof(*row), compare);
	for (i = 0; i < b->count; i++) {
		by_row[i] = (struct commit *)((uintptr_t)row[i] -
					      offsetof(struct commit, row));
		TAILQ_INSERT_TAIL(&b->rows, by_row[i], link);
	}
	return b;
}

/*
 * For how many rows a further batch is worth it: half of all that are here, so
 * that two of a size alternate, and what a batch costs is spread over many.
 */
static unsigned
worth(const struct committer *c, unsigned least)
{
	unsigned half = c->pending / 2;

	return half < least ? least : half > BATCH_ROWS ? BATCH_ROWS : half;
}

/* Which lane takes a batch now, if any. */
static struct lane *
next_lane(struct committer *c)
{
	struct lane *first = &c->lane[0], *second = &c->lane[1];
	struct lane *idle = first->inflight == 0 ? first : second;
	unsigned beside = worth(c, BESIDE_ROWS), ahead = worth(c, AHEAD_ROWS);

	if (c->queued == 0)
		return NULL;
	if (first->inflight + second->inflight == 0)
		return first;
	if (idle->inflight == 0)
		return has_rows(c, idle, beside) ? idle : NULL;
	if (first->inflight == 1 && has_rows(c, first, ahead))
		return first;
	if (second->inflight == 1 && has_rows(c, second, ahead))
		return second;
	return NULL;
}

static void
send_batches(struct committer *c)
{
	struct lane *lane;
	const struct commit_row *row[BATCH_ROWS];
	struct commit *by_row[BATCH_ROWS];
	struct pg_args args;
	struct batch *b;

	while ((lane = next_lane(c)) != NULL) {
		b = take_batch(c, lane, row, by_row);
		args = (struct pg_args){ 0 };
		commit_rows_args(&args, row, b->count);
		lane->under_way[lane->under_way[0] != NULL] = b;
		lane->inflight++;
		pg_call_move(lane->pool, commit_sql_batch, &args, on_batch, b);
	}
}

static void
on_woken(void *arg)
{
	struct committer *c = arg;

	c->woken = false;
	send_batches(c);
}

/* "Try again" by SQLSTATE class: storage_full has an answer of its own. */
static enum err_code
code_of(const struct pg_result *res, bool *again)
{
	const char *state = pg_sqlstate(res);

	*again = strncmp(state, "40", 2) == 0 || strcmp(state, "55P03") == 0;
	if (strcmp(state, PG_NO_ROOM) == 0)
		return E_STORAGE_FULL;
	if (*again || strncmp(state, "53", 2) == 0 ||
	    strncmp(state, "57", 2) == 0 || strncmp(state, "08", 2) == 0 ||
	    strncmp(state, "58", 2) == 0 || strncmp(state, "25", 2) == 0)
		return E_STORE_UNAVAILABLE;
	return E_INTERNAL_ERROR;
}

static void
rejected_alone(struct commit *m, const struct pg_result *res)
{
	enum err_code code;
	bool again;

	if (strcmp(pg_sqlstate(res), "23505") == 0 && m->tries < TRIES) {
		look_up(m);
		return;
	}
	code = code_of(res, &again);
	if (again && m->tries < TRIES) {
		send_alone(m);
		return;
	}
	log_error("store.retry_rows", KV("rows", 1),
	    KV("code", pg_sqlstate(res)), KV("why", pg_message(res)));
	end_code(m, code);
}

static void
on_alone(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct commit *m = arg;
	struct commit_result result;

	switch (err) {
	case PG_OK:
		if (pg_rows(res) != 1) {
			end_code(m, E_INTERNAL_ERROR);
			break;
		}
		commit_row_result(&result, res, 0);
		end(m, &result);
		break;
	case PG_REJECTED:
		rejected_alone(m, res);
		break;
	case PG_UNSENT:
		end_code(m, E_STORE_UNAVAILABLE);
		break;
	case PG_LOST:
		look_up(m);
		break;
	}
}

static void
send_alone(struct commit *m)
{
	struct pg_args args = { 0 };

	m->tries++;
	commit_row_args(&args, &m->row);
	pg_deadline(
	    pg_call_move(m->c->single, commit_sql_one, &args, on_alone, m),
	    RECOVER_MS);
}

static void
on_looked_up(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct commit *m = arg;
	struct commit_result result;
	int status = 0;

	if (err == PG_OK && pg_rows(res) == 1)
		status = pg_get_int(res, 0, "status");
	if (status == 200) {
		commit_row_result(&result, res, 0);
		end(m, &result);
	} else if (status == 404 && m->tries < TRIES) {
		send_alone(m);
	} else if (err == PG_LOST && m->tries < TRIES) {
		m->tries++;
		look_up(m);
	} else {
		/* The client asks again with the same key. */
		result = (struct commit_result){ .code = E_STORE_UNAVAILABLE,
			.unknown = true };
		end(m, &result);
	}
}

static void
look_up(struct commit *m)
{
	struct pg_args args = { 0 };

	pg_i64(&args, m->row.tenant);
	pg_i64(&args, m->row.key);
	pg_bytes(&args, m->row.proof.p, m->row.proof.n);
	pg_uuid(&args, &m->row.message);
	pg_deadline(pg_call_move(m->c->single,
			"select * from api.my_get_1($1,$2,$3,$4)", &args,
			on_looked_up, m),
	    RECOVER_MS);
}
