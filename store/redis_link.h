/* SPDX-License-Identifier: ISC */
/*
 * redis_link.h - one asynchronous connection of hiredis on libevent, kept up.
 *
 * hiredis frees a context by itself after telling of a failure; this file is
 * the only one that has to know.
 */
#ifndef STORE_REDIS_LINK_H
#define STORE_REDIS_LINK_H

#include <hiredis/async.h>

#include "store/redis.h"

struct event;
struct event_base;

struct redis_link {
	struct event_base *base;
	const struct redis_conf *conf;
	void (*on_ready)(struct redis_link *l); /* signed in (unverified) */
	void (*on_lost)(struct redis_link *l); /* after callbacks got NULL */
	void *owner;
	redisAsyncContext *ac;
	struct event *rd, *wr, *retry;
	struct event *flush; /* commands of this turn of the loop */
	bool connected;
	bool flushing;
	bool closing; /* being freed: no callbacks to the owner */
};

void redis_link_start(struct redis_link *l);
/* Drop the connection and try again in a second. Not from its callbacks. */
void redis_link_reset(struct redis_link *l);
void redis_link_stop(struct redis_link *l);

#endif
