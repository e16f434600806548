/* SPDX-License-Identifier: ISC */
/*
 * supervisor.c - binds, forks, watches; touches no byte of any client.
 *
 * Workers are forked only from run(), between two turns of the loop, so that
 * a child never stands inside the parent's event loop. A worker that dies is
 * replaced after 1 s, twice as long each time it dies again soon, at most
 * 30 s; its sockets stay open here meanwhile and clients wait in the queue.
 */
#include "gateway/supervisor.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/daemon.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "gateway/board.h"
#include "gateway/sockets.h"
#include "gateway/worker.h"
#include "net/ledger.h"
#include "net/metrics_http.h"
#include "net/tls.h"
#include "store/health.h"
#include "store/store.h"

#define PROGRAM_USER "posternd"
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 30000
#define STABLE_MS 60000 /* lived so long: the back-off starts anew */
#define LAST_MS 65000 /* a worker's own drain, and a little */
#define LOOK_MS 50

struct child {
	pid_t pid; /* 0: none */
	uint64_t born_ms, due_ms;
	unsigned backoff_ms;
};

struct supervisor {
	struct daemon *daemon;
	struct loop *loop;
	struct daemon_signals *signals;
	struct metrics_http *page;
	struct loop_timer *look, *last;
	struct sockets sockets;
	struct board *board;
	struct net_ledger *ledger;
	struct net_tls_keys keys;
	struct child child[BOARD_WORKERS_MAX];
	unsigned count;
	bool told_ready, stopping, hurry, failed;
};

static bool prepare(struct supervisor *sv, struct err *err);
static bool drop_privileges(struct err *err);
static bool start_page(struct supervisor *sv, struct err *err);
static int run(struct supervisor *sv);
static bool spawn_due(struct supervisor *sv, int *worker_code);
static int be_worker(struct supervisor *sv, unsigned number);
static void on_child(void *arg);
static void give_up(struct supervisor *sv);
static void bury(struct supervisor *sv, unsigned number, int status);
static void on_look(void *arg);
static void on_stop(void *arg);
static void on_last(void *arg);
static void on_reload(void *arg);
static void signal_all(struct supervisor *sv, int signo);
static bool any_alive(const struct supervisor *sv);
static enum metrics_ready on_ready(void *arg, char *why, size_t size);
static void clear(struct supervisor *sv);

int
supervisor_run(struct daemon *daemon)
{
	struct supervisor sv = { .daemon = daemon };
	struct err err = { 0 };
	int code = 1;

	if (prepare(&sv, &err))
		code = run(&sv);
	else
		log_error("daemon.failed", KV("why", err.text));
	clear(&sv);
	return code;
}

