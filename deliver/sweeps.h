/* SPDX-License-Identifier: ISC */
/* sweeps.h - what is past its time is swept every few seconds (relay_sweep()).
 */
#ifndef DELIVER_SWEEPS_H
#define DELIVER_SWEEPS_H

struct loop;
struct relay;
struct sweeps;

/* The first is at once. `relay` must outlive it. */
struct sweeps *sweeps_new(struct loop *loop, struct relay *relay);
/* None begins any more; one under way ends. */
void sweeps_stop(struct sweeps *s);
/* NULL is fine. */
void sweeps_free(struct sweeps *s);

#endif
