/* SPDX-License-Identifier: ISC */
/*
 * one_click.h - somebody who got mail says no more (RFC 8058). The token of
 * his link is all that is asked for (decision 0085).
 */
#ifndef STORE_ONE_CLICK_H
#define STORE_ONE_CLICK_H

#include "base/errors.h"

struct store;
struct store_one_click;

/* E_LINK_INVALID: no live token; else it is done, now or before. */
typedef void store_one_click_fn(void *arg, enum err_code code);
struct store_one_click *store_unsubscribe(struct store *st, const void *token,
    size_t n, store_one_click_fn *done, void *arg);
/* Never call `done`. NULL is fine. */
void store_unsubscribe_cancel(struct store_one_click *op);

#endif
