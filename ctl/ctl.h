/* SPDX-License-Identifier: ISC */
/*
 * ctl.h - posternctl: one command, one process, one answer.
 *
 * main.c finds the command and its arguments in the table of commands.c;
 * each cmd_*.c holds the commands of one subject. Exit codes: 0 done, 1
 * refused or failed, 2 used wrongly.
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "base/secret.h"
#include "store/manage.h"

struct ctl {
	const char *conf_path;
	const char *session_path; /* of `posternctl login` */
	struct conf *conf;
	bool json;
	const char *login; /* login role of `db` */
	struct manage *db;
	struct secret session; /* n = 0: nobody signed in */
};

#define CTL_OPTIONS_MAX 12
#define CTL_WORDS_MAX 8

/* What the user wrote behind the command's name. */
struct ctl_args {
	const char *words[CTL_WORDS_MAX];
	int nwords;
	const char *names[CTL_OPTIONS_MAX]; /* options given */
	const char *values[CTL_OPTIONS_MAX]; /* "" for a flag */
	int noptions;
};

typedef int ctl_fn(struct ctl *ctl, const struct ctl_args *args);

struct ctl_command {
	const char *name; /* "tenant create" */
	const char *usage; /* what follows the name */
	const char *options; /* "name= force": `=` takes a value */
	ctl_fn *run;
	int min_words, max_words;
	const char *help;
};

extern const struct ctl_command ctl_commands[]; /* ends with a NULL name */

/* The value of --name, or NULL. */
const char *ctl_option(const struct ctl_args *args, const char *name);
/* --name as a number from 0 to `max`; `def` when absent. -1 = misused. */
int64_t ctl_number(const struct ctl *ctl, const struct ctl_args *args,
    const char *name, int64_t max, int64_t def);
#define CTL_DAY 86400 /* s */
#define CTL_HOLD_MIN 60 /* as the database has it */
#define CTL_HOLD_MAX ((int64_t)400 * CTL_DAY)
/*
 * --name, a duration, as whole seconds from `min` (not 0) to `max`; `def` when
 * absent. -1 = misused.
 */
int64_t ctl_seconds(const struct ctl *ctl, const struct ctl_args *args,
    const char *name, int64_t min, int64_t max, int64_t def);

