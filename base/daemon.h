/* SPDX-License-Identifier: ISC */
/*
 * daemon.h - what every long-running program does before and around its work.
 *
 * Options of every program: -c FILE, --check, --show-config, --version,
 * --help. Core dumps are off, SIGPIPE is ignored, descriptors 0-2 are open.
 */
#ifndef BASE_DAEMON_H
#define BASE_DAEMON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/conf.h"
#include "base/err.h"

struct loop;

struct daemon {
	const char *program;
	char *conf_path;
	struct conf *conf;
	int exit_code; /* to return from main() when daemon_init() said no */
};

/* Each may be NULL. Called from the loop. */
struct daemon_handlers {
	void (*on_stop)(void *arg); /* SIGTERM, SIGINT */
	void (*on_reload)(void *arg); /* SIGHUP */
	void (*on_child)(void *arg); /* SIGCHLD */
};

/*
 * Read the command line and the configuration and start logging. False when
 * main() should return d->exit_code at once: help, --check, or a mistake
 * that has been reported.
 */
MUST_CHECK bool daemon_init(
    struct daemon *d, const char *program, int argc, char **argv);
void daemon_clear(struct daemon *d);

/*
 * Parse and check the file again; on success the new one replaces d->conf and
 * the old one is returned (caller frees once nothing borrows it). NULL, after
 * logging why, when the file is unusable: the old one stays.
 */
MUST_CHECK struct conf *daemon_reload(struct daemon *d);

/*
 * Also tells the service manager that a stop began, and answers its watchdog
 * (WatchdogSec=) for as long as the loop turns.
 */
struct daemon_signals;
struct daemon_signals *daemon_signals_new(
    struct loop *loop, const struct daemon_handlers *handlers, void *arg);
void daemon_signals_free(struct daemon_signals *s);

/* Tell the service manager and log daemon.ready; log daemon.stop. */
void daemon_ready(void);
void daemon_stopping(const char *why);

/* Core dumps off for this process; also for programs without the above. */
void daemon_harden(void);
/*
 * The version of libevent's package as dpkg knows it ("unknown" where there
 * is no dpkg); false when it is one with published holes.
 */
bool daemon_event_package(char *version, size_t size);
/* The version and the libraries that matter, as --version prints it. */
void daemon_print_version(const char *program);

#endif
