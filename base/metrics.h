/* SPDX-License-Identifier: ISC */
/*
 * metrics.h - counters and gauges of stats.def, and the page that shows them.
 *
 * The numbers live in shared memory, one slot per worker process, so that a
 * supervisor which forked after metrics_init() shows the sum.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf;

enum metric {
#define STAT(id, programs, kind, name, labels, help) M_##id,
#include "base/stats.def"
#undef STAT
	M_COUNT
};

/*
 * Call once before forking; 1 for a single process. Until then, no-ops. Only
 * the metrics of `program` (its file name; NULL: all) are shown.
 */
void metrics_init(size_t slots, const char *program);
/* This process counts in `slot`; its gauges begin at zero. */
void metrics_use_slot(size_t slot);

/*
 * Label values come in the order of stats.def; NULL where there is none. A
 * value that is not declared is a bug.
 */
void metrics_add(enum metric m, int64_t n, const char *l1, const char *l2);
#define metrics_inc(m, l1, l2) metrics_add((m), 1, (l1), (l2))
/* Gauges only: replaces this process's value. */
void metrics_set(enum metric m, int64_t v, const char *l1, const char *l2);
/* Histograms: microseconds for _SECONDS, else a plain number. */
void metrics_observe(enum metric m, int64_t v);
/* Sum over slots; for tests and pages. */
int64_t metrics_get(enum metric m, const char *l1, const char *l2);
/* Prometheus text format 0.0.4. */
void metrics_render(struct buf *out);

enum metrics_ready { METRICS_READY, METRICS_DEGRADED, METRICS_NOT_READY };
/* Put the reason (or "") in `why`. */
typedef enum metrics_ready metrics_ready_fn(void *arg, char *why, size_t size);

#endif
