/* SPDX-License-Identifier: ISC */
/*
 * second.h - asking postern-auth (auth/auth.h names the questions)
 */
#ifndef ADMIN_SECOND_H
#define ADMIN_SECOND_H

#include "base/buf.h"
#include "base/secret.h"
#include "base/str.h"

struct admin;
struct arena;

#define SECOND_FIELDS 40

struct second {
	int status, wait_s; /* 503: nobody answers */
	char code[40];
	struct str field[SECOND_FIELDS]; /* NUL-terminated, in the arena */
	size_t n;
};

/* Begin a question; add its fields with buf_lp(). */
void second_begin(
    struct buf *question, const char *name, const struct secret *session);
/* Of one that, answered with 200, leaves the session under the next secret. */
void second_begin_turn(struct buf *question, const char *name,
    const struct secret *session, const unsigned char next_sha256[32]);
/* `done` runs once, later. Wipes the question. */
void second_ask(struct admin *admin, struct buf *question, struct arena *mem,
    struct second *out, void (*done)(void *arg), void *arg);

/* The field of a form that a passkey filled: four parts with dots between. */
MUST_CHECK bool second_assertion(
    struct buf *question, const char *text, struct arena *mem);

/* A name of page_change.c's sentences for a refusal. */
const char *second_error(const struct second *s);

#endif
