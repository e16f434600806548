/* SPDX-License-Identifier: ISC */
/* gauges.h - what /metrics says of the queue, asked for every few seconds. */
#ifndef DELIVER_GAUGES_H
#define DELIVER_GAUGES_H

struct gauges;
struct loop;
struct redis;
struct relay;

/* Both must outlive it. */
struct gauges *gauges_new(
    struct loop *loop, struct relay *relay, struct redis *redis);
/* NULL is fine. */
void gauges_free(struct gauges *g);

#endif
