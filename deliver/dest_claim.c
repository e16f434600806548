/* SPDX-License-Identifier: ISC */
/* dest_claim.c - whose mail is claimed, and whose is left out. */
#include "deliver/dest.h"
#include "deliver/dest_internal.h"

#define DUE_MS 100 /* between claims for one of which enough waits */

/* Could more of its mail be of use now? */
static bool
is_wanted(const struct dests *d, const struct dest *x, uint64_t now)
{
	return now >= x->closed_until && !dest_is_tried(x) &&
	       dest_waiting(d, x) + dest_kept(d, x) < dest_limit(x);
}

/*
 * Some waits, but it may be all one tenant's, while another's is not known yet.
 * A place was given back, or mail may have come, or what waits may not go for
 * its tenants' shares.
 */
static bool
is_due(const struct dests *d, const struct dest *x, uint64_t now, bool woken)
{
	return now >= x->closed_until && !dest_is_tried(x) &&
	       now >= x->claimed_at + DUE_MS &&
	       dest_waiting(d, x) < dest_plenty(d, x) &&
	       (dest_kept(d, x) > 0 ||
		   (dest_waiting(d, x) > 0 && (woken || x->given > 0)));
}

bool
dest_is_due(const struct dests *d, const char *domain, uint64_t now)
{
	const struct dest *x = dest_find(d, domain);

	return x != NULL && is_due(d, x, now, false);
}

/* A claim that leaves some out. */
struct claim {
	const char **out; /* DEST_SKIP_MAX */
	size_t n;
	uint64_t now;
	bool due, woken; /* for dests_due() */
	bool any; /* are */
	size_t given; /* by those, since they were claimed for */
};

static void
skip(const struct dests *d, struct dest *x, struct claim *c)
{
	bool wanted = is_wanted(d, x, c->now);

	if (!c->due)
		x->skipped = c->n < DEST_SKIP_MAX && !wanted;
	else if (is_due(d, x, c->now, c->woken)) {
		c->any = true;
		c->given += x->given;
		x->given = 0;
		x->claimed_at = c->now;
		return;
	}
	if (c->n < DEST_SKIP_MAX && !wanted)
		c->out[c->n++] = x->domain;
}

/* The smarthost, rules' hosts, then the others. */
static void
skip_each(struct dests *d, struct claim *c)
{
	struct dest *x = dest_find(d, DEST_SMARTHOST);
	size_t i;
	bool named = true;

	if (x != NULL)
		skip(d, x, c);
	do {
		for (i = 0; i < DEST_BUCKETS; i++) {
			LIST_FOREACH(x, &d->bucket[i], link)
			{
				if (x->named == named && !x->unlimited)
					skip(d, x, c);
			}
		}
		named = !named;
	} while (!named);
}

size_t
dests_skip(struct dests *d, const char *out[DEST_SKIP_MAX], uint64_t now)
{
	struct claim c = { .out = out, .now = now };

	skip_each(d, &c);
	return c.n;
}

void
dests_claimed(struct dests *d, uint64_t now)
{
	struct dest *x;
	size_t i;

	for (i = 0; i < DEST_BUCKETS; i++) {
		LIST_FOREACH(x, &d->bucket[i], link)
		{
			if (x->skipped)
				continue;
			x->given = 0;
			x->claimed_at = now;
		}
	}
}

bool
dests_due(struct dests *d, struct dests_due *due, uint64_t now, bool woken)
{
	struct claim c = {
		.out = due->skip, .now = now, .due = true, .woken = woken
	};

	skip_each(d, &c);
	due->n = c.n;
	due->given = c.given;
	return c.any;
}

void
dests_found_nothing(struct dests *d)
{
	struct dest *x;
	size_t i;

	d->beyond = 0;
	for (i = 0; i < DEST_BUCKETS; i++) {
		LIST_FOREACH(x, &d->bucket[i], link)
		{
			x->beyond = x->skipped;
			d->beyond += x->beyond;
		}
	}
}

void
dests_may_find(struct dests *d)
{
	d->beyond = 0;
}

bool
dest_is_beyond(const struct dests *d, const char *domain)
{
	const struct dest *x = dest_find(d, domain);

	return x != NULL && x->beyond;
}

bool
dests_seek(const struct dests *d)
{
	const struct dest *x;
	size_t i, same = 0;

	if (d->beyond == 0)
		return true;
	for (i = 0; i < DEST_BUCKETS; i++) {
		LIST_FOREACH(x, &d->bucket[i], link)
		same += x->beyond && x->skipped;
	}
	return same < d->beyond;
}

bool
dest_is_wanted(const struct dests *d, const char *domain, uint64_t now)
{
	const struct dest *x = dest_find(d, domain);

	return x != NULL && x->skipped && is_wanted(d, x, now);
}
