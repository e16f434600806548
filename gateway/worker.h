/* SPDX-License-Identifier: ISC */
/*
 * worker.h - one worker process: its loop, its store, its doors.
 */
#ifndef GATEWAY_WORKER_H
#define GATEWAY_WORKER_H

struct board;
struct daemon;
struct net_ledger;
struct net_tls_keys;
struct sockets;

struct worker_setup {
	unsigned number, count;
	struct daemon *daemon; /* its configuration is ours in this process */
	struct board *board;
	struct net_ledger *ledger;
	const struct net_tls_keys *keys;
	struct sockets *sockets; /* all of them: the others' get closed */
};

/* Serve until SIGTERM and the drain behind it; returns the exit code. */
int worker_run(const struct worker_setup *setup);

#endif
