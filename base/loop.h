/* SPDX-License-Identifier: ISC */
/*
 * loop.h - the one event loop of a process, and work for a clean stack.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdint.h>

struct event_base;
struct loop;
struct loop_timer;

typedef void loop_fn(void *arg);

struct loop *loop_new(void);
/* Deferred work that has not run is dropped. NULL is fine. */
void loop_free(struct loop *loop);
/*
 * Priorities of events: most are LOOP_USUAL, which is what event_new() makes
 * them. What keeps another program from idling is LOOP_URGENT: it comes before
 * usual events that are due already. What nobody waits for yet is LOOP_LATER:
 * it comes when nothing else is due, however long that takes.
 */
enum loop_priority { LOOP_URGENT, LOOP_USUAL, LOOP_LATER, LOOP_PRIORITIES };

struct event_base *loop_base(struct loop *loop);
/* Until loop_stop() or nothing is left to wait for. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/*
 * Run `fn` once, later, from the loop and never from inside this call. In
 * the order given. Cancel with loop_undefer() before `arg` goes away.
 */
void loop_defer(struct loop *loop, loop_fn *fn, void *arg);
void loop_undefer(struct loop *loop, loop_fn *fn, void *arg);

/* Lines of the log wait till the end of each turn (log_gather()). */
void loop_gather_log(struct loop *loop);

/* A timer that may be set again and again; stopped when made. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn *fn, void *arg);
void loop_timer_free(struct loop_timer *t);
/* It is LOOP_LATER from now on. Not while it is set. */
void loop_timer_yields(struct loop_timer *t);
/* Fire once in `ms`; a set timer is set anew. */
void loop_timer_set(struct loop_timer *t, uint64_t ms);
void loop_timer_stop(struct loop_timer *t);

#endif
