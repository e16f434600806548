/* SPDX-License-Identifier: ISC */
/*
 * main.c - postern-admin: the operators' pages
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/admin.h"
#include "admin/foreign.h"
#include "admin/job.h"
#include "admin/live.h"
#include "admin/page.h"
#include "base/conf.h"
#include "base/daemon.h"
#include "base/helper/helper.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/server.h"
#include "net/ledger.h"
#include "net/listen.h"
#include "net/metrics_http.h"
#include "net/peer.h"
#include "net/tls.h"
#include "seal/key.h"
#include "seal/keyfile.h"
#include "store/health.h"
#include "store/redis.h"
#include "store/search.h"
#include "store/store.h"

#define PROGRAM "postern-admin"
#define THREADS 2
#define DOOR_THREADS 1
#define QUEUE 32 /* of each pool */
#define PER_PEER 250 /* connections; many may sit behind one address */

struct program {
	struct daemon daemon;
	struct admin admin;
	struct net_tls *tls;
	struct http_server *http;
	struct metrics_http *metrics;
	struct health *health;
	struct daemon_signals *signals;
	struct search_filler *filler;
	char host[300];
	const char *hosts[3];
	struct net_cidrs proxy_from;
};

static void
on_problem(
    struct http_request *req, enum err_code code, int status, const char *text)
{
	(void)code;
	if (status == 404)
		page_problem(req, status, "Not found",
		    "There is nothing at this address.");
	else
		page_problem(req, status, "That did not work", text);
}

static bool
load_keys(struct admin *admin, const struct conf *conf, struct err *err)
{
	if (!seal_keyfile_load(&admin->review_key, conf->keys_review_key_file,
		SEAL_KEYFILE_REVIEW, err) ||
	    !seal_keyfile_load(&admin->relay_pub, conf->keys_relay_pub_file,
		SEAL_KEYFILE_RELAY_PUB, err) ||
	    !seal_keyfile_load(&admin->approve_key, conf->keys_approve_key_file,
		SEAL_KEYFILE_APPROVE, err))
		return false;
	seal_pair_pub(admin->review_pub, &admin->review_key);
	return true;
}

/* "https://host:port/" -> origin without the slash; the host alone for Host. */
static bool
read_url(struct program *p, const struct conf *conf, struct err *err)
{
	const char *url = conf->admin_url, *host;
	size_t n;

	if (url == NULL || url[0] == '\0')
		snprintf(p->admin.origin, sizeof(p->admin.origin),
		    "https://%s:8444", conf->hostname);
	else
		snprintf(p->admin.origin, sizeof(p->admin.origin), "%s", url);
	n = strlen(p->admin.origin);
	while (n > 0 && p->admin.origin[n - 1] == '/')
		p->admin.origin[--n] = '\0';
	host = strstr(p->admin.origin, "://");
	if (host == NULL || strchr(host + 3, '/') != NULL) {
		err_set(err, EINVAL,
		    "admin.url must be https://HOST[:PORT], got \"%s\"", url);
		return false;
	}
	host += 3;
	n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	snprintf(p->host, sizeof(p->host), "%.*s", (int)n, host);
	p->hosts[0] = p->host;
	return true;
}

static bool
wants_tls(const struct program *p)
{
	return strncmp(p->admin.origin, "https://", 8) == 0;
}

static bool
load_tls(struct program *p, const struct conf *conf, struct err *err)
{
	struct net_tls_keys keys;

	if (!wants_tls(p))
		return true;
	net_tls_keys_make(&keys);
	p->tls =
	    net_tls_server_new(&(struct net_tls_files){ conf->tls_cert_file,
				   conf->tls_key_file, NULL },
		"admin", &keys, err);
	return p->tls != NULL;
}

