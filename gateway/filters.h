/* SPDX-License-Identifier: ISC */
/*
 * filters.h - the filters of the configuration, as the store asks them.
 */
#ifndef GATEWAY_FILTERS_H
#define GATEWAY_FILTERS_H

#include <stdbool.h>

#include "base/err.h"

struct conf;
struct filters;
struct loop;
struct store_filter;

/* NULL and `err` when the configuration names one wrongly. */
MUST_CHECK struct filters *filters_new(
    struct loop *loop, const struct conf *conf, struct err *err);
/* Others from now on; messages that are being asked about keep theirs. On
 * failure nothing changes. */
MUST_CHECK bool filters_configure(
    struct filters *f, const struct conf *conf, struct err *err);
void filters_free(struct filters *f);
/* For store_set_filter(). */
void filters_hook(struct filters *f, struct store_filter *out);

#endif
