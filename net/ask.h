/* SPDX-License-Identifier: ISC */
/*
 * ask.h - one question and one answer over a socket of this machine.
 *
 * How postern-admin and posternctl speak to postern-auth: a connection
 * carries one frame each way, u32 length and that many bytes, and ends. What
 * is in a frame are fields behind their u32 length. Frames carry secrets, so
 * their memory is wiped.
 */
#ifndef NET_ASK_H
#define NET_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct event_base;

#define ASK_MAX 49152 /* bytes of a frame */
#define ASK_OPEN_MAX 64 /* connections answered at one time */
#define ASK_TIMEOUT_S 10

/* Answering. `question` is borrowed for the call. */
struct ask_server;
struct ask;
typedef void ask_fn(void *arg, struct ask *ask, struct str question);

/*
 * Listen at `path` (what lies there of an earlier run goes), readable by
 * owner and group. NULL and `err` on failure.
 */
MUST_CHECK struct ask_server *ask_server_new(struct event_base *base,
    const char *path, ask_fn *fn, void *arg, struct err *err);
/* Removes the socket; open questions end without an answer. NULL is fine. */
void ask_server_free(struct ask_server *server);
/* Exactly once for each question; wipes `answer`. */
void ask_answer(struct ask *ask, struct buf *answer);

/*
 * Asking: `done` runs once, later, with NULL when nobody answered; the
 * answer is borrowed. Wipes `question`.
 */
typedef void ask_done_fn(void *arg, const struct str *answer);
void ask_send(struct event_base *base, const char *path, struct buf *question,
    ask_done_fn *done, void *arg);
/* The same, and wait for it; buf_wipe() the answer. */
MUST_CHECK bool ask_wait(const char *path, struct buf *question,
    struct buf *answer, struct err *err);

#endif
