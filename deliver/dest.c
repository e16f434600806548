/* SPDX-License-Identifier: ISC */
#include "deliver/dest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "deliver/dest_internal.h"

#define FIRST 1 /* sessions at once */
#define MOST 20
#define FEW 4 /* parts of all places: one of them is few */
#define FAILURES 3 /* in a row */
#define CLOSED_MS 60000
#define CLOSED_MAX_MS 600000
#define FORGET_MS 900000
#define DESTS_MAX 8192 /* then those at rest are looked for */
#define BEYOND 64 /* of its mail that may wait beyond its places for that */

struct dests *
dests_new(size_t places)
{
	struct dests *d = xcalloc(1, sizeof(*d));
	size_t i;

	d->places = places;
	for (i = 0; i < DEST_BUCKETS; i++)
		LIST_INIT(&d->bucket[i]);
	return d;
}

void
dests_set_places(struct dests *d, size_t places)
{
	d->places = places;
}

static void
drop(struct dests *d, struct dest *x)
{
	if (x->beyond)
		d->beyond = 0;
	if (d->last == x)
		d->last = NULL;
	LIST_REMOVE(x, link);
	d->n--;
	free(x);
}

void
dests_free(struct dests *d)
{
	size_t i;

	if (d == NULL)
		return;
	for (i = 0; i < DEST_BUCKETS; i++) {
		while (!LIST_EMPTY(&d->bucket[i]))
			drop(d, LIST_FIRST(&d->bucket[i]));
	}
	free(d);
}

static size_t
bucket_of(const char *domain)
{
	return crc32_ieee(0, domain, strlen(domain)) % DEST_BUCKETS;
}

struct dest *
dest_find(const struct dests *d, const char *domain)
{
	struct dest *x = d->last;

	if (x != NULL && strcmp(x->domain, domain) == 0)
		return x;
	LIST_FOREACH(x, &d->bucket[bucket_of(domain)], link)
	{
		if (strcmp(x->domain, domain) == 0)
			return x;
	}
	return NULL;
}

/*
 * What rests and was not used lately needs no memory: a closure ends before
 * that.
 */
_Static_assert(FORGET_MS > CLOSED_MAX_MS, "a closed one would be forgotten");
static void
tidy(struct dests *d, uint64_t now)
{
	struct dest *x, *next;
	size_t i;

	for (i = 0; i < DEST_BUCKETS; i++) {
		for (x = LIST_FIRST(&d->bucket[i]); x != NULL; x = next) {
			next = LIST_NEXT(x, link);
			if (x->active == 0 && now >= x->used_at + FORGET_MS)
				drop(d, x);
		}
	}
}

static struct dest *
get(struct dests *d, const char *domain, uint64_t now)
{
	struct dest *x = dest_find(d, domain);

	if (x != NULL) {
		d->last = x;
		return x;
	}
	if (d->n >= DESTS_MAX)
		tidy(d, now);
	x = xcalloc(1, sizeof(*x));
	(void)snprintf(x->domain, sizeof(x->domain), "%s", domain);
	x->limit = FIRST;
	x->unlimited = strcmp(domain, DEST_SMARTHOST) == 0;
	x->named = x->unlimited || domain[0] == '#';
	x->proven = x->unlimited;
	LIST_INSERT_HEAD(&d->bucket[bucket_of(domain)], x, link);
	d->n++;
	return x;
}

/* After a closure one message finds out. */
size_t
dest_limit(const struct dest *x)
{
	if (x->closed_for > 0)
		return 1;
	return x->unlimited ? SIZE_MAX : x->limit;
}

static bool
is_full(const struct dest *x, uint64_t now)
{
	return x->active >= dest_limit(x) || now < x->closed_until;
}

/* Does one message find out whether it is back? */
bool
dest_is_tried(const struct dest *x)
{
	return x->closed_for > 0 && x->active > 0;
}

bool
dests_have_room(const struct dests *d)
{
	return d->active < d->places;
}

