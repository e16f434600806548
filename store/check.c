/* SPDX-License-Identifier: ISC */
/*
 * check.c - may this program work with this database (A14, A15)?
 *
 * What was seen last is kept in STATE_DIR/deployment, one line: deployment,
 * epoch, generation, system identifier, timeline. A clone, an older backup or
 * another cluster does not fit and is refused; a failover (same system, a
 * higher timeline) fits and is logged.
 */
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "store/pg.h"

struct seen {
	char deployment[33]; /* hex */
	int epoch, gen, timeline;
	int64_t system;
};

static bool
ask(struct seen *now, const struct conf *conf, const char *login,
    struct err *err)
{
	struct pg_result *res = NULL;
	struct str deployment;
	struct pg_conf pc;
	struct pg_sync *s;
	bool ok = false;

	store_pg_conf(&pc, conf, login, "postern-check");
	s = pg_sync_open(&pc, err);
	if (s == NULL)
		return false;
	res = pg_sync_call(s, "select * from api.ready_1()", NULL, err);
	if (res == NULL) {
		if (strcmp(pg_sync_state(s), "42883") == 0 ||
		    strcmp(pg_sync_state(s), "3F000") == 0)
			err_set(err, EPROTO,
			    "no schema: run posternctl "
			    "migrate");
		goto out;
	}
	deployment = pg_get_bytes(res, 0, "deployment");
	if (pg_get_int(res, 0, "schema") < STORE_SCHEMA_MIN)
		err_set(err, EPROTO,
		    "the schema is too old: run posternctl "
		    "migrate");
	else if (!pg_get_bool(res, 0, "durable"))
		err_set(err, EPROTO,
		    "fsync or full_page_writes is off, or a "
		    "login role carries settings: mail "
		    "could be lost");
	else if (deployment.n != 16)
		err_set(err, EPROTO,
		    "no deployment yet: run posternctl "
		    "migrate");
	else
		ok = true;
	if (!ok)
		goto out;
	hex_encode(now->deployment, deployment.p, deployment.n);
	now->epoch = pg_get_int(res, 0, "epoch");
	now->gen = pg_get_int(res, 0, "gen");
	now->system = pg_get_i64(res, 0, "system_id");
	now->timeline = pg_get_int(res, 0, "timeline");
out:
	pg_sync_free(res);
	pg_sync_close(s);
	return ok;
}

static bool
compare(const struct seen *old, const struct seen *now, const char *path,
    struct err *err)
{
	if (strcmp(old->deployment, now->deployment) != 0 ||
	    old->epoch > now->epoch || old->gen > now->gen) {
		err_set(err, EPROTO,
		    "this database is not the one of %s (another deployment, "
		    "or restored from a backup): run posternctl "
		    "restore-finish, or remove the file",
		    path);
		return false;
	}
	if (old->epoch == now->epoch &&
	    (old->system != now->system || old->timeline > now->timeline)) {
		err_set(err, EPROTO,
		    "the cluster differs from %s (a clone or a restored "
		    "copy): run posternctl restore-finish",
		    path);
		return false;
	}
	if (old->timeline < now->timeline)
		log_warn("daemon.start", KV("why", "the database failed over"),
		    KV("timeline", now->timeline));
	return true;
}

static bool
save(const struct seen *now, const char *path, struct err *err)
{
	char *next = xasprintf("%s.new", path);
	FILE *f = fopen(next, "w");
	bool ok = f != NULL;

	if (ok) {
		ok =
		    fprintf(f, "%s %d %d %" PRId64 " %d\n", now->deployment,
			now->epoch, now->gen, now->system, now->timeline) > 0 &&
		    fflush(f) == 0 && fsync(fileno(f)) == 0;
		ok = fclose(f) == 0 && ok;
		ok = ok && rename(next, path) == 0;
	}
	if (!ok)
		err_set(err, errno, "%s: %s", next, strerror(errno));
	free(next);
	return ok;
}

static bool
load(struct seen *old, const char *path)
{
	FILE *f = fopen(path, "r");
	int n;

	if (f == NULL)
		return false;
	n = fscanf(f, "%32s %d %d %" SCNd64 " %d", old->deployment, &old->epoch,
	    &old->gen, &old->system, &old->timeline);
	fclose(f);
	return n == 5;
}

bool
store_check(const struct conf *conf, const char *login, const char *state_dir,
    struct err *err)
{
	struct seen now = { 0 }, old = { 0 };
	char *path;
	bool ok;

	if (!ask(&now, conf, login, err))
		return false;
	if (state_dir == NULL || state_dir[0] == '\0')
		return true;
	path = xasprintf("%s/%s.deployment", state_dir, login);
	ok = !load(&old, path) || compare(&old, &now, path, err);
	if (ok && memcmp(&old, &now, sizeof(now)) != 0)
		ok = save(&now, path, err);
	free(path);
	return ok;
}
