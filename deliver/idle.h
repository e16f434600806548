/* SPDX-License-Identifier: ISC */
/*
 * idle.h - sessions that are between two messages, kept for the next one to
 * the same host, address, TLS policy and login.
 *
 * A session is given up when the peer says anything or leaves, after a few
 * seconds without use, and when it has carried enough or lived long enough.
 */
#ifndef DELIVER_IDLE_H
#define DELIVER_IDLE_H

#include <stddef.h>

struct client_conn;
struct idle;
struct loop;

/* Host, domain, login, address, owner and a hash of the password. */
#define IDLE_KEY_MAX 1024

struct idle *idle_new(struct loop *loop);
/* Closes all, and returns how many; QUIT leaves while the loop still runs. */
size_t idle_close(struct idle *idle);
/* NULL is fine. */
void idle_free(struct idle *idle);
/* NULL: none. */
struct client_conn *idle_take(struct idle *idle, const char *key);
/* Takes `conn`, and closes it if it is not worth keeping. */
void idle_put(struct idle *idle, const char *key, struct client_conn *conn);

#endif
