/* SPDX-License-Identifier: ISC */
/*
 * words.h - numbers of the database as names and words
 */
#ifndef ADMIN_WORDS_H
#define ADMIN_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/view.h"

struct arena;

/* "held", ... of enum policy_state. */
const char *words_state(int state);
enum view_risk words_risk(int risk);
/*
 * The least and greatest risk of a band by name; both 0 for NULL or "". False:
 * there is no such band.
 */
bool words_risk_band(const char *name, int *from, int *to);
/* "mode,paused" in words; NULL when it is held by its mode alone. */
const char *words_reasons(struct arena *mem, const char *reasons);
/* Why it is held, in words, also when that is its mode. */
const char *words_held(struct arena *mem, const char *reasons);
/* "message.held" in words. */
const char *words_event(const char *type);
/* "12.34": tenant and inbox. (page_queue.c) */
bool words_box(const char *text, int64_t *tenant, int64_t *inbox);
/* The key of a tenant; without one `tenant` stays. False: it is none. */
bool words_tenant(const char *text, int64_t *tenant);

#endif