static bool
prepare(struct supervisor *sv, struct err *err)
{
	const struct conf *conf = sv->daemon->conf;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	sv->count = (unsigned)(conf->workers > 0 ? conf->workers
			       : cores > 0       ? cores
						 : 1);
	if (sv->count > BOARD_WORKERS_MAX)
		sv->count = BOARD_WORKERS_MAX;
	metrics_init(sv->count + 1, sv->daemon->program);
	sv->board = mmap(NULL, sizeof *sv->board, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BUG_ON(sv->board == MAP_FAILED);
	sv->ledger = net_ledger_new();
	BUG_ON(sv->ledger == NULL);
	net_tls_keys_make(&sv->keys);
	return sockets_bind(&sv->sockets, conf, sv->count, err) &&
	       drop_privileges(err) &&
	       store_check(conf, conf_store_login(sv->daemon->program), err) &&
	       start_page(sv, err);
}

/* Started as root (for low ports): become posternd, for good. */
static bool
drop_privileges(struct err *err)
{
	const struct passwd *pw;

	if (geteuid() != 0)
		return true;
	pw = getpwnam(PROGRAM_USER);
	if (pw == NULL || pw->pw_uid == 0) {
		err_set(err, 0,
		    "started as root, and there is no user " PROGRAM_USER
		    " to become; create it or start as another user");
		return false;
	}
	if (initgroups(PROGRAM_USER, pw->pw_gid) != 0 ||
	    setgid(pw->pw_gid) != 0 || setuid(pw->pw_uid) != 0 ||
	    setuid(0) == 0) {
		err_set(err, errno, "cannot become " PROGRAM_USER ": %s",
		    strerror(errno));
		return false;
	}
	return true;
}

static bool
start_page(struct supervisor *sv, struct err *err)
{
	char listen[128];

	sv->loop = loop_new();
	conf_metrics_listen(
	    sv->daemon->conf, sv->daemon->program, listen, sizeof listen);
	sv->page = metrics_http_start(sv->loop, listen, on_ready, sv, err);
	return sv->page != NULL;
}

static int
run(struct supervisor *sv)
{
	static const struct daemon_handlers handlers = {
		.on_stop = on_stop, .on_reload = on_reload, .on_child = on_child
	};
	int code = 0;

	sv->signals = daemon_signals_new(sv->loop, &handlers, sv);
	sv->look = loop_timer_new(sv->loop, on_look, sv);
	sv->last = loop_timer_new(sv->loop, on_last, sv);
	on_look(sv);
	for (;;) {
		if (!sv->stopping && spawn_due(sv, &code))
			return code; /* we are a worker that has ended */
		if (sv->stopping && !any_alive(sv))
			break;
		loop_run(sv->loop);
	}
	daemon_stopping(sv->failed  ? "a worker cannot start"
			: sv->hurry ? "workers were killed"
				    : "drained");
	return sv->failed ? 1 : 0;
}

/* True in a worker, when it is done. */
static bool
spawn_due(struct supervisor *sv, int *worker_code)
{
	uint64_t now = clock_mono_ms();
	unsigned i;
	pid_t pid;

	for (i = 0; i < sv->count; i++) {
		if (sv->child[i].pid != 0 || sv->child[i].due_ms > now)
			continue;
		pid = fork();
		if (pid == 0) {
			*worker_code = be_worker(sv, i);
			return true;
		}
		if (pid < 0) {
			log_error("worker.exit", KV("why", strerror(errno)));
			sv->child[i].due_ms = now + BACKOFF_MIN_MS;
			continue;
		}
		sv->child[i].pid = pid;
		sv->child[i].born_ms = now;
	}
	return false;
}

/* The parent's loop, timers and page are not ours: let go of them first. */
static int
be_worker(struct supervisor *sv, unsigned number)
{
	struct worker_setup setup = { .number = number,
		.count = sv->count,
		.daemon = sv->daemon,
		.board = sv->board,
		.ledger = sv->ledger,
		.keys = &sv->keys,
		.sockets = &sv->sockets };

	/* The service manager listens to the supervisor alone. */
	(void)unsetenv("NOTIFY_SOCKET");
	event_reinit(loop_base(sv->loop));
	loop_timer_free(sv->look);
	loop_timer_free(sv->last);
	daemon_signals_free(sv->signals);
	metrics_http_free(sv->page);
	loop_free(sv->loop);
	sv->look = sv->last = NULL;
	sv->signals = NULL;
	sv->page = NULL;
	sv->loop = NULL;
	return worker_run(&setup);
}

static void
on_child(void *arg)
{
	struct supervisor *sv = arg;
	int status;
	unsigned i;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (i = 0; i < sv->count; i++)
			if (sv->child[i].pid == pid)
				bury(sv, i, status);
	if (sv->stopping && !any_alive(sv))
		loop_stop(sv->loop);
}

/*
 * What stops a worker before anybody is served (a key, a certificate) stops
 * the next one too: end, and let the service manager say so.
 */
static void
give_up(struct supervisor *sv)
{
	log_error("daemon.failed",
	    KV("why", "a worker cannot start; its line above says why"));
	sv->failed = true;
	on_stop(sv);
}

static void
bury(struct supervisor *sv, unsigned number, int status)
{
	struct child *c = &sv->child[number];
	uint64_t now = clock_mono_ms();
	char why[64];

	if (WIFSIGNALED(status))
		snprintf(why, sizeof why, "signal %d", WTERMSIG(status));
	else
		snprintf(why, sizeof why, "exit %d", WEXITSTATUS(status));
	if (!sv->stopping)
		log_warn("worker.exit", KV("child", c->pid), KV("why", why));
	if (!sv->told_ready && !sv->stopping && WIFEXITED(status) &&
	    WEXITSTATUS(status) != 0)
		give_up(sv);
	net_ledger_forget(sv->ledger, number);
	memset(&sv->board->worker[number], 0, sizeof *sv->board->worker);
	if (now - c->born_ms >= STABLE_MS || c->backoff_ms == 0)
		c->backoff_ms = BACKOFF_MIN_MS;
	c->due_ms = now + c->backoff_ms;
	c->backoff_ms = c->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
							   : c->backoff_ms * 2;
	c->pid = 0;
}

/* Has a worker come due? Are all serving for the first time? */
static void
on_look(void *arg)
{
	struct supervisor *sv = arg;
	uint64_t now = clock_mono_ms();
	unsigned i, serving = 0, limiter = 0;

	loop_timer_set(sv->look, LOOK_MS);
	for (i = 0; i < sv->count; i++) {
		if (sv->child[i].pid == 0 && sv->child[i].due_ms <= now)
			loop_stop(sv->loop); /* run() forks it */
		serving +=
		    sv->board->worker[i].serving && sv->board->worker[i].store;
		limiter += sv->board->worker[i].limiter;
	}
	metrics_set(M_REDIS_UP, limiter == sv->count, NULL, NULL);
	if (serving == sv->count && !sv->told_ready) {
		sv->told_ready = true;
		daemon_ready();
	}
}

static void
on_stop(void *arg)
{
	struct supervisor *sv = arg;

	if (!sv->stopping)
		loop_timer_set(sv->last, LAST_MS);
	sv->stopping = true;
	sockets_close(&sv->sockets); /* the queues go with the workers */
	signal_all(sv, SIGTERM);
	if (!any_alive(sv))
		loop_stop(sv->loop);
}

static void
on_last(void *arg)
{
	struct supervisor *sv = arg;

	sv->hurry = true;
	signal_all(sv, SIGKILL);
}

static void
on_reload(void *arg)
{
	struct supervisor *sv = arg;
	struct conf *old = daemon_reload(sv->daemon);

	if (old == NULL)
		return; /* unusable: the workers need not hear of it */
	conf_free(old);
	signal_all(sv, SIGHUP);
}

static void
signal_all(struct supervisor *sv, int signo)
{
	unsigned i;

	for (i = 0; i < sv->count; i++)
		if (sv->child[i].pid > 0)
			kill(sv->child[i].pid, signo);
}

static bool
any_alive(const struct supervisor *sv)
{
	unsigned i;

	for (i = 0; i < sv->count; i++)
		if (sv->child[i].pid > 0)
			return true;
	return false;
}

static enum metrics_ready
on_ready(void *arg, char *why, size_t size)
{
	struct supervisor *sv = arg;
	enum health_state health =
	    (enum health_state)sv->board->worker[0].health;
	unsigned i, store = 0, limiter = 0;

	for (i = 0; i < sv->count; i++) {
		store +=
		    sv->board->worker[i].serving && sv->board->worker[i].store;
		limiter += sv->board->worker[i].limiter;
	}
	/* Worker 0 asks for all; while it is being replaced nobody does. */
	if (health == HEALTH_UNKNOWN && sv->told_ready)
		health = HEALTH_GOOD;
	if (sv->stopping || store == 0 || health != HEALTH_GOOD) {
		snprintf(why, size, "%s",
		    sv->stopping ? "stopping"
		    : store == 0 ? "no worker has a database"
				 : health_text(health));
		return METRICS_NOT_READY;
	}
	if (store < sv->count || limiter < sv->count) {
		snprintf(why, size, "%s",
		    store < sv->count ? "a worker is down" : "no Redis");
		return METRICS_DEGRADED;
	}
	return METRICS_READY;
}

static void
clear(struct supervisor *sv)
{
	loop_timer_free(sv->look);
	loop_timer_free(sv->last);
	daemon_signals_free(sv->signals);
	metrics_http_free(sv->page);
	loop_free(sv->loop);
	sockets_close(&sv->sockets);
	net_ledger_free(sv->ledger);
	munmap(sv->board, sizeof *sv->board);
	explicit_bzero(&sv->keys, sizeof sv->keys);
}
