/* SPDX-License-Identifier: ISC */
/*
 * proxy.h - the PROXY protocol, versions 1 and 2, from balancers named in the
 * configuration. Nothing else may say who the client is.
 */
#ifndef NET_PROXY_H
#define NET_PROXY_H

#include <stddef.h>

#include <event2/util.h>

struct event_base;
struct net_peer;
struct net_proxy;

enum net_proxy_result { NET_PROXY_OK, NET_PROXY_MORE, NET_PROXY_BAD };

/*
 * Parse a header at `p`. OK: `peer` is the client's address (unchanged for
 * LOCAL and for families without one) and `used` the header's length.
 * MORE: `used` is how many bytes are wanted in all, as far as known.
 */
enum net_proxy_result net_proxy_parse(
    const unsigned char *p, size_t n, struct net_peer *peer, size_t *used);

/* `fd` is the callee's again; -1 when there was no good header (closed). */
typedef void net_proxy_fn(
    void *arg, evutil_socket_t fd, const struct net_peer *peer);

/*
 * Read exactly one header from `fd`, which is taken over, and not one byte
 * more. `done` runs once, later, unless net_proxy_cancel() came first.
 */
struct net_proxy *net_proxy_start(struct event_base *base, evutil_socket_t fd,
    const struct net_peer *peer, unsigned timeout_ms, net_proxy_fn *done,
    void *arg);
void net_proxy_cancel(struct net_proxy *proxy);

#endif
