/* SPDX-License-Identifier: ISC */
/*
 * health.c - asks api.ready_1() again and again.
 */
#include "store/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "store/pg.h"
#include "store/store.h"

#define ASK_MS 2000

struct health {
	struct pg_pool *pool;
	struct pg_req *asking;
	struct loop_timer *timer;
	enum health_state state;
	struct health_identity seen;
	char *path; /* NULL: nothing is kept */
	char *state_dir, *cert; /* cert NULL: it serves no TLS */
	bool has_seen;
};

static void ask(void *arg);

const char *
health_text(enum health_state state)
{
	switch (state) {
	case HEALTH_UNKNOWN:
		return "the database has not answered yet";
	case HEALTH_GOOD:
		return "";
	case HEALTH_NO_DATABASE:
		return "no database";
	case HEALTH_OLD_SCHEMA:
		return "the schema is too old: run posternctl migrate";
	case HEALTH_NEW_SCHEMA:
		return "the schema is too new: install the release that made "
		       "it";
	case HEALTH_NOT_DURABLE:
		return "the database's settings could lose mail: run "
		       "posternctl doctor";
	case HEALTH_FEW_PARTITIONS:
		return "partitions for less than two weeks ahead: run "
		       "posternctl maintain";
	case HEALTH_OTHER_DATABASE:
		return "another database than at start";
	case HEALTH_RESTORED:
		return "this database was restored from a backup: run "
		       "posternctl restore-finish";
	}
	return "unknown";
}

/* Keep how far it has come; a new face under the same address is refused. */
static bool
recognize(struct health *h, const struct pg_result *res)
{
	struct health_identity now, kept;
	char history[HEALTH_HISTORY_MAX];
	struct err err = { 0 };
	bool fits;

	if (!health_identify(&now, history, res))
		return false;
	fits = !h->has_seen ||
	       health_fits(&h->seen, &now, history, "this program", &err);
	if (fits) {
		kept = health_kept(h->has_seen ? &h->seen : NULL, &now);
		h->seen = kept;
		h->has_seen = true;
		if (h->path == NULL || health_save(&kept, h->path, false, &err))
			return true;
	}
	log_error("daemon.database", KV("why", err.text));
	return fits;
}

static enum health_state
judge(struct health *h, const struct pg_result *res)
{
	int weeks = pg_get_int(res, 0, "weeks_ahead");

	metrics_set(M_PARTITIONS_AHEAD_WEEKS, weeks, NULL, NULL);
	metrics_set(M_AUDIT_UNSEALED_SECONDS,
	    pg_get_int(res, 0, "unsealed_seconds"), NULL, NULL);
	health_gauges(h->state_dir, h->cert,
	    (clock_real_us() - pg_get_time(res, 0, "now")) / 1000);
	if (pg_get_int(res, 0, "schema") < STORE_SCHEMA_MIN)
		return HEALTH_OLD_SCHEMA;
	if (pg_get_int(res, 0, "serves") > STORE_SCHEMA)
		return HEALTH_NEW_SCHEMA;
	if (!pg_get_bool(res, 0, "durable"))
		return HEALTH_NOT_DURABLE;
	if (pg_get_bool(res, 0, "restored"))
		return HEALTH_RESTORED;
	if (!recognize(h, res))
		return HEALTH_OTHER_DATABASE;
	return weeks < HEALTH_WEEKS_MIN ? HEALTH_FEW_PARTITIONS : HEALTH_GOOD;
}

static void
on_answer(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct health *h = arg;

	h->asking = NULL;
	h->state =
	    err == PG_OK && pg_rows(res) == 1 ? judge(h, res)
	    : err == PG_REJECTED && (strcmp(pg_sqlstate(res), "42883") == 0 ||
					strcmp(pg_sqlstate(res), "3F000") == 0)
		? HEALTH_OLD_SCHEMA
		: HEALTH_NO_DATABASE;
	loop_timer_set(h->timer, ASK_MS);
}

static void
ask(void *arg)
{
	struct health *h = arg;

	h->asking =
	    pg_call(h->pool, "select * from api.ready_1()", NULL, on_answer, h);
}

struct health *
health_new(struct loop *loop, const struct conf *conf, const char *login,
    const char *program)
{
	struct health *h = xcalloc(1, sizeof(*h));
	struct pg_conf pc;

	store_pg_conf(&pc, conf, login, program);
	pc.conns = 1;
	h->pool = pg_pool_new(loop, &pc);
	h->path = health_path(conf, login);
	h->state_dir = xstrdup(conf->state_dir);
	if (strcmp(login, "l_gateway") == 0 || strcmp(login, "l_review") == 0)
		h->cert = xstrdup(conf->tls_cert_file);
	h->timer = loop_timer_new(loop, ask, h);
	ask(h);
	return h;
}

void
health_free(struct health *h)
{
	if (h == NULL)
		return;
	pg_cancel(h->asking);
	pg_pool_free(h->pool);
	loop_timer_free(h->timer);
	free(h->path);
	free(h->state_dir);
	free(h->cert);
	free(h);
}

enum health_state
health_state(const struct health *h)
{
	return h->state;
}
