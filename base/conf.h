/* SPDX-License-Identifier: ISC */
/*
 * conf.h - postern.conf, declared once in conf.def.
 *
 * One file serves all programs; each reads it whole and uses its part. An
 * option `listen` of section smtp is the field smtp_listen.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct conf_list {
	char **v;
	size_t n;
};

typedef char *conf_str;
typedef char *conf_path;
typedef struct conf_list conf_list;
typedef int64_t conf_int;
typedef bool conf_bool;
typedef int64_t conf_duration; /* milliseconds */
typedef int64_t conf_size; /* bytes */

struct conf {
#define CONF_TOP(programs, type, name, def, reload, help) conf_##type name;
#define CONF(programs, section, type, name, def, reload, help)                 \
	conf_##type section##_##name;
#include "base/conf.def"
#undef CONF
#undef CONF_TOP
};

/*
 * Read `path` for `program`. NULL, with the file and line to edit in `err`,
 * when it cannot be used. Free with conf_free(). An option *_file whose file
 * name exists in $CREDENTIALS_DIRECTORY (systemd's LoadCredential) means that.
 */
MUST_CHECK struct conf *conf_load(
    const char *path, const char *program, struct err *err);
void conf_free(struct conf *conf);

/* Rules that span options: host names differ, files exist for `program`. */
MUST_CHECK bool conf_check(
    const struct conf *conf, const char *program, struct err *err);

/* Write every option `program` uses, in the form the parser reads. */
void conf_show(const struct conf *conf, const char *program, FILE *out);

/* "gw", "admin", "worker" or "ctl": the Redis user of `program`. */
const char *conf_redis_user(const struct conf *conf, const char *program);
/* Login role in PostgreSQL of `program`: "l_gateway", ... */
const char *conf_store_login(const char *program);
/* Where this program serves /metrics: metrics.listen moved by its rank. */
void conf_metrics_listen(
    const struct conf *conf, const char *program, char *out, size_t size);

#endif
