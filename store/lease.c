/* SPDX-License-Identifier: ISC */
/*
 * lease.c - a table of the inboxes that sent last, some with a lease.
 */
#include "store/lease.h"

#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>

#include "base/xalloc.h"

#define SLOTS 2048

struct lease {
	TAILQ_ENTRY(lease) used; /* the least recently used first */
	LIST_ENTRY(lease) slot;
	TAILQ_ENTRY(lease) living; /* the next to end first */
	struct limit_inbox inbox;
	uint64_t seen; /* its last message */
	uint64_t quiet; /* no leases before */

	/* The last answer: its tightest window, after all that is charged. */
	int window; /* -1 = not known */
	int64_t left, wait_ms;

	int64_t size; /* messages of the next lease */
	bool asking, spent;

	/* The lease itself; without one, `rest` is nothing. */
	bool live;
	struct limit_cost rest, most;
	int64_t at;
	uint64_t end;
};

LIST_HEAD(lease_slot, lease);
TAILQ_HEAD(lease_list, lease);

struct leases {
	lease_back_fn *back;
	void *arg;
	bool stopped;
	struct lease_list used, living;
	struct lease_slot slot[SLOTS];
	size_t n;
	struct lease all[LEASE_MAX];
};

struct leases *
leases_new(lease_back_fn *back, void *arg)
{
	struct leases *t = xcalloc(1, sizeof(*t));

	t->back = back;
	t->arg = arg;
	TAILQ_INIT(&t->used);
	TAILQ_INIT(&t->living);
	return t;
}

void
leases_free(struct leases *t)
{
	free(t);
}

static bool
is_nothing(const struct limit_cost *c)
{
	return c->messages == 0 && c->recipients == 0 && c->bytes == 0;
}

/* Is a within b? */
static bool
fits(const struct limit_cost *a, const struct limit_cost *b)
{
	return a->messages <= b->messages && a->recipients <= b->recipients &&
	       a->bytes <= b->bytes;
}

static void
add(struct limit_cost *to, const struct limit_cost *c)
{
	to->messages += c->messages;
	to->recipients += c->recipients;
	to->bytes += c->bytes;
}

static void
subtract(struct limit_cost *from, const struct limit_cost *c)
{
	from->messages -= c->messages;
	from->recipients -= c->recipients;
	from->bytes -= c->bytes;
}

static int64_t
bucket_of(int64_t at)
{
	return at / LEASE_BUCKET_MS;
}

static bool
same_limits(const struct limit_inbox *a, const struct limit_inbox *b)
{
	return a->hour == b->hour && a->day == b->day && a->bytes == b->bytes;
}

static size_t
slot_of(const struct limit_inbox *in)
{
	uint64_t h = ((uint64_t)in->tenant * 31 + (uint64_t)in->inbox) *
		     UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(h >> 40) % SLOTS;
}

static struct lease *
find(const struct leases *t, const struct limit_inbox *in)
{
	struct lease *e;

	LIST_FOREACH(e, &t->slot[slot_of(in)], slot)
	if (e->inbox.tenant == in->tenant && e->inbox.inbox == in->inbox)
		return e;
	return NULL;
}

/* `e` has no lease any more; what is left of it goes back. */
static void
end_lease(struct leases *t, struct lease *e)
{
	struct limit_cost rest = e->rest;

	if (!e->live)
		return;
	e->live = false;
	e->rest = (struct limit_cost){ 0 };
	TAILQ_REMOVE(&t->living, e, living);
	if (rest.messages > 0) {
		e->size = LEASE_FIRST;
		e->spent = false;
	}
	if (!is_nothing(&rest))
		t->back(t->arg, &e->inbox, &rest, e->at);
}

