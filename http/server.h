/* SPDX-License-Identifier: ISC */
/*
 * server.h - an HTTP/1.1 server for hostile clients.
 *
 * One server is one set of routes with its limits. It runs on one event loop
 * and takes connections from listening sockets or one by one. Every phase of
 * a connection has an absolute deadline, every size a cap; a request that two
 * programs could read in two ways is refused (docs/http.md).
 *
 * Order of a request: head read -> route found (404, 405 + Allow) ->
 * authorize() -> body read, unless the route is `early` -> handler.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/util.h>

#include "base/errors.h"

struct err;
struct event_base;
struct http_request;
struct json_t;
struct http_server;
struct net_ledger;
struct net_peer;
struct net_tls;

/*
 * The request is the handler's until it replies (reply.h, error.h); at once
 * or at any later time on the loop's thread.
 */
typedef void http_handler_fn(struct http_request *req);

/*
 * May this client call this route? Answers, now or later, by
 * http_request_allow() or by a reply, exactly once.
 */
typedef void http_authorize_fn(struct http_request *req, int principal);

/* Replaces the JSON error document, e.g. by a page. Must reply. */
typedef void http_problem_fn(struct http_request *req, enum err_code code,
    int status, const char *message);

/* May change status and document of a JSON error before it leaves. */
typedef void http_dress_fn(
    const struct http_request *req, int *status, struct json_t *doc);

struct http_route {
	const char *method; /* "GET" also answers HEAD */
	/* "/v1/messages/{message_id}/raw": a {name} is one segment. */
	const char *path;
	const char *operation; /* for the log: "messages.raw" */
	int principal; /* the owner's own numbers; 0 = anybody, no authorize */
	size_t body_max; /* bytes of body taken in before the handler runs */
	bool early; /* handler runs before the body and reads it itself */
	http_handler_fn *handler;
};

#define HTTP_HEAD_MAX 16384
#define HTTP_HEADERS_MAX 100
#define HTTP_TARGET_MAX 2048

/* Zero means the default in brackets. All of it is borrowed. */
struct http_conf {
	const char *name; /* "api": for the log and metrics */
	const struct http_route *routes;
	size_t routes_n;
	http_authorize_fn *authorize;
	http_problem_fn *problem; /* NULL: JSON as decisions D14 */
	http_dress_fn *dress; /* or NULL */
	void *app; /* http_request_app() */
	/*
	 * "Name: value" lines for every reply that has no such header of its
	 * handler's; NULL at the end; may be NULL.
	 */
	const char *const *headers;
	const char *const *hosts; /* allowed Host names, or NULL: any */
	struct net_tls *tls; /* NULL: plain */
	/* Who says for whom, by the PROXY protocol; NULL: nobody. */
	const struct net_cidrs *proxy_from;
	struct net_ledger *ledger; /* counts per address, or NULL */
	unsigned worker; /* this process's number in the ledger */
	unsigned connections_max; /* [1000] */
	unsigned connections_per_peer; /* [100], only with a ledger */
	bool local_is_many; /* a proxy's addresses are not counted */
	unsigned head_ms; /* [10000] TLS handshake and head together */
	unsigned idle_ms; /* [60000] between requests */
	unsigned body_ms; /* [30000] plus a second per 16 KiB of body */
	unsigned handler_ms; /* [60000] from the whole request to its reply */
	unsigned write_ms; /* [30000] plus a second per 16 KiB of reply */
	unsigned requests_max; /* [1000] on one connection */
};

/* Copies `conf`, not what it points to. */
struct http_server *http_server_new(
    struct event_base *base, const struct http_conf *conf);

/*
 * Accept on a bound, listening socket; takes over `fd`. Only here a balancer
 * of `proxy_from` is asked whom it is for.
 */
void http_server_listen(struct http_server *server, evutil_socket_t fd);

/* Serve one connected socket; takes over `fd`. */
void http_server_accept(struct http_server *server, evutil_socket_t fd,
    const struct net_peer *peer);

/*
 * Stop accepting; requests under way are answered with "Connection: close",
 * idle connections end now. `done` runs once none is left.
 */
void http_server_drain(
    struct http_server *server, void (*done)(void *arg), void *arg);

unsigned http_server_connections(const struct http_server *server);

/* Ends all connections; cancel callbacks run. NULL is fine. */
void http_server_free(struct http_server *server);

#endif
