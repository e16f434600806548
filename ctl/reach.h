/* SPDX-License-Identifier: ISC */
/* reach.h - is somebody there, and what does a program say of itself? */
#ifndef CTL_REACH_H
#define CTL_REACH_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/buf.h"

struct conf;

/* A connection within three seconds, or -1. */
int reach_address(const struct sockaddr *to, socklen_t n);
/*
 * GET /`path` of the program `more` ports behind metrics.listen: the status,
 * the body in `out`; 0 when nobody answers.
 */
int reach_get(
    const struct conf *conf, unsigned more, const char *path, struct buf *out);
/* First line of /readyz. */
int reach_readyz(
    const struct conf *conf, unsigned more, char *said, size_t size);

#endif
