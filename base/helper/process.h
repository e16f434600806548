/* SPDX-License-Identifier: ISC */
/*
 * process.h - one run of postern-decode, inside base/helper/ only
 */
#ifndef BASE_HELPER_PROCESS_H
#define BASE_HELPER_PROCESS_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/helper/helper.h"

struct event;
struct process;

/*
 * The reply went wrong (`why`: a word for the log). The process is to be
 * ended; it does not call again.
 */
typedef void process_fn(struct process *p, const char *why);

struct process {
	void *arg; /* the caller's */
	process_fn *broken;
	pid_t pid; /* 0: none */
	int fd;
	struct event *readable, *writable;
	unsigned char head[HELPER_REQUEST_HEAD + 2 * HELPER_NAME_MAX];
	size_t head_n, sent;
	struct str bytes;
	struct buf reply;
};

/* Starts one; it then waits for its request. */
MUST_CHECK bool process_start(
    struct process *p, struct loop *loop, const char *path, struct err *err);
/* Hand over a request, within the limits of wire.h. */
void process_send(struct process *p, const struct helper_request *r);
void process_kill(struct process *p);
/* Has it ended? Then its wait status; the rest of the reply is read. */
bool process_ended(struct process *p, int *status);
/* HELPER_TEXT or HELPER_UNKNOWN; HELPER_FAILED when it is no reply. */
enum helper_outcome process_reply(
    const struct process *p, struct helper_answer *a);
/* Forgets it; kills and waits when it has not ended. */
void process_clear(struct process *p);

#endif
