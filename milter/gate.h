/* SPDX-License-Identifier: ISC */
/*
 * gate.h - how many conversations a filter is asked to have at once.
 *
 * A filter has so many threads or children and no more; what is over waits
 * here in order, with no more of its bytes than a conversation holds back
 * anyway. Who waits longer than the filter's time counts as unanswered. One
 * inbox gets half of the places at most, so that agents who are slow to send
 * their mail do not take the filter from the others.
 */
#ifndef MILTER_GATE_H
#define MILTER_GATE_H

struct milter;
struct milter_gate;

/* One reference is the caller's; conversations have theirs. */
struct milter_gate *milter_gate_new(unsigned max);
void milter_gate_limit(struct milter_gate *gate, unsigned max);
void milter_gate_release(struct milter_gate *gate); /* NULL is fine */

/* For client.c. It will want to enter, but not yet. */
void milter_gate_join(struct milter_gate *gate, struct milter *m);
/* milter_connect() runs now, or later when there is a place. */
void milter_gate_enter(struct milter *m);
/* Gives up the place, or the turn; again is fine. */
void milter_gate_leave(struct milter *m);

#endif
