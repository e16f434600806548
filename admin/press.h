/* SPDX-License-Identifier: ISC */
/*
 * press.h - one form sent twice, where the first changes the session's secret
 *
 * Who presses a button twice, without scripts, comes once more with the secret
 * of before (decision 0124). Who asks for another secret is noted here before
 * he asks, for nobody knows whose answer is read first: while it is open, and
 * a minute longer, the second is known as such. It waits until the first has
 * its answer, and is told the same; it does nothing, and gets no cookie. Then
 * all that is kept of the first is wiped.
 */
#ifndef ADMIN_PRESS_H
#define ADMIN_PRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/queue.h"
#include "base/secret.h"

struct admin;
struct admin_who;
struct http_request;
struct loop_timer;
struct session_next;

#define PRESSES 64

/* A request that asked for another secret. */
struct press {
	const struct admin_who *owner; /* NULL: it has its answer */
	unsigned char session[32], form[32]; /* hashes: secret; path and body */
	struct secret next;
	uint64_t until_ms; /* clock_mono_ms() */
	bool turned; /* the session goes on under `next` */
	char to[240]; /* where its answer led; "": to no other page */
};

/* One that waits for such an answer. */
struct press_wait {
	TAILQ_ENTRY(press_wait) link;
	struct http_request *req;
	const struct admin_who *who;
	bool gone; /* no such session any more */
	void (*refused)(void *arg);
	void *arg;
};

struct presses {
	struct press row[PRESSES];
	unsigned at;
	uint64_t lasts_ms; /* from its answer on */
	struct loop_timer *timer; /* for the next that is over */
	TAILQ_HEAD(, press_wait) waiting;
};

void presses_init(struct admin *admin);
void presses_clear(struct admin *admin);

/* Of a form, path and body, under the session's secret; one for each label. */
void press_hash(unsigned char out[32], const char *label,
    struct http_request *req, const struct secret *session);

/* Before the question; `who` has the secret that is to be another. */
void press_begin(struct http_request *req, const struct admin_who *who,
    const struct session_next *next);
/* The answer: it is another. A refused one is taken back (press_refused()). */
void press_turned(struct admin *admin, const struct admin_who *who);
/* The request is answered, by this redirect (NULL: by anything else). */
void press_end(
    struct admin *admin, const struct admin_who *who, const char *to);

/* Did another request ask for another secret for this session, of late? */
bool press_of_other(const struct admin *admin, const struct admin_who *who);
/* The secret that the session goes on under by now. */
void press_follow(const struct admin *admin, struct secret *session);

/*
 * What `who` sent was refused. Was another faster that has changed the secret?
 * Then that is told, now or when it has its answer; else `refused` runs, now
 * or then. `w` lives as long as the request, and names all but its link.
 */
void press_refused(struct press_wait *w);

#endif
