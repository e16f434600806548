/* SPDX-License-Identifier: ISC */
/*
 * supervisor.h - the parent of the workers (decision D23).
 */
#ifndef GATEWAY_SUPERVISOR_H
#define GATEWAY_SUPERVISOR_H

struct daemon;

/*
 * Bind, drop privileges, check the database, fork workers, replace those that
 * die, until SIGTERM or SIGINT. Returns the exit code. In a worker process it
 * returns that worker's.
 */
int supervisor_run(struct daemon *daemon);

#endif
