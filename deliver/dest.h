/* SPDX-License-Identifier: ISC */
/*
 * dest.h - how much a destination takes, so that one that is slow, dead or
 * flooded keeps no place from the others.
 *
 * A destination is where a way leads to: a domain by its MX, the host of an
 * operator's rule ("#" and the rule's number), or the smarthost ("*"). So a
 * dead relay closes for all that goes by it and for nothing else, and a rule
 * that leads around a dead domain is a way of its own.
 *
 * A domain begins with one session; after the first success it may have two,
 * then one more after each, and a failure or "slow down" halves. A domain that
 * could not be reached three times in a row is left alone for a minute, then
 * twice as long each time; one message tries whether it is back. Domains that
 * never took anything take no place from those that did: they have
 * DEST_UNPROVEN_SHARE times as many of their own, but no more than
 * DEST_UNPROVEN_MAX. Sessions that take long are counted with these, whoever
 * they are with: a domain that took something may answer slowly from then on.
 * All that is true of a rule's host, too, but that it is asked once a minute
 * however long it is dead: much may wait for it, and its owner mends it.
 *
 * The smarthost takes what it gets, and is closed as a rule's host is.
 * "" is for what goes to no host: it takes what it gets.
 */
#ifndef DELIVER_DEST_H
#define DELIVER_DEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEST_SKIP_MAX 400
#define DEST_UNPROVEN_SHARE 6
#define DEST_UNPROVEN_MAX 128
#define DEST_SLOW_MS 30000
#define DEST_LONG_MS 1000
#define DEST_SMARTHOST "*"

enum dest_outcome {
	DEST_NOTHING, /* not tried: says nothing of the destination */
	DEST_REACHED, /* it answered for the message */
	DEST_BUSY, /* it asked for less */
	DEST_UNREACHED,
};

struct dests;

/* `places`: sessions with all proven destinations together. Times:
 * milliseconds of a clock that only goes forward. */
struct dests *dests_new(size_t places);
void dests_set_places(struct dests *d, size_t places);
/* NULL is fine. */
void dests_free(struct dests *d);

/* Who waits is asked for in turn after this; those turned away are counted. */
void dests_look(struct dests *d);

enum dest_begun {
	DEST_BEGUN, /* took a place; dest_end() gives it back */
	DEST_FULL, /* all places are taken */
	DEST_UNPROVEN, /* those for domains that never took anything are */
	DEST_NEXT, /* all of this domain's are, or others go before it */
	DEST_BEHIND, /* as many wait before it as the domain may have places */
	DEST_TRIED, /* another finds out whether it is back */
	DEST_LEFT, /* by dest_leave(), and more waits than could be of use */
};

enum dest_begun dest_begin(struct dests *d, const char *domain, uint64_t now);
/* It is not to begin now, and waits for another of its tenant's (share.h):
 * others' mail for the domain may go. DEST_BEHIND, or DEST_LEFT. */
enum dest_begun dest_leave(struct dests *d, const char *domain);
/* It has no more than a quarter of all places: it may go before others. */
bool dest_has_few(const struct dests *d, const char *domain);
/* `slow`: it was moved by dest_slow(). */
void dest_end(struct dests *d, const char *domain, bool slow,
    enum dest_outcome outcome, uint64_t now);

enum dest_place {
	DEST_STAYS,
	DEST_MOVED, /* its place is another's now */
	DEST_ENDS, /* others wait, and there is no place for it */
};

/* A session takes longer than DEST_SLOW_MS; ask again while it does. `full`:
 * there is no place for others. */
enum dest_place dest_slow(struct dests *d, const char *domain, bool full);
/*
 * Sessions were moved, and take longer than DEST_SLOW_MS; `n` of them end as
 * others wait for those places. Is one more to end?
 */
bool dests_end_slow(const struct dests *d, size_t n);
/*
 * All places are taken, and a session takes longer than DEST_LONG_MS: it is
 * moved (true) while half of the other places are free, and never ends for it.
 */
bool dest_long(struct dests *d, const char *domain);
/* Is there a place for one that is proven? */
bool dests_have_room(const struct dests *d);
bool dest_is_proven(const struct dests *d, const char *domain);
/* It takes a place of those that never took anything. */
bool dest_is_new(const struct dests *d, const char *domain);
/* So many of those places are three quarters of them, or more. */
bool dests_are_most(const struct dests *d, size_t n);
/* So many are taken. */
bool dests_are_tight(const struct dests *d);
/* It is new, and waits for another of its tenant's: DEST_UNPROVEN. */
enum dest_begun dest_wait(struct dests *d, const char *domain, uint64_t now);
/*
 * Many sessions take long, and were moved; would those in all places take as
 * long, not all of them could be.
 */
bool dests_are_crowded(const struct dests *d);
/* So many are half of all places, or more. */
bool dests_are_half(const struct dests *d, size_t n);
/* Nothing is closed any more: whoever runs this has mended something. */
void dests_open(struct dests *d);
/* For how long it is left alone; 0: it is not. */
uint64_t dest_closed_ms(
    const struct dests *d, const char *domain, uint64_t now);
/*
 * Those whose mail nobody need claim now: left alone, tried by one message,
 * or enough of it waits already. The smarthost is first, then rules' hosts.
 * The texts are good until the next call; returns how many.
 */
size_t dests_skip(
    struct dests *d, const char *out[DEST_SKIP_MAX], uint64_t now);
/* The claim that leaves these out is made. */
void dests_claimed(struct dests *d, uint64_t now);
/*
 * Those of which enough waits are due for a small claim now and then: all that
 * waits may be one tenant's, and another's is not known. False: none is.
 * `woken`: mail has come; else those are due that gave back a place, or of
 * which some is kept back by dest_leave(). The claim is made.
 */
struct dests_due {
	const char *skip[DEST_SKIP_MAX]; /* what it leaves out; dests_skip() */
	size_t n;
	size_t given; /* places given back by those that are due */
};
bool dests_due(
    struct dests *d, struct dests_due *due, uint64_t now, bool woken);
bool dest_is_due(const struct dests *d, const char *domain, uint64_t now);
/*
 * The claim that left these out found nothing: until dests_may_find() one that
 * leaves out all of them again need not be made, says dests_seek().
 */
void dests_found_nothing(struct dests *d);
bool dest_is_beyond(const struct dests *d, const char *domain);
void dests_may_find(struct dests *d);
bool dests_seek(const struct dests *d);
/* Was it named by the last dests_skip(), and would not be now? */
bool dest_is_wanted(const struct dests *d, const char *domain, uint64_t now);

#endif