static size_t
unproven_places(const struct dests *d)
{
	return d->places < DEST_UNPROVEN_MAX / DEST_UNPROVEN_SHARE
		   ? d->places * DEST_UNPROVEN_SHARE
		   : DEST_UNPROVEN_MAX;
}

/* Half of them are for domains that are new. */
static bool
is_movable(const struct dests *d, size_t n)
{
	return d->unproven + n <= unproven_places(d) / 2;
}

bool
dests_are_half(const struct dests *d, size_t n)
{
	return n * 2 >= d->places;
}

bool
dests_are_crowded(const struct dests *d)
{
	return dests_are_half(d, d->slow) && !is_movable(d, d->places);
}

bool
dest_is_proven(const struct dests *d, const char *domain)
{
	const struct dest *x = dest_find(d, domain);

	return x != NULL && x->proven && !x->unlimited;
}

bool
dest_is_new(const struct dests *d, const char *domain)
{
	const struct dest *x = dest_find(d, domain);

	return *domain != '\0' && strcmp(domain, DEST_SMARTHOST) != 0 &&
	       (x == NULL || !x->proven);
}

bool
dests_are_most(const struct dests *d, size_t n)
{
	return n * 4 >= unproven_places(d) * 3;
}

bool
dests_are_tight(const struct dests *d)
{
	return dests_are_most(d, d->unproven);
}

void
dests_look(struct dests *d)
{
	d->look++;
	d->outside = 0;
}

size_t
dest_waiting(const struct dests *d, const struct dest *x)
{
	return x->look == d->look ? x->waiting : 0;
}

size_t
dest_kept(const struct dests *d, const struct dest *x)
{
	return x->look == d->look ? x->kept : 0;
}

/* So many of it are at hand that more would only wait. */
size_t
dest_plenty(const struct dests *d, const struct dest *x)
{
	size_t limit = dest_limit(x);

	return (limit < d->places ? limit : d->places) + BEYOND;
}

/* A domain has so many before others. */
static size_t
few(const struct dests *d)
{
	return d->places / FEW + 1;
}

static enum dest_begun
turn_away(struct dests *d, struct dest *x, enum dest_begun why)
{
	x->waiting = dest_waiting(d, x) + 1;
	x->kept = dest_kept(d, x);
	x->look = d->look;
	d->outside += why == DEST_UNPROVEN;
	if (why == DEST_UNPROVEN || why == DEST_TRIED || why == DEST_BEHIND)
		return why;
	if (x->waiting > dest_limit(x))
		return DEST_BEHIND;
	return x->waiting > few(d) && !x->unlimited ? DEST_NEXT : why;
}

enum dest_begun
dest_leave(struct dests *d, const char *domain)
{
	struct dest *x = dest_find(d, domain);

	BUG_ON(x == NULL);
	x->waiting = dest_waiting(d, x);
	x->kept = dest_kept(d, x) + 1;
	x->look = d->look;
	return x->kept > dest_plenty(d, x) ? DEST_LEFT : DEST_BEHIND;
}

enum dest_begun
dest_wait(struct dests *d, const char *domain, uint64_t now)
{
	return turn_away(d, get(d, domain, now), DEST_UNPROVEN);
}

bool
dest_has_few(const struct dests *d, const char *domain)
{
	const struct dest *x = dest_find(d, domain);

	return x == NULL || x->unlimited || x->active < few(d);
}

enum dest_begun
dest_begin(struct dests *d, const char *domain, uint64_t now)
{
	struct dest *x;

	if (domain[0] == '\0') {
		if (!dests_have_room(d))
			return DEST_FULL;
		d->active++;
		return DEST_BEGUN;
	}
	x = get(d, domain, now);
	if (!x->proven && d->unproven >= unproven_places(d))
		return turn_away(d, x, DEST_UNPROVEN);
	if (is_full(x, now))
		return turn_away(
		    d, x, dest_is_tried(x) ? DEST_TRIED : DEST_NEXT);
	if (x->proven && !dests_have_room(d))
		return turn_away(d, x, DEST_FULL);
	x->used_at = now;
	x->active++;
	if (x->proven)
		d->active++;
	else
		d->unproven++;
	return DEST_BEGUN;
}

