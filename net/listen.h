/* SPDX-License-Identifier: ISC */
/*
 * listen.h - listening sockets that survive running out of descriptors.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/util.h>

struct err;
struct event_base;
struct net_listener;
struct net_peer;

/* `fd` is non-blocking, close-on-exec, and now the callee's. */
typedef void net_accept_fn(
    void *arg, evutil_socket_t fd, const struct net_peer *peer);

/*
 * Bind and listen on "host:port", "[v6]:port" or "*:port" (both families).
 * `shared` sets SO_REUSEPORT, so that each worker has a queue of its own.
 * -1 and `err` on failure. The host must be numeric.
 */
evutil_socket_t net_bind(const char *where, bool shared, struct err *err);

/* "127.0.0.1:587" of a bound socket, also after binding to port 0. */
void net_bound_name(evutil_socket_t fd, char *text, size_t size);

/*
 * Accept on a bound socket; takes over `fd`. Without a free descriptor a
 * waiting connection is accepted and closed with a spare one, so the queue
 * never stalls and the loop never spins.
 */
struct net_listener *net_listener_new(struct event_base *base,
    evutil_socket_t fd, net_accept_fn *accept, void *arg);

/* Stop accepting and close the socket. */
void net_listener_free(struct net_listener *listener);

#endif
