/* SPDX-License-Identifier: ISC */
/*
 * conf_range.h - how long each duration of the configuration may be, so that
 * none is cut short or wraps where it is used. The database agrees.
 */
#ifndef BASE_CONF_RANGE_H
#define BASE_CONF_RANGE_H

#include <stdbool.h>

#include "base/conf.h"
#include "base/err.h"

/* False, and `err` names the option and its range: EINVAL. */
bool conf_durations_fit(const struct conf *conf, struct err *err);

#endif
