/* SPDX-License-Identifier: ISC */
/*
 * worker.h - the loop of postern-deliver: claim what is due, run a job for
 * each, keep leases alive, sweep what is over, stop gracefully.
 */
#ifndef DELIVER_WORKER_H
#define DELIVER_WORKER_H

struct daemon;

/* Runs until stopped; the exit code of the process. */
int worker_run(struct daemon *daemon);

#endif
