/* SPDX-License-Identifier: ISC */
/*
 * worker.c - wiring: sockets to doors, doors to the store.
 *
 * SIGHUP reads the configuration again and swaps it in; a file that cannot be
 * used changes nothing. SIGTERM stops accepting and waits, at most DRAIN_MS,
 * for sessions and for submissions whose COMMIT is under way.
 */
#include "gateway/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/daemon.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "gateway/board.h"
#include "gateway/sockets.h"
#include "net/listen.h"
#include "net/peer.h"
#include "net/proxy.h"
#include "net/tls.h"
#include "smtpd/smtpd.h"
#include "store/store.h"

#define DRAIN_MS 60000
#define TELL_MS 200
#define PROXY_MS 10000

struct door_in {
	struct worker *worker;
	enum door door;
	struct net_listener *listener;
};

struct worker {
	const struct worker_setup *setup;
	struct loop *loop;
	struct store *store;
	struct smtpd *smtpd;
	struct net_tls *tls_smtp, *tls_smtps;
	struct net_cidrs proxy_from;
	struct door_in *in;
	size_t in_n;
	struct loop_timer *tell, *hurry;
	bool draining, sessions_gone;
};

static bool start(struct worker *w, struct err *err);
static bool start_tls(struct worker *w, struct err *err);
static void open_doors(struct worker *w);
static void settings_from(struct smtpd_settings *set, const struct conf *conf);
static void on_accept(
    void *arg, evutil_socket_t fd, const struct net_peer *peer);
static void on_proxied(
    void *arg, evutil_socket_t fd, const struct net_peer *peer);
static void enter(
    struct door_in *in, evutil_socket_t fd, const struct net_peer *peer);
static void on_tell(void *arg);
static void on_reload(void *arg);
static void on_stop(void *arg);
static void on_sessions_gone(void *arg);
static void on_hurry(void *arg);
static void stop(struct worker *w);

int
worker_run(const struct worker_setup *setup)
{
	static const struct daemon_handlers handlers = { .on_stop = on_stop,
		.on_reload = on_reload };
	struct worker w = { .setup = setup };
	struct daemon_signals *signals;
	struct err err = { 0 };
	int code = 1;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	metrics_use_slot(setup->number + 1);
	sockets_keep(setup->sockets, setup->number);
	w.loop = loop_new();
	signals = daemon_signals_new(w.loop, &handlers, &w);
	if (start(&w, &err)) {
		loop_run(w.loop);
		code = 0;
	} else {
		log_error("daemon.failed", KV("why", err.text));
	}
	stop(&w);
	daemon_signals_free(signals);
	loop_free(w.loop);
	return code;
}

static bool
start(struct worker *w, struct err *err)
{
	const struct worker_setup *setup = w->setup;
	const struct conf *conf = setup->daemon->conf;
	struct smtpd_settings set;
	size_t i;

	for (i = 0; i < conf->smtp_proxy_from.n; i++)
		if (!net_cidrs_add(
			&w->proxy_from, conf->smtp_proxy_from.v[i], err))
			return false;
	if (!start_tls(w, err))
		return false;
	w->store = store_new(w->loop, conf, setup->number, setup->count, err);
	if (w->store == NULL)
		return false;
	settings_from(&set, conf);
	w->smtpd =
	    smtpd_new(w->loop, w->store, setup->ledger, setup->number, &set);
	w->hurry = loop_timer_new(w->loop, on_hurry, w);
	w->tell = loop_timer_new(w->loop, on_tell, w);
	open_doors(w);
	on_tell(w);
	return true;
}

static bool
start_tls(struct worker *w, struct err *err)
{
	const struct conf *conf = w->setup->daemon->conf;

	w->tls_smtp = net_tls_server_new(conf->tls_cert_file,
	    conf->tls_key_file, "smtp", w->setup->keys, err);
	if (w->tls_smtp == NULL)
		return false;
	w->tls_smtps = net_tls_server_new(conf->tls_cert_file,
	    conf->tls_key_file, "smtps", w->setup->keys, err);
	return w->tls_smtps != NULL;
}

static void
open_doors(struct worker *w)
{
	struct sockets *sockets = w->setup->sockets;
	struct door_in *in;
	size_t i;

	w->in = xcalloc(sockets->n, sizeof *w->in);
	for (i = 0; i < sockets->n; i++) {
		if (sockets->v[i].fd < 0)
			continue;
		in = &w->in[w->in_n++];
		in->worker = w;
		in->door = sockets->v[i].door;
		in->listener = net_listener_new(
		    loop_base(w->loop), sockets->v[i].fd, on_accept, in);
		sockets->v[i].fd = -1; /* the listener's now */
	}
	w->setup->board->worker[w->setup->number].serving = true;
}

