/* SPDX-License-Identifier: ISC */
/*
 * check.c - may this program work with this database (A14, A15)?
 *
 * What was seen last is kept in STATE_DIR/LOGIN.deployment (health.h). A
 * clone, an older copy or another cluster does not fit and is refused; a
 * failover that lost nothing fits and is logged.
 */
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "store/health.h"
#include "store/pg.h"

static bool
judge(const struct pg_result *res, struct health_identity *now, char *history,
    struct err *err)
{
	if (pg_get_int(res, 0, "schema") < STORE_SCHEMA_MIN)
		err_set(err, EPROTO,
		    "the schema is %d and this program needs %d: run "
		    "posternctl migrate",
		    pg_get_int(res, 0, "schema"), STORE_SCHEMA_MIN);
	else if (pg_get_int(res, 0, "serves") > STORE_SCHEMA)
		err_set(err, EPROTO,
		    "the schema serves programs that know %d, and this one "
		    "knows %d: install the newer release",
		    pg_get_int(res, 0, "serves"), STORE_SCHEMA);
	else if (!pg_get_bool(res, 0, "durable"))
		err_set(err, EPROTO,
		    "fsync or full_page_writes is off, or a "
		    "login role carries settings: mail "
		    "could be lost");
	else if (pg_get_bool(res, 0, "restored"))
		err_set(err, EPROTO, "%s", health_text(HEALTH_RESTORED));
	else if (!health_identify(now, history, res))
		err_set(err, EPROTO,
		    "no deployment yet: run posternctl "
		    "migrate");
	else
		return true;
	return false;
}

static bool
ask(struct health_identity *now, char *history, const struct conf *conf,
    const char *login, struct err *err)
{
	struct pg_result *res;
	struct pg_conf pc;
	struct pg_sync *s;
	bool ok;

	store_pg_conf(&pc, conf, login, "postern-check");
	s = pg_sync_open(&pc, err);
	if (s == NULL)
		return false;
	res = pg_sync_call(s, "select * from api.ready_1()", NULL, err);
	if (res == NULL && (strcmp(pg_sync_state(s), "42883") == 0 ||
			       strcmp(pg_sync_state(s), "3F000") == 0))
		err_set(err, EPROTO, "no schema: run posternctl migrate");
	ok = res != NULL && judge(res, now, history, err);
	pg_result_free(res);
	pg_sync_close(s);
	return ok;
}

bool
store_check(const struct conf *conf, const char *login, struct err *err)
{
	struct health_identity now, old;
	char history[HEALTH_HISTORY_MAX], *path;
	bool ok;
	int had;

	if (!ask(&now, history, conf, login, err))
		return false;
	path = health_path(conf, login);
	if (path == NULL)
		return true;
	had = health_load(&old, path, err);
	ok = had >= 0 &&
	     (had == 0 || health_fits(&old, &now, history, path, err));
	if (ok)
		now = health_kept(had > 0 ? &old : NULL, &now);
	ok = ok && health_save(&now, path, true, err);
	free(path);
	return ok;
}