/* Say what is wrong on stderr (as JSON with --json); returns 1. */
int ctl_fail(const struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same of what the user wrote: the program ends with 2. Returns 2. */
int ctl_misused(const struct ctl *ctl, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The exit status when a command returned `code`: 2 after ctl_misused(). */
int ctl_exit_status(int code);
/* Is there a --reason, and one the database takes? False: misused. */
MUST_CHECK bool ctl_has_reason(
    const struct ctl *ctl, const struct ctl_args *args);

/* Connect as l_ctl, or as another login. False, reported, when it fails. */
MUST_CHECK bool ctl_connect(struct ctl *ctl, const char *login);
/* Load the session made by `posternctl login` if there is one. */
void ctl_load_session(struct ctl *ctl);

/* The session and the operating system user, first in most calls. */
#define CTL_SESSION(ctl)                                                       \
	MANAGE_ARG_BYTES(                                                      \
	    (ctl)->session.n != 0 ? (ctl)->session.b : NULL, (ctl)->session.n)
#define CTL_UID MANAGE_ARG_I64((int64_t)getuid())

/*
 * Call api.<function>; an array of row objects without status and code, or
 * NULL after reporting a failure or a refusal. The caller decrefs.
 */
json_t *ctl_call(
    struct ctl *ctl, const char *function, const struct manage_arg *args);
/* The same; prints the rows, or `done` when there are none to show. */
int ctl_call_print(struct ctl *ctl, const char *function,
    const struct manage_arg *args, const char *done);
/* HTTP-like status of the last refused call; 0 when it was not refused. */
int ctl_last_status(void);

/* Print an array of objects: as JSON, or a table, or lines for one object. */
void ctl_print(const struct ctl *ctl, json_t *rows);

/* Fields of a row. "" and 0 when absent or null. */
const char *ctl_text(const json_t *row, const char *name);
int64_t ctl_int(const json_t *row, const char *name);
/* "\\x.." of a bytea into exactly `n` bytes. */
bool ctl_bytes(const json_t *row, const char *name, void *out, size_t n);

/* Look a tenant up by slug, an inbox by address. False, reported, if none. */
MUST_CHECK bool ctl_find_tenant(
    struct ctl *ctl, const char *slug, int64_t *tenant);
MUST_CHECK bool ctl_find_inbox(
    struct ctl *ctl, const char *address, int64_t *tenant, int64_t *inbox);
/*
 * An address, or a slug with *inbox left alone, for what needs no sign-in:
 * pause and tighten. False, reported, if there is none.
 */
MUST_CHECK bool ctl_find_switch(
    struct ctl *ctl, const char *which, int64_t *tenant, int64_t *inbox);
/*
 * The first line of an option's file, of standard input for "-", or asked for
 * on the terminal: never an argument, which every user of the host can see.
 * False, reported.
 */
MUST_CHECK bool ctl_password(const struct ctl *ctl, const struct ctl_args *args,
    const char *option, char *out, size_t size);
MUST_CHECK bool ctl_ask_terminal(const char *what, char *out, size_t size);
/*
 * A session that may do more goes on under another secret (decision 0099):
 * ctl_next() makes one and its hash, ctl_turned() is called when the database
 * has it, with the file of `posternctl login` to write or not yet. False,
 * reported.
 */
void ctl_next(struct secret *next, unsigned char sha256[32]);
MUST_CHECK bool ctl_turned(struct ctl *ctl, struct secret *next, bool keep);
/*
 * With --code-file, --confirm-file or --password-file: show the second factor,
 * or the password, again. The other one: the password whatever was given.
 */
MUST_CHECK bool ctl_step_up(struct ctl *ctl, const struct ctl_args *args);
MUST_CHECK bool ctl_step_up_password(
    struct ctl *ctl, const struct ctl_args *args, const char *option);
/* After a password that was right: --code-file, or asked for on the terminal.
 */
MUST_CHECK bool ctl_second_factor(struct ctl *ctl, const struct ctl_args *args);
/*
 * Is the record of a row of dkim_list_1 in DNS? NULL: yes; else what is wrong.
 */
struct dns_answer;
const char *ctl_dkim_published(
    const struct ctl *ctl, const json_t *row, struct dns_answer *found);
/* A blocking connection to Redis, signed in. NULL, reported. */
struct redisContext;
struct redisContext *ctl_redis_open(const struct ctl *ctl);
/* Write a file of mode 0600 by rename. */
MUST_CHECK bool ctl_write_private(
    const char *path, const char *text, struct err *err);

ctl_fn ctl_migrate, ctl_keygen, ctl_identity_verify;
/* These need no configuration: `ctl->conf` is NULL. */
ctl_fn ctl_init, ctl_mcp, ctl_restore;
ctl_fn ctl_login, ctl_logout, ctl_operator_create, ctl_operator_list,
    ctl_operator_disable, ctl_operator_reset, ctl_operator_recover;
ctl_fn ctl_tenant_create, ctl_tenant_list, ctl_tenant_set, ctl_tenant_export,
    ctl_tenant_delete, ctl_inbox_delete;
ctl_fn ctl_domain_add, ctl_domain_verify, ctl_domain_list, ctl_domain_check;
ctl_fn ctl_dkim_new, ctl_dkim_list, ctl_dkim_use, ctl_dkim_remove;
ctl_fn ctl_inbox_create, ctl_inbox_show, ctl_inbox_set, ctl_inbox_reset,
    ctl_claim, ctl_key_kill;
ctl_fn ctl_provision_create, ctl_provision_list, ctl_provision_rotate,
    ctl_provision_end;
ctl_fn ctl_grant_offer, ctl_grant_list, ctl_grant_end;
ctl_fn ctl_plan_set, ctl_plan_list, ctl_limits;
ctl_fn ctl_mode, ctl_tighten, ctl_pause, ctl_resume, ctl_suspend, ctl_reject;
ctl_fn ctl_queue, ctl_queue_domains, ctl_trace;
ctl_fn ctl_route_add, ctl_route_list, ctl_route_remove;
ctl_fn ctl_suppression_add, ctl_suppression_list, ctl_suppression_remove,
    ctl_uncertain_list, ctl_uncertain_resolve;
ctl_fn ctl_redis_load, ctl_restore_finish;
ctl_fn ctl_backup, ctl_database_verify;
ctl_fn ctl_seal, ctl_audit_verify, ctl_audit_head;
ctl_fn ctl_maintain, ctl_doctor, ctl_ready, ctl_status;

#endif
