/* SPDX-License-Identifier: ISC */
/*
 * worker.c - wiring: sockets to doors, doors to the store.
 *
 * SIGHUP reads the configuration again and swaps it in; a file that cannot be
 * read changes nothing, and a filter or certificate in it that cannot be used
 * leaves those as they were. SIGTERM stops accepting and waits, at most
 * DRAIN_MS, for sessions and for submissions whose COMMIT is under way.
 */
#include "gateway/worker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/conf.h"
#include "base/daemon.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "gateway/board.h"
#include "gateway/filters.h"
#include "gateway/sockets.h"
#include "net/listen.h"
#include "net/peer.h"
#include "net/proxy.h"
#include "net/tls.h"
#include "seal/jws.h"
#include "seal/keyfile.h"
#include "smtpd/smtpd.h"
#include "store/filter.h"
#include "store/health.h"
#include "store/store.h"

#define DRAIN_MS 58000
#define LAST_WORDS_MS 2000
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
	struct health *health; /* of worker 0, for all */
	struct smtpd *smtpd;
	struct api *api;
	struct filters *filters;
	struct net_tls *tls_smtp, *tls_smtps, *tls_api;
	struct net_cidrs proxy_from;
	struct buf identity_keys; /* JSON; read once */
	struct secret e2b_secret; /* empty: none */
	struct door_in *in;
	size_t in_n;
	struct loop_timer *tell, *hurry;
	bool draining, expelled;
	unsigned doors_open; /* of the doors that are draining */
};

static bool start(struct worker *w, struct err *err);
static bool start_tls(struct worker *w, struct err *err);
static bool make_tls(
    struct worker *w, struct net_tls **tls, const char *name, struct err *err);
static bool reload_tls(struct worker *w, struct err *err);
static void read_identity_keys(struct worker *w);
static void read_e2b_secret(struct worker *w);
static void api_from(struct worker *w, struct api_setup *setup);
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
static void on_door_empty(void *arg);
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
	loop_gather_log(w.loop);
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
	struct store_filter hook;
	struct api_setup api;
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
	w->filters = filters_new(w->loop, conf, err);
	if (w->filters == NULL)
		return false;
	filters_hook(w->filters, &hook);
	store_set_filter(w->store, &hook);
	if (setup->number == 0)
		w->health = health_new(w->loop, conf,
		    conf_store_login(setup->daemon->program),
		    setup->daemon->program);
	settings_from(&set, conf);
	read_identity_keys(w);
	read_e2b_secret(w);
	w->smtpd =
	    smtpd_new(w->loop, w->store, setup->ledger, setup->number, &set);
	api_from(w, &api);
	w->api = api_new(w->loop, w->store, &api);
	w->hurry = loop_timer_new(w->loop, on_hurry, w);
	w->tell = loop_timer_new(w->loop, on_tell, w);
	open_doors(w);
	on_tell(w);
	return true;
}

static bool
start_tls(struct worker *w, struct err *err)
{
	return make_tls(w, &w->tls_smtp, "smtp", err) &&
	       make_tls(w, &w->tls_smtps, "smtps", err) &&
	       make_tls(w, &w->tls_api, "api", err);
}

static struct net_tls_files
tls_files(const struct conf *conf)
{
	return (struct net_tls_files){ conf->tls_cert_file, conf->tls_key_file,
		conf->tls_more_dir };
}

static bool
make_tls(
    struct worker *w, struct net_tls **tls, const char *name, struct err *err)
{
	const struct conf *conf = w->setup->daemon->conf;
	const struct net_tls_files files = tls_files(conf);

	*tls = net_tls_server_new(&files, name, w->setup->keys, err);
	return *tls != NULL;
}

static bool
reload_tls(struct worker *w, struct err *err)
{
	struct net_tls *all[] = { w->tls_smtp, w->tls_smtps, w->tls_api };
	const struct net_tls_files files = tls_files(w->setup->daemon->conf);
	size_t i;

	for (i = 0; i < sizeof all / sizeof *all; i++)
		if (!net_tls_server_reload(all[i], &files, err))
			return false;
	return true;
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
	set->sessions_max = (unsigned)conf->smtp_sessions_max;
	set->peer_max = (unsigned)conf->smtp_peer_max;
	set->inbox_max = (unsigned)conf->smtp_inbox_max;
}

