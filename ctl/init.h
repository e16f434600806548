/* SPDX-License-Identifier: ISC */
/*
 * init.h - the steps of `posternctl init`. Each may be repeated: what is
 * there is left as it is. False, reported, stops.
 */
#ifndef CTL_INIT_H
#define CTL_INIT_H

#include "ctl/ctl.h"
#include "ctl/files.h"

#define INIT_FOLDER POSTERN_SYSCONFDIR

/* Say what a step did: "made", "ok", "todo". */
void init_say(const struct ctl *ctl, const char *what, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* A new file of "owner:group"; true also when it is there. */
MUST_CHECK bool init_file(const struct ctl *ctl, const char *path,
    struct str text, const char *whose, unsigned mode);

MUST_CHECK bool init_users(struct ctl *ctl);
MUST_CHECK bool init_conf(struct ctl *ctl, const struct ctl_args *args);
/* Passwords, users and configuration of a Redis of its own. */
MUST_CHECK bool init_redis(struct ctl *ctl);
MUST_CHECK bool init_tls(struct ctl *ctl, const struct ctl_args *args);
/* Lets the programs in, makes the database and its schema. */
MUST_CHECK bool init_database(struct ctl *ctl, const struct ctl_args *args);
MUST_CHECK bool init_units(struct ctl *ctl);

#endif
