/* SPDX-License-Identifier: ISC */
/*
 * identity.c - telling a database from its clones and older copies (A15).
 *
 * The same cluster only moves on: its log grows, and a failover opens a new
 * timeline whose history names the old one and where it was left. What lies
 * before the place last seen has lost something, whatever its name is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "store/health.h"
#include "store/pg.h"

bool
health_identify(
    struct health_identity *out, char *history, const struct pg_result *res)
{
	struct str deployment = pg_get_bytes(res, 0, "deployment");

	*out = (struct health_identity){ 0 };
	if (deployment.n != 16)
		return false;
	hex_encode(out->deployment, deployment.p, deployment.n);
	out->epoch = pg_get_int(res, 0, "epoch");
	out->gen = pg_get_int(res, 0, "gen");
	out->system = pg_get_i64(res, 0, "system_id");
	out->timeline = pg_get_int(res, 0, "timeline");
	out->lsn = pg_get_i64(res, 0, "lsn");
	out->sure = pg_get_i64(res, 0, "sure");
	(void)snprintf(
	    history, HEALTH_HISTORY_MAX, "%s", pg_get_text(res, 0, "history"));
	return true;
}

/* Where timeline `left` was left, by lines "N<tab>XXX/XXX<tab>why"; or -1. */
static int64_t
switch_point(const char *history, int left)
{
	const char *p = history;
	uint32_t high, low;
	int timeline;

	while (p != NULL && *p != '\0') {
		if (sscanf(p, "%d %" SCNx32 "/%" SCNx32, &timeline, &high,
			&low) == 3 &&
		    timeline == left)
			return (int64_t)((uint64_t)high << 32 | low);
		p = strchr(p, '\n');
		p = p != NULL ? p + 1 : NULL;
	}
	return -1;
}

static bool
refuse(struct err *err, const char *path, const char *why)
{
	err_set(err, EPROTO,
	    "this is not the database of %s: %s; run posternctl "
	    "restore-finish, or remove the file if this is meant",
	    path, why);
	return false;
}

bool
health_fits(const struct health_identity *old,
    const struct health_identity *now, const char *history, const char *path,
    struct err *err)
{
	if (strcmp(old->deployment, now->deployment) != 0)
		return refuse(err, path, "another deployment");
	if (old->epoch > now->epoch || old->gen > now->gen)
		return refuse(err, path, "restored from an older backup");
	if (old->epoch < now->epoch)
		return true; /* restore-finish was run: all begins anew */
	if (old->system != now->system)
		return refuse(err, path, "another cluster, a copy");
	if (old->timeline > now->timeline)
		return refuse(err, path, "an older timeline");
	if (old->timeline == now->timeline)
		return now->lsn >= old->lsn ||
		       refuse(err, path, "an older copy of it");
	if (switch_point(history, old->timeline) < 0)
		return refuse(err, path,
		    "its history does not hold the timeline last seen");
	if (switch_point(history, old->timeline) < old->lsn)
		return refuse(err, path,
		    "it left the timeline before what was seen last, so "
		    "committed work is lost");
	log_warn("daemon.failover", KV("timeline", now->timeline),
	    KV("why", "the database moved to a new timeline"));
	return true;
}

/*
 * Of what was flushed only as much as a standby is sure to have: the rest was
 * acknowledged to nobody, and a failover may lose it.
 */
struct health_identity
health_kept(
    const struct health_identity *old, const struct health_identity *now)
{
	struct health_identity kept = *now;

	kept.lsn = now->sure;
	if (old != NULL && old->epoch == now->epoch &&
	    old->timeline == now->timeline && old->lsn > kept.lsn)
		kept.lsn = old->lsn;
	return kept;
}

int
health_load(struct health_identity *v, const char *path, struct err *err)
{
	FILE *f = fopen(path, "r");
	int n;

	*v = (struct health_identity){ 0 };
	if (f == NULL && errno == ENOENT)
		return 0;
	if (f == NULL) {
		err_set(err, errno, "%s: %s", path, strerror(errno));
		return -1;
	}
	n = fscanf(f, "%32s %d %d %" SCNd64 " %d %" SCNd64, v->deployment,
	    &v->epoch, &v->gen, &v->system, &v->timeline, &v->lsn);
	fclose(f);
	if (n == 6 && strlen(v->deployment) == 32)
		return 1;
	err_set(err, EINVAL,
	    "%s is damaged; remove it if the database is "
	    "the right one",
	    path);
	return -1;
}

bool
health_save(const struct health_identity *v, const char *path, bool durable,
    struct err *err)
{
	char *next = xasprintf("%s.%ld", path, (long)getpid());
	FILE *f = fopen(next, "w");
	bool ok = f != NULL;

	if (ok) {
		ok = fprintf(f, "%s %d %d %" PRId64 " %d %" PRId64 "\n",
			 v->deployment, v->epoch, v->gen, v->system,
			 v->timeline, v->lsn) > 0 &&
		     fflush(f) == 0 && (!durable || fsync(fileno(f)) == 0);
		ok = fclose(f) == 0 && ok;
		ok = ok && rename(next, path) == 0;
	}
	if (!ok) {
		err_set(err, errno, "%s: %s", next, strerror(errno));
		(void)unlink(next);
	}
	free(next);
	return ok;
}

char *
health_path(const struct conf *conf, const char *login)
{
	if (conf->state_dir == NULL || conf->state_dir[0] == '\0')
		return NULL;
	return xasprintf("%s/%s.deployment", conf->state_dir, login);
}
