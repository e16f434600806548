/* SPDX-License-Identifier: ISC */
/*
 * manage.h - posternctl's calls: any function of api.*, blocking, as JSON.
 *
 * A person's tool prints what the database answers, so one call serves all:
 * every row comes back as the text of a JSON object whose names are the
 * result columns of docs/store-api.md, in their order.
 */
#ifndef STORE_MANAGE_H
#define STORE_MANAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/uuid.h"

struct conf;
struct manage;

enum manage_type {
	MANAGE_END,
	MANAGE_NULL,
	MANAGE_I64,
	MANAGE_I32,
	MANAGE_I16,
	MANAGE_BOOL,
	MANAGE_TEXT, /* NULL is null */
	MANAGE_BYTES, /* NULL is null */
	MANAGE_UUID,
};

/* One argument; the list ends with MANAGE_END. */
struct manage_arg {
	enum manage_type type;
	int64_t i;
	const void *p;
	size_t n;
};

#define MANAGE_ARG_NULL                                                        \
	{                                                                      \
		.type = MANAGE_NULL                                            \
	}
#define MANAGE_ARG_I64(v)                                                      \
	{                                                                      \
		.type = MANAGE_I64, .i = (v)                                   \
	}
#define MANAGE_ARG_I32(v)                                                      \
	{                                                                      \
		.type = MANAGE_I32, .i = (v)                                   \
	}
#define MANAGE_ARG_I16(v)                                                      \
	{                                                                      \
		.type = MANAGE_I16, .i = (v)                                   \
	}
#define MANAGE_ARG_BOOL(v)                                                     \
	{                                                                      \
		.type = MANAGE_BOOL, .i = (v)                                  \
	}
#define MANAGE_ARG_TEXT(v)                                                     \
	{                                                                      \
		.type = MANAGE_TEXT, .p = (v)                                  \
	}
#define MANAGE_ARG_BYTES(v, len)                                               \
	{                                                                      \
		.type = MANAGE_BYTES, .p = (v), .n = (len)                     \
	}
#define MANAGE_ARG_UUID(v)                                                     \
	{                                                                      \
		.type = MANAGE_UUID, .p = (v)                                  \
	}
#define MANAGE_ARG_END                                                         \
	{                                                                      \
		.type = MANAGE_END                                             \
	}

struct manage_rows {
	char **json;
	size_t n;
};

/* Connects as `login`. `conf` is borrowed only during the call. */
MUST_CHECK struct manage *manage_open(
    const struct conf *conf, const char *login, struct err *err);
void manage_close(struct manage *m);

/*
 * Call api.<function>. False when the statement failed; refusals are rows
 * whose status is 300 or more. Release with manage_rows_clear().
 */
MUST_CHECK bool manage_call(struct manage *m, const char *function,
    const struct manage_arg *args, struct manage_rows *rows, struct err *err);
/* What only a superuser can look through: d.verify(sample). */
MUST_CHECK bool manage_verify(
    struct manage *m, int sample, struct manage_rows *rows, struct err *err);
void manage_rows_clear(struct manage_rows *rows);

/* Files of store/migrations, built in; ends with a NULL name. */
struct manage_migration {
	int version;
	const char *name;
	const char *sql;
};
extern const struct manage_migration manage_migrations[];
extern const char manage_roles_sql[];
/* The Redis function library, store/postern.lua. */
extern const char manage_redis_lua[];

/* A file that was applied, or one that waits for `contract`. */
typedef void manage_migrated_fn(void *arg, const char *name, bool applied);

/*
 * Bring the schema up to date: one transaction per file, one migrator at a
 * time; `told` hears of each file that was to do. Files that contract (their
 * head says `-- contract: serves N`) wait unless `contract`, and then until
 * no program is connected that knows less than N. False when a file that was
 * applied before has another content now, one fails, the database was
 * migrated by a later release, or an old program is connected. `m` is a
 * connection of l_migrate.
 */
MUST_CHECK bool manage_migrate(struct manage *m, bool contract,
    manage_migrated_fn *told, void *arg, struct err *err);
/*
 * Roles and revokes; `m` is a superuser's connection. On a managed PostgreSQL
 * it may be less: `lacks` is told each hardening step that was refused.
 */
typedef void manage_lacks_fn(void *arg, const char *step, const char *why);
MUST_CHECK bool manage_roles(
    struct manage *m, manage_lacks_fn *lacks, void *arg, struct err *err);

#endif