static void
settings_from(struct smtpd_settings *set, const struct conf *conf)
{
	memset(set, 0, sizeof *set);
	snprintf(set->hostname, sizeof set->hostname, "%s", conf->hostname);
	snprintf(
	    set->banner, sizeof set->banner, "ESMTP %s", conf->smtp_banner);
	set->size_max = (uint64_t)conf->smtp_size_max;
	set->rcpt_max = (unsigned)conf->smtp_rcpt_max;
	set->idle_ms = (unsigned)conf->smtp_idle_timeout;
	set->transaction_ms = (unsigned)conf->smtp_transaction_timeout;
	set->errors_max = (unsigned)conf->smtp_errors_max;
}

static void
on_accept(void *arg, evutil_socket_t fd, const struct net_peer *peer)
{
	struct door_in *in = arg;
	struct worker *w = in->worker;

	if (net_cidrs_has(&w->proxy_from, peer))
		net_proxy_start(
		    loop_base(w->loop), fd, peer, PROXY_MS, on_proxied, in);
	else
		enter(in, fd, peer);
}

static void
on_proxied(void *arg, evutil_socket_t fd, const struct net_peer *peer)
{
	if (fd >= 0)
		enter(arg, fd, peer);
}

static void
enter(struct door_in *in, evutil_socket_t fd, const struct net_peer *peer)
{
	struct worker *w = in->worker;

	switch (in->door) {
	case DOOR_SMTP:
		smtpd_accept(w->smtpd, fd, peer, w->tls_smtp, false);
		break;
	case DOOR_SMTPS:
		smtpd_accept(w->smtpd, fd, peer, w->tls_smtps, true);
		break;
	case DOOR_API:
		evutil_closesocket(fd);
		break;
	}
}

static void
on_tell(void *arg)
{
	struct worker *w = arg;
	struct board_worker *told = &w->setup->board->worker[w->setup->number];

	told->store = store_ready(w->store);
	told->limiter = store_limiter_up(w->store);
	loop_timer_set(w->tell, TELL_MS);
	if (w->draining && w->sessions_gone && store_pending(w->store) == 0)
		loop_stop(w->loop);
}

static void
on_reload(void *arg)
{
	struct worker *w = arg;
	struct conf *old = daemon_reload(w->setup->daemon), *conf;
	struct smtpd_settings set;
	struct err err = { 0 };

	if (old == NULL)
		return;
	conf = w->setup->daemon->conf;
	store_reconf(w->store, conf);
	settings_from(&set, conf);
	smtpd_configure(w->smtpd, &set);
	if (!net_tls_server_reload(
		w->tls_smtp, conf->tls_cert_file, conf->tls_key_file, &err) ||
	    !net_tls_server_reload(
		w->tls_smtps, conf->tls_cert_file, conf->tls_key_file, &err))
		log_error("daemon.reload", KV("why", err.text));
	conf_free(old);
}

static void
on_stop(void *arg)
{
	struct worker *w = arg;
	size_t i;

	if (w->draining)
		return;
	w->draining = true;
	w->setup->board->worker[w->setup->number].serving = false;
	for (i = 0; i < w->in_n; i++) {
		net_listener_free(w->in[i].listener);
		w->in[i].listener = NULL;
	}
	if (w->smtpd == NULL) {
		loop_stop(w->loop);
		return;
	}
	loop_timer_set(w->hurry, DRAIN_MS);
	smtpd_drain(w->smtpd, on_sessions_gone, w);
}

static void
on_sessions_gone(void *arg)
{
	struct worker *w = arg;

	w->sessions_gone = true;
	on_tell(w);
}

static void
on_hurry(void *arg)
{
	struct worker *w = arg;

	loop_stop(w->loop);
}

static void
stop(struct worker *w)
{
	size_t i;

	w->setup->board->worker[w->setup->number].serving = false;
	for (i = 0; i < w->in_n; i++)
		net_listener_free(w->in[i].listener);
	free(w->in);
	smtpd_free(w->smtpd);
	store_free(w->store);
	net_tls_free(w->tls_smtp);
	net_tls_free(w->tls_smtps);
	loop_timer_free(w->tell);
	loop_timer_free(w->hurry);
	sockets_close(w->setup->sockets);
}