/* Where mail leaves without an identity there is no key, and no file. */
static void
put_identity_key(struct buf *out, const char *path)
{
	struct secret pub = { 0 };
	struct err err = { 0 };

	if (path[0] == '\0' || access(path, F_OK) != 0)
		return;
	if (!seal_keyfile_load(&pub, path, SEAL_KEYFILE_IDENTITY_PUB, &err)) {
		log_error("daemon.failed", KV("why", err.text));
		return;
	}
	buf_puts(out, out->n == 0 ? "{\"keys\":[" : ",");
	seal_jwk_put(out, pub.b);
}

/* The key in use, and those that mail on its way may be signed with. */
static void
read_identity_keys(struct worker *w)
{
	const struct conf *conf = w->setup->daemon->conf;
	const struct conf_list *more = &conf->keys_identity_old_pub_files;
	size_t i;

	put_identity_key(&w->identity_keys, conf->keys_identity_pub_file);
	for (i = 0; i < more->n; i++)
		put_identity_key(&w->identity_keys, more->v[i]);
	if (w->identity_keys.n > 0)
		buf_puts(&w->identity_keys, "]}");
}

/* Without it the route is not there; an unreadable one is said and the same. */
static void
read_e2b_secret(struct worker *w)
{
	const char *path = w->setup->daemon->conf->keys_e2b_secret_file;
	struct err err = { 0 };

	if (path[0] != '\0' && !secret_load(&w->e2b_secret, path, 0, &err))
		log_error("daemon.failed", KV("why", err.text));
}

static void
api_from(struct worker *w, struct api_setup *setup)
{
	const struct conf *conf = w->setup->daemon->conf;

	*setup = (struct api_setup){ .tls = w->tls_api,
		.ledger = w->setup->ledger,
		.worker = w->setup->number,
		.json_max = (size_t)conf->api_json_max,
		.spool_dir = conf->api_spool_dir,
		.spool_max = (uint64_t)conf->api_spool_max,
		.size_max = (size_t)conf->smtp_size_max,
		.rcpt_max = (size_t)conf->smtp_rcpt_max,
		.connections_max = (unsigned)conf->api_connections_max,
		.identity_keys =
		    w->identity_keys.n > 0 ? buf_cstr(&w->identity_keys) : NULL,
		.e2b_secret = w->e2b_secret.n > 0 ? &w->e2b_secret : NULL };
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
		api_accept(w->api, fd, peer);
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
	if (w->health != NULL)
		told->health = health_state(w->health);
	loop_timer_set(w->tell, TELL_MS);
	if (w->draining && w->doors_open == 0 && store_pending(w->store) == 0)
		loop_stop(w->loop);
}

static void
on_reload(void *arg)
{
	struct worker *w = arg;
	struct conf *old = daemon_reload(w->setup->daemon), *conf;
	struct smtpd_settings set;
	struct api_setup api;
	struct err err = { 0 };

	if (old == NULL)
		return;
	conf = w->setup->daemon->conf;
	store_reconf(w->store, conf);
	settings_from(&set, conf);
	smtpd_configure(w->smtpd, &set);
	api_from(w, &api);
	api_configure(w->api, &api);
	if (!filters_configure(w->filters, conf, &err))
		log_error("daemon.reload", KV("why", err.text));
	if (!reload_tls(w, &err))
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
	store_drain(w->store);
	w->doors_open = 2;
	smtpd_drain(w->smtpd, on_door_empty, w);
	api_drain(w->api, on_door_empty, w);
}

static void
on_door_empty(void *arg)
{
	struct worker *w = arg;

	w->doors_open--;
	on_tell(w);
}

static void
on_hurry(void *arg)
{
	struct worker *w = arg;

	if (w->expelled || w->smtpd == NULL) {
		loop_stop(w->loop);
		return;
	}
	w->expelled = true;
	smtpd_expel(w->smtpd);
	loop_timer_set(w->hurry, LAST_WORDS_MS);
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
	api_free(w->api);
	health_free(w->health);
	store_free(w->store);
	filters_free(w->filters);
	buf_free(&w->identity_keys);
	secret_wipe(&w->e2b_secret);
	net_tls_free(w->tls_smtp);
	net_tls_free(w->tls_smtps);
	net_tls_free(w->tls_api);
	loop_timer_free(w->tell);
	loop_timer_free(w->hurry);
	sockets_close(w->setup->sockets);
}
