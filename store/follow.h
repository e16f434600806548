/* SPDX-License-Identifier: ISC */
/*
 * follow.h - what happens in an inbox, as it happens.
 *
 * The database is asked with the credential each time: every second at most,
 * less often when many follow, so that all of one worker together ask at most
 * FOLLOW_RATE times a second. Nothing is missed and nothing comes twice, also
 * after a reconnect: a reader goes on from the place behind what it saw.
 */
#ifndef STORE_FOLLOW_H
#define STORE_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/uuid.h"

struct store_cred;
struct store_follow;

#define FOLLOW_RATE 100

/* A place in the order of what happened; opaque to agents. */
struct store_place {
	int64_t xid;
	int64_t at; /* us since 1970 */
	struct uuid message;
	int n;
};

struct store_happening {
	struct store_place place; /* of this event; the reader is behind it */
	struct uuid message;
	int n;
	const char *type; /* "message.held" */
	int64_t at;
	const char *actor;
	int state; /* enum policy_state */
	const char *detail;
};

/*
 * Runs from the loop: once with what there was (or nothing) behind `from`,
 * then whenever there is more. `next` is the place behind all of it. A `code`
 * (unknown_api_key, not_found of `only`) is the last call; a database that is
 * away is none. Events are borrowed. store_follow_end() is fine from inside.
 */
typedef void store_follow_fn(void *arg, enum err_code code,
    const struct store_happening *e, size_t count,
    const struct store_place *next);

/*
 * `from` NULL: from now on; events older than a week are not given. `only`
 * NULL: of all messages. `cred` is borrowed.
 */
struct store_follow *store_follow(const struct store_cred *cred,
    const struct store_place *from, const struct uuid *only,
    store_follow_fn *fn, void *arg);
/* Ask no more until told; what is under way may still come. */
void store_follow_pause(struct store_follow *f, bool pause);
/* NULL is fine. */
void store_follow_end(struct store_follow *f);

#endif