static void
failed(struct dest *x, uint64_t now)
{
	x->limit = x->limit > 1 ? x->limit / 2 : 1;
	if (++x->failures < FAILURES && x->closed_for == 0)
		return;
	x->failures = 0;
	x->closed_for =
	    x->closed_for == 0 || x->named ? CLOSED_MS : x->closed_for * 2;
	if (x->closed_for > CLOSED_MAX_MS)
		x->closed_for = CLOSED_MAX_MS;
	x->closed_until = now + x->closed_for;
}

/* Its sessions, but the slow ones, are counted with those of its kind. */
static void
set_proven(struct dests *d, struct dest *x, bool proven)
{
	size_t n = x->active - x->slow;

	if (x->proven == proven)
		return;
	x->proven = proven;
	if (proven) {
		d->unproven -= n;
		d->active += n;
	} else {
		d->unproven += n;
		d->active -= n;
	}
}

static void
set_slow(struct dests *d, struct dest *x)
{
	x->slow++;
	d->slow++;
	d->active--;
	d->unproven++;
}

enum dest_place
dest_slow(struct dests *d, const char *domain, bool full)
{
	struct dest *x = dest_find(d, domain);

	if (x == NULL || x->unlimited)
		return DEST_STAYS;
	BUG_ON(x->slow >= x->active);
	if (d->unproven >= unproven_places(d))
		return x->proven && !full ? DEST_STAYS : DEST_ENDS;
	if (!x->proven)
		return DEST_STAYS;
	set_slow(d, x);
	return DEST_MOVED;
}

bool
dests_end_slow(const struct dests *d, size_t n)
{
	return d->unproven >= unproven_places(d) && n < d->outside;
}

bool
dest_long(struct dests *d, const char *domain)
{
	struct dest *x = dest_find(d, domain);

	if (x == NULL || x->unlimited || !x->proven || !is_movable(d, 1))
		return false;
	BUG_ON(x->slow >= x->active);
	set_slow(d, x);
	return true;
}

void
dest_end(struct dests *d, const char *domain, bool slow,
    enum dest_outcome outcome, uint64_t now)
{
	struct dest *x;

	if (domain[0] == '\0') {
		d->active--;
		return;
	}
	x = dest_find(d, domain);
	BUG_ON(x == NULL || x->active == 0);
	x->active--;
	x->given++;
	x->slow -= slow;
	d->slow -= slow;
	if (x->proven && !slow)
		d->active--;
	else
		d->unproven--;
	x->used_at = now;
	switch (outcome) {
	case DEST_NOTHING:
		return;
	case DEST_REACHED:
		set_proven(d, x, true);
		x->failures = 0;
		/* It takes some, whoever was turned away before. */
		x->closed_until = x->closed_for = 0;
		if (x->limit < MOST)
			x->limit++;
		return;
	case DEST_BUSY:
		x->limit = x->limit > 1 ? x->limit / 2 : 1;
		return;
	case DEST_UNREACHED:
		/* While it is closed, what began before says nothing new. */
		if (now >= x->closed_until)
			failed(x, now);
		set_proven(d, x, x->unlimited);
		return;
	}
}

void
dests_open(struct dests *d)
{
	struct dest *x;
	size_t i;

	for (i = 0; i < DEST_BUCKETS; i++) {
		LIST_FOREACH(x, &d->bucket[i], link)
		{
			x->failures = 0;
			x->closed_until = x->closed_for = 0;
		}
	}
	dests_may_find(d);
}

uint64_t
dest_closed_ms(const struct dests *d, const char *domain, uint64_t now)
{
	const struct dest *x = dest_find(d, domain);

	return x != NULL && now < x->closed_until ? x->closed_until - now : 0;
}
