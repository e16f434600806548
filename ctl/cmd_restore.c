/* SPDX-License-Identifier: ISC */
/*
 * restore-finish: the database is an older copy of itself, on purpose (A15).
 *
 * What was decided or sent since the backup is unknown to it. So everything
 * on its way is held again, and what the copy cannot know is taken from the
 * state folder: the highest epoch any program saw, the keys revoked since,
 * and the heads of audit blocks that are no more.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "ctl/audit.h"
#include "store/health.h"

/* The highest epoch in STATE_DIR/LOGIN.deployment; -1, reported, on failure. */
static int64_t
epoch_seen(const struct ctl *ctl)
{
	DIR *dir = opendir(ctl->conf->state_dir);
	struct health_identity seen;
	const struct dirent *e;
	struct err err = { 0 };
	int64_t highest = 0;

	if (dir == NULL) {
		(void)ctl_fail(
		    ctl, "%s: %s", ctl->conf->state_dir, strerror(errno));
		return -1;
	}
	while (highest >= 0 && (e = readdir(dir)) != NULL) {
		const char *dot = strrchr(e->d_name, '.');
		char *path;

		if (dot == NULL || strcmp(dot, ".deployment") != 0)
			continue;
		path = xasprintf("%s/%s", ctl->conf->state_dir, e->d_name);
		if (health_load(&seen, path, &err) < 0) {
			(void)ctl_fail(ctl, "%s", err.text);
			highest = -1;
		} else if (seen.epoch > highest) {
			highest = seen.epoch;
		}
		free(path);
	}
	(void)closedir(dir);
	return highest;
}

/* All of STATE_DIR/revoked-keys; nothing if there is no such file. */
static bool
load_revoked(const struct ctl *ctl, struct buf *out)
{
	char *path = xasprintf("%s/" REVOKED_FILE, ctl->conf->state_dir);
	FILE *f = fopen(path, "re");
	char line[64];
	bool ok = f != NULL || errno == ENOENT;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		buf_printf(out, "%s", line);
	if (f != NULL) {
		ok = ferror(f) == 0;
		(void)fclose(f);
	}
	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
	free(path);
	return ok;
}

/* Counters and queues of what is no longer; the functions stay. */
static bool
flush_redis(const struct ctl *ctl)
{
	redisContext *r = ctl_redis_open(ctl);
	redisReply *reply;
	bool ok;

	if (r == NULL)
		return false;
	reply = redisCommand(r, "FLUSHDB");
	ok = reply != NULL && reply->type != REDIS_REPLY_ERROR;
	if (!ok)
		(void)ctl_fail(ctl, "Redis: FLUSHDB: %s",
		    reply != NULL ? reply->str : r->errstr);
	freeReplyObject(reply);
	redisFree(r);
	return ok;
}

/* Copies the lines from here on into a file of their own, flushed. */
static bool
copy_rest(FILE *in, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	char line[512];
	bool ok = out != NULL;

	while (ok && fgets(line, sizeof(line), in) != NULL)
		ok = fputs(line, out) >= 0;
	ok = ok && !ferror(in);
	if (out != NULL) {
		ok = fflush(out) == 0 && fsync(fd) == 0 && ok;
		ok = fclose(out) == 0 && ok;
	} else if (fd >= 0) {
		(void)close(fd);
	}
	return ok;
}

/*
 * Heads behind the last block that the database has leave the file, so that
 * the chain can go on from there; they are kept, as proof of the fork.
 */
static bool
fork_heads(const struct ctl *ctl, uint64_t last, int64_t epoch)
{
	char *path = xasprintf("%s/" HEADS_FILE, ctl->conf->state_dir);
	char *kept = xasprintf("%s.until-epoch-%" PRId64, path, epoch);
	FILE *f = fopen(path, "r+e");
	char line[512];
	long at = 0;
	bool ok = f != NULL || errno == ENOENT;

	while (ok && f != NULL && fgets(line, sizeof(line), f) != NULL &&
	       strtoull(line, NULL, 10) <= last)
		at = ftell(f);
	ok = ok && (f == NULL || !ferror(f));
	if (ok && f != NULL && !feof(f)) {
		ok = fseek(f, at, SEEK_SET) == 0 && copy_rest(f, kept) &&
		     ftruncate(fileno(f), at) == 0 && fsync(fileno(f)) == 0;
		if (ok)
			(void)printf("heads of lost audit blocks: %s\n", kept);
	}
	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
	if (f != NULL)
		(void)fclose(f);
	free(kept);
	free(path);
	return ok;
}

/* The last block the database has, 0 = none; -1, reported. */
static int64_t
last_block(struct ctl *ctl)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "seal_head_1", none);
	int64_t n;

	if (rows == NULL)
		return -1;
	n = ctl_int(json_array_get(rows, 0), "block");
	json_decref(rows);
	return n;
}

static int
finish(struct ctl *ctl, const char *reason, int64_t seen, struct buf *revoked)
{
	const struct manage_arg call[] = { CTL_UID, MANAGE_ARG_I32(seen),
		MANAGE_ARG_TEXT(buf_cstr(revoked)), MANAGE_ARG_TEXT(reason),
		MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "restore_finish_1", call);
	int64_t block;
	int rc = 1;

	if (rows == NULL && ctl_last_status() == 409)
		return ctl_fail(ctl,
		    "stop posternd, postern-admin, postern-deliver and "
		    "postern-seal first");
	if (rows == NULL)
		return 1;
	block = last_block(ctl);
	if (block >= 0 && fork_heads(ctl, (uint64_t)block,
			      ctl_int(json_array_get(rows, 0), "epoch"))) {
		ctl_print(ctl, rows);
		rc = 0;
	}
	json_decref(rows);
	return rc;
}

int
ctl_restore_finish(struct ctl *ctl, const struct ctl_args *args)
{
	const char *reason = ctl_option(args, "reason");
	struct buf revoked = { 0 };
	int64_t seen;
	int rc = 1;

	if (!ctl_has_reason(ctl, args))
		return 1;
	seen = epoch_seen(ctl);
	if (seen >= 0 && load_revoked(ctl, &revoked) &&
	    (ctl_option(args, "without-redis") != NULL || flush_redis(ctl)))
		rc = finish(ctl, reason, seen, &revoked);
	buf_free(&revoked);
	return rc;
}
