/* SPDX-License-Identifier: ISC */
/*
 * main.c - postern-auth: second factors of operators
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/auth.h"
#include "base/conf.h"
#include "base/daemon.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "net/ask.h"
#include "net/metrics_http.h"
#include "seal/key.h"
#include "seal/keyfile.h"
#include "seal/passkey.h"
#include "store/health.h"
#include "store/store.h"

#define PROGRAM "postern-auth"

struct program {
	struct daemon daemon;
	struct auth auth;
	struct ask_server *server;
	struct metrics_http *metrics;
	struct health *health;
	struct daemon_signals *signals;
};

static enum metrics_ready
on_ready(void *arg, char *why, size_t size)
{
	struct program *p = arg;
	enum health_state state = health_state(p->health);

	if (!review_db_ready(p->auth.db))
		state = HEALTH_NO_DATABASE;
	snprintf(why, size, "%s", health_text(state));
	return state == HEALTH_GOOD ? METRICS_READY : METRICS_NOT_READY;
}

static void
on_stop(void *arg)
{
	struct program *p = arg;

	daemon_stopping("signal");
	loop_stop(p->auth.loop);
}

static void
on_reload(void *arg)
{
	struct program *p = arg;

	conf_free(daemon_reload(&p->daemon));
}

/* The origin that browsers name: as postern-admin understands admin.url. */
static bool
read_origin(struct auth *auth, const struct conf *conf, struct err *err)
{
	size_t n;

	if (conf->admin_url[0] == '\0')
		snprintf(auth->origin, sizeof(auth->origin), "https://%s:8444",
		    conf->hostname);
	else
		snprintf(
		    auth->origin, sizeof(auth->origin), "%s", conf->admin_url);
	n = strlen(auth->origin);
	while (n > 0 && auth->origin[n - 1] == '/')
		auth->origin[--n] = '\0';
	if (seal_passkey_rp_id(auth->rp_id, sizeof(auth->rp_id), auth->origin))
		return true;
	err_set(err, EINVAL,
	    "admin.url must be https://HOST[:PORT], got \"%s\"",
	    conf->admin_url);
	return false;
}

static bool
load_keys(struct auth *auth, const struct conf *conf, struct err *err)
{
	return seal_keyfile_load(&auth->totp_key, conf->keys_secrets_key_file,
		   SEAL_KEYFILE_SECRETS, err) &&
	       seal_keyfile_load(&auth->prove_key, conf->keys_auth_key_file,
		   SEAL_KEYFILE_AUTH, err);
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

	if (!seal_init(err) || !load_keys(&p->auth, conf, err) ||
	    !read_origin(&p->auth, conf, err) ||
	    !store_check(conf, conf_store_login(PROGRAM), err))
		return false;
	metrics_init(1, PROGRAM);
	p->auth.loop = loop_new();
	p->auth.db = factor_db_new(p->auth.loop, conf);
	p->health =
	    health_new(p->auth.loop, conf, conf_store_login(PROGRAM), PROGRAM);
	p->signals = daemon_signals_new(p->auth.loop, &handlers, p);
	conf_metrics_listen(conf, PROGRAM, metrics, sizeof(metrics));
	if (metrics[0] != '\0') {
		p->metrics =
		    metrics_http_start(p->auth.loop, metrics, on_ready, p, err);
		if (p->metrics == NULL)
			return false;
	}
	p->server = ask_server_new(loop_base(p->auth.loop), conf->auth_socket,
	    auth_question, &p->auth, err);
	if (p->server == NULL)
		return false;
	daemon_ready();
	return true;
}

static void
stop(struct program *p)
{
	ask_server_free(p->server);
	metrics_http_free(p->metrics);
	daemon_signals_free(p->signals);
	health_free(p->health);
	review_db_free(p->auth.db);
	secret_wipe(&p->auth.totp_key);
	secret_wipe(&p->auth.prove_key);
	loop_free(p->auth.loop);
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
		loop_run(p.auth.loop);
	} else {
		log_error("daemon.failed", KV("why", err.text));
		code = 1;
	}
	stop(&p);
	return code;
}
