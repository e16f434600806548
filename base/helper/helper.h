/* SPDX-License-Identifier: ISC */
/*
 * helper.h - hostile text to UTF-8, by postern-decode
 *
 * A few processes wait, started ahead; each serves one request and ends. They
 * inherit one socket and nothing else: no other descriptor, no environment,
 * no signal setting. All of it runs on the loop.
 *
 * A helper that crashes, stalls or says too much is an ordinary outcome: it
 * is killed, helper.killed is logged and counted, and the answer says so. A
 * caller always has something to show without it.
 */
#ifndef BASE_HELPER_HELPER_H
#define BASE_HELPER_HELPER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/helper/wire.h"
#include "base/str.h"

struct conf;
struct helper_pool;
struct loop;

#define HELPER_PROCESSES 3 /* waiting or at work */
#define HELPER_QUEUE_MAX 128 /* requests not yet answered */
#define HELPER_DEADLINE_MS 5000 /* from the call to the answer */
#define HELPER_RETRY_MS 1000 /* after a start that failed; doubles */
#define HELPER_RETRY_MAX_MS 60000

/* admin.decode_program, or where it is installed. */
const char *helper_program(const struct conf *conf);

struct helper_request {
	enum helper_kind kind;
	enum helper_encoding encoding; /* of a leaf */
	bool more; /* `bytes` are only the start of the leaf */
	struct str charset, type; /* as declared, at most HELPER_NAME_MAX */
	struct str bytes; /* at most HELPER_INPUT_MAX */
	unsigned deadline_ms; /* 0: HELPER_DEADLINE_MS */
};

enum helper_outcome {
	HELPER_TEXT,
	HELPER_UNKNOWN, /* no such charset */
	HELPER_FAILED, /* crashed, killed, too late, or answered nonsense */
	HELPER_BUSY, /* too many requests wait; this one was not tried */
	HELPER_ABSENT, /* postern-decode cannot be started */
};

struct helper_answer {
	enum helper_outcome outcome;
	struct str text; /* borrowed; NOT checked: it may be any bytes */
	bool replaced; /* wrong bytes became U+FFFD */
	bool cut; /* the text goes on */
};

/* Once per request, from the loop, never from inside helper_decode(). */
typedef void helper_done_fn(void *arg, const struct helper_answer *a);

/* `path` is copied. */
struct helper_pool *helper_pool_new(struct loop *loop, const char *path);
/*
 * Ends the processes. Requests without an answer are dropped without `done`;
 * not to be called from a `done`. NULL is fine.
 */
void helper_pool_free(struct helper_pool *pool);

/*
 * For a person who looks whether this machine is in order: run the program
 * once on a text of ours, with a loop of its own. False: `err` says what is
 * wrong, the code being HELPER_FIT_*. Blocks, at most HELPER_DEADLINE_MS. A
 * caller must have no other children.
 */
enum { HELPER_FIT_START = 1, HELPER_FIT_ANSWER, HELPER_FIT_SANDBOX };
MUST_CHECK bool helper_fit(const char *path, struct err *err);

/* What the views in `r` show must stay until `done` has run. */
void helper_decode(struct helper_pool *pool, const struct helper_request *r,
    helper_done_fn *done, void *arg);

#endif
