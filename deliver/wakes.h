/* SPDX-License-Identifier: ISC */
/*
 * wakes.h - when mail will be due, as Redis' channel `wake` says: each message
 * there is in how many milliseconds. One that is lost or too much costs its
 * mail a poll.
 */
#ifndef DELIVER_WAKES_H
#define DELIVER_WAKES_H

struct loop;
struct redis;
struct wakes;

typedef void wakes_fn(void *arg);

/* due(arg) runs when some is due, once for all that are. `redis` is
 * subscribed to the channel and must be freed before. */
struct wakes *wakes_new(
    struct loop *loop, struct redis *redis, wakes_fn *due, void *arg);
/* NULL is fine. */
void wakes_free(struct wakes *w);

#endif