static bool
start_http(struct program *p, const struct conf *conf, struct err *err)
{
	const struct http_conf http = {
		.name = "admin",
		.routes = admin_routes,
		.routes_n = admin_routes_n,
		.authorize = admin_authorize,
		.problem = on_problem,
		.app = &p->admin,
		.headers = admin_headers,
		.hosts = p->hosts,
		.tls = p->tls,
		.proxy_from = &p->proxy_from,
		.ledger = p->admin.signins,
		.connections_per_peer = PER_PEER,
		.local_is_many = true,
	};
	size_t i;

	for (i = 0; i < conf->admin_proxy_from.n; i++)
		if (!net_cidrs_add(
			&p->proxy_from, conf->admin_proxy_from.v[i], err))
			return false;
	p->http = http_server_new(loop_base(p->admin.loop), &http);
	for (i = 0; i < conf->admin_listen.n; i++) {
		evutil_socket_t fd =
		    net_bind(conf->admin_listen.v[i], false, err);

		if (fd < 0)
			return false;
		http_server_listen(p->http, fd);
	}
	return true;
}

/*
 * The setup token: a new one at each start, in a file only this user reads,
 * while nobody can sign in. Whether that is so, the database says when the
 * form is sent; the file goes once an operator exists.
 */
static bool
make_setup_token(struct admin *admin, const struct conf *conf, struct err *err)
{
	const char *path = conf->admin_setup_token_file;
	struct secret random;
	char text[BASE32_LEN(20) + 2];
	int fd;
	bool ok;

	if (path == NULL || path[0] == '\0')
		return true;
	secret_random(&random, 20);
	base32_encode(text, random.b, 20);
	secret_wipe(&random);
	if (!secret_set(&admin->setup_token, text, strlen(text)))
		return false;
	admin->setup_token_file = xstrdup(path);
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	text[BASE32_LEN(20)] = '\n';
	ok = fd >= 0 &&
	     write(fd, text, BASE32_LEN(20) + 1) == BASE32_LEN(20) + 1;
	if (!ok)
		err_set(err, errno, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

static void
drop_setup_token(struct admin *admin)
{
	if (admin->setup_token_file != NULL)
		(void)unlink(admin->setup_token_file);
	free(admin->setup_token_file);
	admin->setup_token_file = NULL;
	secret_wipe(&admin->setup_token);
}

/* Asked once at start: a call of setup with nothing in it is refused. */
struct probe {
	struct program *p;
	struct review_answer is;
};

static void
on_probed(void *arg)
{
	struct probe *probe = arg;
	struct admin *admin = &probe->p->admin;
	struct err err = { 0 };

	if (probe->is.status == 422 &&
	    !make_setup_token(admin, probe->p->daemon.conf, &err))
		log_error("daemon.failed", KV("why", err.text));
	free(probe);
	daemon_ready();
}

static void
probe_setup(struct program *p)
{
	struct probe *probe = xcalloc(1, sizeof(*probe));
	static const unsigned char none[32];

	probe->p = p;
	if (p->daemon.conf->admin_setup_token_file[0] != '\0')
		(void)unlink(p->daemon.conf->admin_setup_token_file);
	operator_setup(
	    p->admin.db, "", none, "", none, &probe->is, on_probed, probe);
}

static enum metrics_ready
on_ready(void *arg, char *why, size_t size)
{
	struct program *p = arg;

	enum health_state state = health_state(p->health);

	if (!review_db_ready(p->admin.db))
		state = HEALTH_NO_DATABASE;
	snprintf(why, size, "%s", health_text(state));
	return state == HEALTH_GOOD ? METRICS_READY : METRICS_NOT_READY;
}

static void
on_drained(void *arg)
{
	struct program *p = arg;

	loop_stop(p->admin.loop);
}

static void
on_stop(void *arg)
{
	struct program *p = arg;

	daemon_stopping("signal");
	live_streams_end(p->admin.live);
	http_server_drain(p->http, on_drained, p);
}

static void
use_numbers(struct program *p, const struct conf *conf)
{
	p->admin.undo_s = (int)(conf->admin_undo / 1000);
	p->admin.approve_ttl_us = conf->approve_ttl * 1000;
	(void)snprintf(p->admin.link_base, sizeof(p->admin.link_base), "%s",
	    conf->deliver_unsubscribe_url);
}

static void
on_reload(void *arg)
{
	struct program *p = arg;
	struct conf *old = daemon_reload(&p->daemon);
	struct err err = { 0 };

	if (old == NULL)
		return;
	use_numbers(p, p->daemon.conf);
	if (p->tls != NULL &&
	    !net_tls_server_reload(p->tls,
		&(struct net_tls_files){ p->daemon.conf->tls_cert_file,
		    p->daemon.conf->tls_key_file, NULL },
		&err))
		log_error("daemon.reload", KV("why", err.text));
	conf_free(old);
}

static bool
start(struct program *p, struct err *err)
{
	static const struct daemon_handlers handlers = {
		.on_stop = on_stop,
		.on_reload = on_reload,
	};
	const struct conf *conf = p->daemon.conf;
	char metrics[300];

	if (!seal_init(err) || !load_keys(&p->admin, conf, err) ||
	    !read_url(p, conf, err) || !load_tls(p, conf, err) ||
	    !store_check(conf, conf_store_login(PROGRAM), err))
		return false;
	use_numbers(p, conf);
	p->admin.auth_socket = xstrdup(conf->auth_socket);
	metrics_init(1, PROGRAM);
	p->admin.loop = loop_new();
	presses_init(&p->admin);
	p->admin.pool = pool_new(p->admin.loop, THREADS, QUEUE);
	p->admin.door = pool_new(p->admin.loop, DOOR_THREADS, QUEUE);
	p->admin.helpers = helper_pool_new(p->admin.loop, helper_program(conf));
	p->admin.words = foreign_cache_new();
	p->admin.db = review_db_new(p->admin.loop, conf);
	p->admin.jobs = job_runners_new(&p->admin);
	p->admin.live = live_streams_new(&p->admin);
	p->admin.signins = net_ledger_new();
	if (p->admin.signins == NULL) {
		err_set(err, ENOMEM, "no memory for counting sign-ins");
		return false;
	}
	p->filler = search_filler_new(p->admin.loop, p->admin.db);
	p->health =
	    health_new(p->admin.loop, conf, conf_store_login(PROGRAM), PROGRAM);
	p->admin.redis = redis_open(p->admin.loop, conf, PROGRAM, err);
	if (p->admin.redis == NULL)
		return false;
	p->signals = daemon_signals_new(p->admin.loop, &handlers, p);
	conf_metrics_listen(conf, PROGRAM, metrics, sizeof(metrics));
	if (metrics[0] != '\0') {
		p->metrics = metrics_http_start(
		    p->admin.loop, metrics, on_ready, p, err);
		if (p->metrics == NULL)
			return false;
	}
	if (!start_http(p, conf, err))
		return false;
	probe_setup(p);
	return true;
}

static void
stop(struct program *p)
{
	http_server_free(p->http);
	metrics_http_free(p->metrics);
	daemon_signals_free(p->signals);
	drop_setup_token(&p->admin);
	helper_pool_free(p->admin.helpers);
	foreign_cache_free(p->admin.words);
	pool_free(p->admin.pool);
	pool_free(p->admin.door);
	free(p->admin.auth_socket);
	health_free(p->health);
	review_db_free(p->admin.db);
	search_filler_free(p->filler);
	job_runners_free(p->admin.jobs);
	live_streams_free(p->admin.live);
	net_ledger_free(p->admin.signins);
	redis_free(p->admin.redis);
	net_tls_free(p->tls);
	secret_wipe(&p->admin.review_key);
	secret_wipe(&p->admin.approve_key);
	presses_clear(&p->admin);
	loop_free(p->admin.loop);
	daemon_clear(&p->daemon);
}

int
main(int argc, char **argv)
{
	struct program p = { 0 };
	struct err err = { 0 };
	int code = 0;

	if (!daemon_init(&p.daemon, PROGRAM, argc, argv))
		return p.daemon.exit_code;
	if (start(&p, &err)) {
		loop_run(p.admin.loop);
	} else {
		log_error("daemon.failed", KV("why", err.text));
		code = 1;
	}
	stop(&p);
	return code;
}
