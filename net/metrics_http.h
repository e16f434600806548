/* SPDX-License-Identifier: ISC */
/* metrics_http.h - the page of base/metrics.h: three fixed answers. */
#ifndef NET_METRICS_HTTP_H
#define NET_METRICS_HTTP_H

#include "base/err.h"
#include "base/metrics.h"

struct loop;
struct metrics_http;

/*
 * Serve /metrics, /healthz and /readyz on "address:port", as net_bind() takes
 * it. `ready` may be NULL: always ready. NULL and `err` on failure.
 */
MUST_CHECK struct metrics_http *metrics_http_start(struct loop *loop,
    const char *listen, metrics_ready_fn *ready, void *arg, struct err *err);
/* NULL is allowed. */
void metrics_http_free(struct metrics_http *h);

#endif
