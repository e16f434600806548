/* SPDX-License-Identifier: ISC */
/*
 * doctor: what the database finds, and what can be seen from this machine.
 * Every finding that is not "ok" says what to do.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/daemon.h"
#include "base/helper/helper.h"
#include "ctl/doctor.h"
#include "net/ask.h"

void
doctor_add(json_t *all, const char *finding, const char *level,
    const char *detail, const char *fix)
{
	json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "finding", finding,
	    "level", level, "detail", detail, "fix", fix);

	if (row != NULL)
		(void)json_array_append_new(all, row);
}

static void
look_at_libevent(json_t *all)
{
	char version[64];
	bool is_good = daemon_event_package(version, sizeof(version));

	doctor_add(all, "libevent", is_good ? "ok" : "error", version,
	    "apt-get install libevent-2.1-7 (2.1.12-stable-8+deb12u1 or "
	    "newer)");
}

/* Does the limiter's library answer? */
static void
look_at_redis(const struct ctl *ctl, json_t *all)
{
	const char *fix = "start Redis; posternctl redis load";
	redisContext *r = ctl_redis_open(ctl);
	redisReply *reply = NULL;

	if (r != NULL)
		reply = redisCommand(r, "FUNCTION LIST LIBRARYNAME postern");
	if (reply == NULL)
		doctor_add(all, "redis", "error", "Redis does not answer", fix);
	else if (reply->type == REDIS_REPLY_ERROR)
		doctor_add(all, "redis", "error", reply->str, fix);
	else if (reply->elements == 0)
		doctor_add(all, "redis", "error",
		    "the limiter's functions are missing",
		    "posternctl redis load");
	else
		doctor_add(all, "redis", "ok",
		    "the limiter's functions are loaded", "");
	freeReplyObject(reply);
	if (r != NULL)
		redisFree(r);
}

/* The pages do without it, but then show foreign charsets as bytes. */
static void
look_at_decoder(const struct ctl *ctl, json_t *all)
{
	const char *path = helper_program(ctl->conf);
	struct err err = { 0 };

	if (access(path, F_OK) != 0)
		doctor_add(all, "decoder", "warning", path,
		    "not here: where postern-admin runs, install "
		    "postern-decode or let admin.decode_program name it");
	else if (helper_fit(path, &err))
		doctor_add(all, "decoder", "ok", "runs, in its sandbox", "");
	else if (err.code == HELPER_FIT_SANDBOX)
		doctor_add(all, "decoder", "error", err.text,
		    "run on a kernel, and in a container, that allows seccomp "
		    "filters");
	else
		doctor_add(all, "decoder", "error", err.text,
		    "install postern-decode of this version, and the packages "
		    "it needs");
}

/* Nobody has to run it; whoever has a second factor needs it. */
static void
look_at_auth(const struct ctl *ctl, json_t *all)
{
	const char *path = ctl->conf->auth_socket;
	struct buf question = { 0 }, answer = { 0 };
	struct err err = { 0 };

	if (access(path, F_OK) != 0) {
		doctor_add(all, "postern-auth", "info", path,
		    "not here: start postern-auth where postern-admin runs, "
		    "for operators with second factors");
		return;
	}
	buf_lp(&question, "doctor", 6);
	if (ask_wait(path, &question, &answer, &err))
		doctor_add(all, "postern-auth", "ok", "answers", "");
	else
		doctor_add(all, "postern-auth", "error", err.text,
		    "start postern-auth; whoever asks it is in its group");
	buf_free(&answer);
}

static void
print_finding(const json_t *row)
{
	const char *level = ctl_text(row, "level");

	(void)printf("%-8s%s: %s\n", level, ctl_text(row, "finding"),
	    ctl_text(row, "detail"));
	if (strcmp(level, "ok") != 0 && *ctl_text(row, "fix") != '\0')
		(void)printf("        fix: %s\n", ctl_text(row, "fix"));
}

/* Inboxes that want links, and nothing that these could begin with. */
static void
look_at_links(const struct ctl *ctl, json_t *rows)
{
	json_t *row;
	size_t i;

	if (ctl->conf->deliver_unsubscribe_url[0] != '\0')
		return;
	json_array_foreach(rows, i, row)
	{
		if (strcmp(ctl_text(row, "finding"), "one-click") != 0 ||
		    strncmp(ctl_text(row, "detail"), "0 ", 2) == 0)
			continue;
		(void)json_object_set_new(row, "level", json_string("error"));
		(void)json_object_set_new(row, "fix",
		    json_string("their mail waits: set "
				"deliver.unsubscribe_url, here and where "
				"postern-deliver runs"));
	}
}

/* What it finds itself, and what beside it can be compared with it. */
static void
look_at_database(struct ctl *ctl, json_t *all)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "doctor_1", none), *ready;

	if (rows == NULL) {
		doctor_add(all, "database", "error", "it does not answer",
		    "start PostgreSQL; posternctl migrate");
		return;
	}
	look_at_links(ctl, rows);
	(void)json_array_extend(all, rows);
	json_decref(rows);
	doctor_add(all, "database", "ok", "it answers", "");
	ready = ctl_call(ctl, "ready_1", none);
	if (ready != NULL) {
		doctor_clock(all, json_array_get(ready, 0));
		doctor_sealer(all, json_array_get(ready, 0));
	}
	json_decref(ready);
	doctor_audit(ctl, all);
}

int
ctl_doctor(struct ctl *ctl, const struct ctl_args *args)
{
	json_t *all = json_array(), *row;
	size_t i;
	int rc = 0;

	(void)args;
	look_at_libevent(all);
	doctor_keys(ctl, all);
	doctor_certificate(ctl, all);
	doctor_disk(ctl, all);
	doctor_backup(ctl, all);
	look_at_redis(ctl, all);
	look_at_decoder(ctl, all);
	look_at_auth(ctl, all);
	doctor_next_hop(ctl, all);
	doctor_programs(ctl, all);
	look_at_database(ctl, all);
	json_array_foreach(all, i, row)
	{
		if (strcmp(ctl_text(row, "level"), "ok") != 0 &&
		    strcmp(ctl_text(row, "level"), "info") != 0)
			rc = 1;
		if (!ctl->json)
			print_finding(row);
	}
	if (ctl->json)
		ctl_print(ctl, all);
	json_decref(all);
	return rc;
}
