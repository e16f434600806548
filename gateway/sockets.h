/* SPDX-License-Identifier: ISC */
/*
 * sockets.h - every listening socket of posternd, bound once by the
 * supervisor before it drops privileges.
 *
 * Each worker has its own socket per address (SO_REUSEPORT). They stay open
 * in the supervisor, so connections wait in the queue of a worker that died
 * until the next one takes its number.
 */
#ifndef GATEWAY_SOCKETS_H
#define GATEWAY_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

struct conf;
struct err;

enum door { DOOR_SMTP, DOOR_SMTPS, DOOR_API };

struct bound {
	enum door door;
	unsigned worker;
	int fd;
};

struct sockets {
	struct bound *v;
	size_t n;
};

/* Bind for `workers` workers; false and `err`, with all closed, if one fails.
 */
bool sockets_bind(struct sockets *sockets, const struct conf *conf,
    unsigned workers, struct err *err);

/* In a worker: close the sockets of all others. */
void sockets_keep(struct sockets *sockets, unsigned worker);

/* Close what is still ours; a handed-over socket has fd -1. */
void sockets_close(struct sockets *sockets);

#endif
