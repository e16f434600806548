/* SPDX-License-Identifier: ISC */
/*
 * fake_store.h - the agents' side of store/ without a database, for tests
 * that link this instead of libstore.a.
 *
 * Passwords: "good" signs in as bot@example.org, "wide" has scope full,
 * "down" finds no database; everything else is unknown.
 */
#ifndef TESTS_FAKE_STORE_H
#define TESTS_FAKE_STORE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/errors.h"

struct loop;
struct store;

struct fake_store {
	bool revoked; /* every key is dead from now on */
	bool touch_down; /* touches find no database */
	bool stale; /* what is known of a key must be asked again */
	bool hold; /* do not answer submissions yet, nor make room */
	int mode; /* of the inbox: 2 gated_send */
	bool unverified; /* its domain */
	enum err_code outcome; /* of the next submission */
	int state; /* it gets: 1 held */
	unsigned stingy; /* say "enough" every n-th feed; 0 never */

	unsigned auths, touches, denied, begun, finished, cancelled;
	struct buf message; /* the bytes of the last submission */
	struct buf rcpts; /* its recipients, one a line */
	struct buf notify; /* what each wants to hear, a byte each */
	bool smtputf8, require_tls; /* as its envelope says */
	int ret;
};

extern struct fake_store fake_store;

struct store *fake_store_new(struct loop *loop);
void fake_store_free(struct store *store);
/* Answer what `hold` held back. */
void fake_store_let_go(void);

#endif
