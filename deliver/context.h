/* SPDX-License-Identifier: ISC */
/* context.h - keys, next hop and connections that all jobs share. */
#ifndef DELIVER_CONTEXT_H
#define DELIVER_CONTEXT_H

#include <stdbool.h>

#include "base/err.h"

struct conf;
struct job_context;
struct loop;

/* Loads keys, connects. `conf` stays borrowed. False: not usable at all. */
MUST_CHECK bool context_open(struct job_context *ctx, struct loop *loop,
    const struct conf *conf, struct err *err);
/* Another configuration: next hop, password and authorities change. */
MUST_CHECK bool context_reload(
    struct job_context *ctx, const struct conf *conf, struct err *err);
void context_close(struct job_context *ctx);
/* Keep a configuration that jobs may still borrow until the process ends. */
void context_keep(struct conf *old);

#endif
