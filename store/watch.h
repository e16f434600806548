/* SPDX-License-Identifier: ISC */
/*
 * watch.h - what operators watch: the audit log and health.
 *
 * Calls answer as operator.h says.
 */
#ifndef STORE_WATCH_H
#define STORE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid.h"
#include "store/operator.h"

struct watch_query {
	int64_t tenant; /* 0: all that may be seen */
	const char *who; /* an operator's name, "agent", "op:3"; NULL: all */
	const char *what; /* an event, or what stands before its dot */
	const struct uuid *message;
	const char *before; /* key of the last row seen */
	int limit;
};
struct watch_row {
	char *key, *actor, *by_name, *tenant_slug, *event, *detail;
	int64_t at_us;
	bool has_message, sealed; /* sealed: a signed block covers it */
	struct uuid message;
};
struct watch_rows {
	struct review_answer is;
	struct watch_row *row;
	size_t n;
	char *stopped; /* set: the search gave up here, older rows are left */
};
void watch_audit(const struct store_operator *who,
    const struct watch_query *query, struct arena *mem, struct watch_rows *out,
    review_done_fn *done, void *arg);

/* One row of health; `what` says how to read it (0013_pages.sql). */
struct watch_fact {
	char *what, *label;
	int64_t at_us, n, m, x;
	bool known; /* n is not null */
};
struct watch_facts {
	struct review_answer is;
	struct watch_fact *row;
	size_t n;
};
/* `tenant` 0: all in scope. */
void watch_health(const struct store_operator *who, int64_t tenant,
    struct arena *mem, struct watch_facts *out, review_done_fn *done,
    void *arg);

#endif
