/* SPDX-License-Identifier: ISC */
/*
 * client.h - one message shown to one filter over the milter protocol.
 *
 * The MTA's side, asynchronous: bytes are given as they come, the filter is
 * asked for its verdict when all are there. What it wants done (reject, hold,
 * headers, another body) is only noted; the message never changes. A filter
 * that fails, or does not answer in time, gives a verdict of its own kind.
 */
#ifndef MILTER_CLIENT_H
#define MILTER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/str.h"

#define MILTER_NAME_MAX 32
#define MILTER_NOTE_MAX 300

struct loop;
struct milter;
struct milter_gate;

enum milter_default {
	MILTER_DEFAULT_HOLD, /* note that it is silent; no mail leaves alone */
	MILTER_DEFAULT_ACCEPT, /* go on as if it were not there */
	MILTER_DEFAULT_TEMPFAIL, /* the agent is told to try again */
};

struct milter_conf {
	char name[MILTER_NAME_MAX];
	struct sockaddr_storage addr;
	socklen_t addr_len;
	unsigned timeout_ms; /* for each answer, and for a turn */
	unsigned max; /* conversations at once, for milter_gate_new() */
	enum milter_default on_failure;
};

/* Borrowed during milter_start(). */
struct milter_mail {
	const char *hostname; /* ours */
	const char *id; /* "msg_..." */
	const char *from; /* the inbox, which has signed in */
	const struct str *rcpt;
	size_t rcpt_count;
};

enum milter_verdict {
	MILTER_PENDING,
	MILTER_ACCEPT,
	MILTER_REJECT,
	MILTER_TEMPFAIL,
	MILTER_DISCARD,
	MILTER_FAILED, /* no connection, no answer, or nonsense */
};

struct milter_result {
	enum milter_verdict verdict;
	bool quarantine; /* it asks to keep the mail back */
	bool header; /* it would add or change header fields */
	bool rewrite; /* it would change body, sender or recipients */
	char note[MILTER_NOTE_MAX]; /* why, in printable UTF-8; "" */
};

/* Reads "NAME ADDRESS [SECONDS] [hold|accept|tempfail] [max=N]", ADDRESS
 * being unix:/path or inet:PORT@127.0.0.1 (or ::1: filters have no network).
 * False: `why` says what is wrong. */
bool milter_conf_parse(
    struct milter_conf *out, struct str text, const char **why);

/*
 * `done` runs once, later, when there is a verdict: soonest after an early
 * one, else after milter_finish(). `room` runs when milter_feed() has said no
 * and there is room again. Copies what it is given. With a gate (may be NULL)
 * the filter hears of it when all is there, or as much as is held back, and a
 * place is free.
 */
struct milter *milter_start(struct loop *loop, const struct milter_conf *conf,
    struct milter_gate *gate, const struct milter_mail *mail,
    void (*done)(void *arg), void (*room)(void *arg), void *arg);
/* Header and body, any pieces; all are taken. False: enough for now. */
bool milter_feed(struct milter *m, const void *p, size_t n);
/* That was all of it. */
void milter_finish(struct milter *m);
const struct milter_result *milter_result(const struct milter *m);
/* Closes; no more callbacks. NULL is fine. */
void milter_free(struct milter *m);

#endif
