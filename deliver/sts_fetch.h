/* SPDX-License-Identifier: ISC */
/*
 * sts_fetch.h - get an MTA-STS policy over HTTPS (RFC 8461 3.3), by libcurl on
 * the event loop.
 *
 * The certificate must be that of the policy host; redirects, proxies and
 * credentials there are none; only the addresses given are connected to, and
 * each is looked at once more right before.
 */
#ifndef DELIVER_STS_FETCH_H
#define DELIVER_STS_FETCH_H

#include <stddef.h>

#include "base/str.h"
#include "deliver/route.h"

struct loop;
struct net_cidrs;
struct sts_fetch;
struct sts_http;

#define STS_FETCH_MS 60000L /* in all (RFC 8461 3.3) */
#define STS_CONNECT_MS 10000L

/* `allowed` as route_may_connect(); borrowed. */
struct sts_http *sts_http_new(
    struct loop *loop, const struct net_cidrs *allowed);
/* Authorities from now on, PEM; "": the system's. Borrowed. */
void sts_http_trust(struct sts_http *http, const char *ca_file);
/* What is under way is dropped. NULL is fine. */
void sts_http_free(struct sts_http *http);

/* The body, or why there is none. Both are gone after the call. */
typedef void sts_fetch_fn(void *arg, const struct str *body, const char *why);

/* `done` comes once, later, unless cancelled. */
struct sts_fetch *sts_fetch_start(struct sts_http *http, const char *host,
    const struct route_host *hosts, size_t n, sts_fetch_fn *done, void *arg);
/* NULL is fine. */
void sts_fetch_cancel(struct sts_fetch *f);

#endif
