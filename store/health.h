/* SPDX-License-Identifier: ISC */
/*
 * health.h - is this still the database that this program works for?
 *
 * store_check() asks at start and blocks. A running program asks again every
 * few seconds through struct health: for /readyz and the gauges of D19, and
 * to remember how far the database's log has come (A15): a copy that is
 * restored later must not lie behind that.
 */
#ifndef STORE_HEALTH_H
#define STORE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct conf;
struct health;
struct loop;
struct pg_result;

enum health_state {
	HEALTH_UNKNOWN, /* not asked yet */
	HEALTH_GOOD,
	HEALTH_NO_DATABASE,
	HEALTH_OLD_SCHEMA,
	HEALTH_NEW_SCHEMA, /* contracted for a later release */
	HEALTH_NOT_DURABLE,
	HEALTH_FEW_PARTITIONS,
	HEALTH_OTHER_DATABASE,
	HEALTH_RESTORED, /* restore-finish has not been run */
};

/* Fewer weeks ahead than this is not ready (D11). */
#define HEALTH_WEEKS_MIN 2

/* Why a program in this state is not ready; "" for HEALTH_GOOD. */
const char *health_text(enum health_state state);

/*
 * Asks at once and then every two seconds, as role `login`, on a connection
 * of its own. Sets the gauges for partitions and the audit log.
 */
struct health *health_new(struct loop *loop, const struct conf *conf,
    const char *login, const char *program);
/* NULL is fine. */
void health_free(struct health *h);
enum health_state health_state(const struct health *h);

/*
 * Who the database says it is (api.ready_1), and the file in which a program
 * keeps what it saw last: STATE_DIR/LOGIN.deployment, one line.
 */
#define HEALTH_HISTORY_MAX 4096

struct health_identity {
	char deployment[33]; /* hex */
	int epoch, gen, timeline;
	int64_t system;
	int64_t lsn; /* flushed so far, in bytes; what is kept: `sure` */
	int64_t sure; /* what no failover can lose; 0: not known now */
};

/* `history` of HEALTH_HISTORY_MAX bytes; false when a part is missing. */
bool health_identify(
    struct health_identity *out, char *history, const struct pg_result *res);
/* May a program that saw `old` go on with `now`? `path` is for the text. */
MUST_CHECK bool health_fits(const struct health_identity *old,
    const struct health_identity *now, const char *history, const char *path,
    struct err *err);
/* What to remember of `now`; `old` may be NULL. */
struct health_identity health_kept(
    const struct health_identity *old, const struct health_identity *now);
/* 1 = read, 0 = there is none, -1 = unusable, with `err`. */
MUST_CHECK int health_load(
    struct health_identity *out, const char *path, struct err *err);
/* By rename; `durable` waits for the disk. */
MUST_CHECK bool health_save(const struct health_identity *v, const char *path,
    bool durable, struct err *err);
/* In state_dir: touched when the audit log verified; 0 when it did not. */
#define HEALTH_VERIFIED_FILE "audit-verified"

/* Until the first certificate of a PEM file ends; false: it cannot be read. */
MUST_CHECK bool health_certificate_left(int64_t *seconds, const char *path);
/* Percent of the disk that are free for others than root; -1: unknown. */
int health_disk_free(const char *folder);
/* Seconds since the audit log was last found whole; -1: nobody looked. */
int64_t health_verified_age(const char *state_dir);
/* Sets the gauges of what this host shows; `cert` NULL: no TLS served. */
void health_gauges(const char *state_dir, const char *cert, int64_t skew_ms);

/* NULL when state_dir is empty; the caller frees. */
char *health_path(const struct conf *conf, const char *login);

#endif