/* Leases begun later mostly end later. */
static void
begin_lease(struct leases *t, struct lease *e, int64_t at, uint64_t end)
{
	struct lease *before;

	if (e->live)
		TAILQ_REMOVE(&t->living, e, living);
	e->live = true;
	e->at = at;
	e->end = end;
	TAILQ_FOREACH_REVERSE(before, &t->living, lease_list, living)
	if (before->end <= end)
		break;
	if (before != NULL)
		TAILQ_INSERT_AFTER(&t->living, before, e, living);
	else
		TAILQ_INSERT_HEAD(&t->living, e, living);
}

void
leases_drop(struct leases *t)
{
	struct lease *e;

	while ((e = TAILQ_FIRST(&t->living)) != NULL)
		end_lease(t, e);
}

void
leases_stop(struct leases *t)
{
	t->stopped = true;
	leases_drop(t);
}

uint64_t
leases_next(const struct leases *t)
{
	const struct lease *e = TAILQ_FIRST(&t->living);

	return e != NULL ? e->end : 0;
}

void
leases_expire(struct leases *t, uint64_t now)
{
	struct lease *e;

	while ((e = TAILQ_FIRST(&t->living)) != NULL && e->end <= now)
		end_lease(t, e);
}

/* A place in the table, that of another inbox if need be. */
static struct lease *
make(struct leases *t, const struct limit_inbox *in)
{
	struct lease *e;

	if (t->n < LEASE_MAX) {
		e = &t->all[t->n++];
	} else {
		e = TAILQ_FIRST(&t->used);
		end_lease(t, e);
		TAILQ_REMOVE(&t->used, e, used);
		LIST_REMOVE(e, slot);
	}
	*e = (struct lease){ .inbox = *in, .window = -1, .size = LEASE_FIRST };
	LIST_INSERT_HEAD(&t->slot[slot_of(in)], e, slot);
	TAILQ_INSERT_TAIL(&t->used, e, used);
	return e;
}

/* The inbox has sent a message now. */
static void
touch(struct leases *t, struct lease *e, uint64_t now)
{
	e->seen = now;
	TAILQ_REMOVE(&t->used, e, used);
	TAILQ_INSERT_TAIL(&t->used, e, used);
}

/* Other limits than those it was asked with: nothing is known any more. */
static void
compare_limits(struct leases *t, struct lease *e, const struct limit_inbox *in)
{
	if (same_limits(&e->inbox, in))
		return;
	end_lease(t, e);
	e->inbox = *in;
	e->window = -1;
}

static int64_t
rest_of(const struct lease *e, int window)
{
	return window == LIMIT_BYTES ? e->rest.bytes : e->rest.messages;
}

int
lease_take(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, uint64_t now, struct limit_answer *a)
{
	struct lease *e = find(t, inbox);

	if (e == NULL || cost->messages == 0)
		return -1;
	compare_limits(t, e, inbox);
	if (e->live && e->end <= now)
		end_lease(t, e);
	if (!e->live || e->window < 0 || !fits(cost, &e->rest))
		return -1;
	subtract(&e->rest, cost);
	e->spent = e->rest.messages == 0;
	touch(t, e, now);
	*a = (struct limit_answer){ .verdict = LIMIT_OK,
		.limit = limit_of(inbox, e->window),
		.left = e->left + rest_of(e, e->window),
		.wait_ms = e->wait_ms,
		.at = e->at };
	if (is_nothing(&e->rest))
		end_lease(t, e);
	return e->window;
}

/*
 * How much of a window may be leased. The tightest window has the least left
 * in proportion to its limit, so the others have at least that part of theirs.
 */
static int64_t
bound(const struct lease *e, int window)
{
	double part = (double)e->left / (double)limit_of(&e->inbox, e->window);

	return (
	    int64_t)(part * (double)limit_of(&e->inbox, window) / LEASE_SHARE);
}

static int64_t
least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What to have after this, then less what is there already. */
static void
wanted(const struct lease *e, const struct limit_cost *cost,
    struct limit_cost *more)
{
	int64_t bytes, n = e->size;

