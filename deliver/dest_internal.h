/* SPDX-License-Identifier: ISC */
/* dest_internal.h - what dest.c (places) and dest_claim.c share. */
#ifndef DELIVER_DEST_INTERNAL_H
#define DELIVER_DEST_INTERNAL_H

#include <sys/queue.h>

#include "deliver/dest.h"

#define DEST_BUCKETS 256

struct dest {
	LIST_ENTRY(dest) link;
	char domain[256];
	size_t active, limit;
	size_t slow; /* of `active` */
	unsigned failures; /* in a row */
	size_t waiting; /* turned away since dests_look() */
	size_t kept; /* left since then, for their tenants' shares */
	unsigned look; /* of which one */
	bool proven;
	bool named; /* by an operator: the smarthost, or a rule's host */
	bool unlimited; /* the smarthost */
	bool skipped; /* by the last claim */
	bool beyond; /* by one that found nothing else */
	uint64_t closed_until, used_at, closed_for;
	uint64_t claimed_at; /* when it was last not left out */
	size_t given; /* places it gave back since then */
};

LIST_HEAD(dest_list, dest);

struct dests {
	size_t places, active; /* `active`: with those that are proven */
	size_t unproven; /* and with the others, and all that are slow */
	size_t slow; /* of these */
	size_t n;
	unsigned look;
	size_t outside; /* wait for a place of the unproven, since that */
	size_t beyond; /* how many; 0: others may have mail */
	struct dest *last; /* that was asked for; it often is the next */
	struct dest_list bucket[DEST_BUCKETS];
};

/* dest.c */
/* NULL: it was not asked for yet. */
struct dest *dest_find(const struct dests *d, const char *domain);
/* Sessions it may have. */
size_t dest_limit(const struct dest *x);
/* Does one message find out whether it is back? */
bool dest_is_tried(const struct dest *x);
/* Turned away, and left by dest_leave(), since dests_look(). */
size_t dest_waiting(const struct dests *d, const struct dest *x);
size_t dest_kept(const struct dests *d, const struct dest *x);
/* So many of it are at hand that more would only wait. */
size_t dest_plenty(const struct dests *d, const struct dest *x);

#endif