	if (limit_of(&e->inbox, e->window) <= 0 || e->left <= 0)
		return;
	bytes = bound(e, LIMIT_BYTES);
	n = least(n, bound(e, LIMIT_HOUR));
	n = least(n, bound(e, LIMIT_DAY));
	if (cost->bytes > 0)
		n = least(n, bytes / cost->bytes);
	if (n < 1)
		return;
	*more = (struct limit_cost){ n, n * cost->recipients,
		least(bytes, 2 * n * cost->bytes) };
	more->messages -= least(more->messages, e->rest.messages);
	more->recipients -= least(more->recipients, e->rest.recipients);
	more->bytes -= least(more->bytes, e->rest.bytes);
}

void
lease_ask(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, uint64_t now, struct limit_cost *more)
{
	struct lease *e = find(t, inbox);
	bool busy;

	*more = (struct limit_cost){ 0 };
	/* A draft: no message follows from it. */
	if (cost->messages == 0)
		return;
	if (e == NULL)
		e = make(t, inbox);
	compare_limits(t, e, inbox);
	busy = e->seen > 0 && now - e->seen < LEASE_BUSY_MS;
	touch(t, e, now);
	if (t->stopped || !busy || e->asking || e->window < 0 || now < e->quiet)
		return;
	if (e->spent)
		e->size = least(2 * e->size, LEASE_MESSAGES);
	e->spent = false;
	wanted(e, cost, more);
	e->asking = !is_nothing(more);
}

/* Redis's time is at most at + (now - sent): it answered after that. */
static uint64_t
end_of(int64_t at, uint64_t sent)
{
	int64_t life = LEASE_BUCKET_MS - at % LEASE_BUCKET_MS - LEASE_GUARD_MS;

	return life <= 0 ? 0 : sent + (uint64_t)least(life, LEASE_LIFE_MS);
}

void
lease_allowed(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more, int window, const struct limit_answer *a,
    uint64_t sent, uint64_t now)
{
	struct lease *e = find(t, inbox);
	uint64_t end = end_of(a->at, sent);

	if (e != NULL && !is_nothing(more))
		e->asking = false;
	if (e != NULL && same_limits(&e->inbox, inbox)) {
		e->window = window;
		e->left = a->left;
		e->wait_ms = a->wait_ms;
	} else {
		e = NULL;
	}
	if (is_nothing(more))
		return;
	if (e == NULL || t->stopped || window < 0 || end <= now ||
	    now < e->quiet) {
		t->back(t->arg, inbox, more, a->at);
		return;
	}
	if (e->live && bucket_of(e->at) != bucket_of(a->at))
		end_lease(t, e);
	add(&e->rest, more);
	e->most = e->rest;
	begin_lease(t, e, a->at, end);
}

bool
lease_refused(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more, uint64_t now)
{
	struct lease *e = find(t, inbox);
	bool again = !is_nothing(more);

	if (e == NULL)
		return again;
	if (again)
		e->asking = false;
	again = again || e->live;
	end_lease(t, e);
	e->window = -1;
	e->size = LEASE_FIRST;
	e->spent = false;
	e->quiet = now + LEASE_PAUSE_MS;
	return again;
}

void
lease_unknown(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *more)
{
	struct lease *e = find(t, inbox);

	if (e == NULL)
		return;
	if (!is_nothing(more))
		e->asking = false;
	end_lease(t, e);
	e->window = -1;
}

bool
lease_give(struct leases *t, const struct limit_inbox *inbox,
    const struct limit_cost *cost, int64_t at, uint64_t now)
{
	struct lease *e = find(t, inbox);
	struct limit_cost sum = *cost;

	if (e == NULL || !e->live || e->end <= now ||
	    !same_limits(&e->inbox, inbox) || bucket_of(e->at) != bucket_of(at))
		return false;
	add(&sum, &e->rest);
	if (!fits(&sum, &e->most))
		return false;
	e->rest = sum;
	return true;
}

int64_t
lease_rest(const struct leases *t, const struct limit_inbox *inbox, int window)
{
	const struct lease *e = find(t, inbox);

	return e != NULL ? rest_of(e, window) : 0;
}
