/* SPDX-License-Identifier: ISC */
/*
 * conn.h - private to http/: one connection and the request on it.
 *
 * A connection does one thing at a time (phase). What an application calls
 * only changes state and wakes the connection; parsing and handlers run from
 * the loop, so no handler is ever entered twice on one stack.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/queue.h"
#include "base/uuid.h"
#include "http/inner.h"
#include "http/parse.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/route.h"
#include "http/server.h"
#include "http/urlenc.h"
#include "net/peer.h"

#define HTTP_SLICE 16384 /* most bytes parsed at once */
#define HTTP_INPUT_MAX 65536 /* reading stops above */
#define HTTP_OUTPUT_FULL 131072 /* a stream is "full" above */

enum http_phase {
	HTTP_PHASE_IDLE, /* nothing of the next request has come */
	HTTP_PHASE_HEAD,
	HTTP_PHASE_APP, /* the application's turn */
	HTTP_PHASE_BODY,
	HTTP_PHASE_REPLY, /* reply leaving; then the next request */
	HTTP_PHASE_LAST, /* reply leaving; then the end */
	HTTP_PHASE_LINGER, /* end told, waiting for the client's */
	HTTP_PHASE_CLOSED,
};

enum http_todo {
	HTTP_TODO_NOTHING,
	HTTP_TODO_DISPATCH, /* authorized */
	HTTP_TODO_BODY, /* an early handler wants the body */
};

struct http_stream {
	struct http_conn *conn; /* NULL: an inner request's */
	struct http_inner *inner;
	const struct http_stream_fns *fns;
	void *arg;
	bool chunked;
	bool silent; /* HEAD: bytes are dropped */
	bool full; /* `drained` is owed */
	long long left; /* of a known length; -1 unknown */
};

struct http_conn {
	TAILQ_ENTRY(http_conn) link;
	struct http_server *server;
	struct net_stream *io;
	struct event *timer, *wake, *hangup;
	struct http_parser parser;
	struct http_request *req;
	struct http_stream *stream;
	enum http_phase phase;
	struct net_peer peer;
	int place; /* in the ledger */
	unsigned requests;
	bool tls;
	bool paused; /* the body's consumer is busy */
	bool end_owed; /* body ended while paused */
	bool hung_up; /* the client closed; seen while reading is off */
	uint64_t since_ms; /* start of the phase, moved by pauses */
	uint64_t paused_ms; /* when the pause began */
	uint64_t bytes; /* of body in, or of reply out, in this phase */
};

/* A request without a connection (inner.h). */
struct http_inner {
	struct http_server *server;
	struct http_request *outer;
	struct http_request *req; /* until it replied */
	struct http_stream *stream; /* a reply under way */
	struct event *start;
	http_inner_fn *done;
	void *arg;
	int status;
	char *type;
	struct buf kept; /* of a streamed reply */
	bool cut;
};

struct http_request {
	/* Both NULL: nobody to answer. Never both set. */
	struct http_conn *conn;
	struct http_inner *inner;
	void *app;
	const char *event; /* api.request or admin.request */
	struct net_peer peer;
	bool tls;
	struct http_head head;
	struct http_match match;
	char id[UUID_ID_MAX];
	char *path; /* target without query */
	const char *query_text; /* inside head, NULL without '?' */
	char *type; /* lower-case media type */
	struct http_pairs query, fields;
	bool fields_done;
	struct buf body;
	size_t body_max;
	http_handler_fn *instead; /* of the route's */
	http_handler_fn *done; /* body wanted whole */
	http_body_fn *data; /* body wanted as it comes */
	enum http_todo todo;
	bool with_app; /* the application's move; else ours */
	bool body_done;
	bool failing; /* inside conf.problem */
	void *who, *mine;
	void (*free_who)(void *), (*free_mine)(void *);
	http_cancel_fn *cancel;
	void *cancel_arg;
	struct buf extra; /* reply header lines */
	bool has_cache_control;
	uint64_t start_ms;
	int status;
	unsigned long long size; /* of the reply's body */
	const char *why; /* error code, for the log */
};

struct http_listen {
	TAILQ_ENTRY(http_listen) link;
	struct net_listener *listener;
};

struct http_server {
	struct event_base *base;
	struct http_conf conf;
	TAILQ_HEAD(, http_conn) conns;
	TAILQ_HEAD(, http_listen) listeners;
	unsigned conns_n;
	bool draining;
	struct event *drained;
	void (*drain_done)(void *arg);
	void *drain_arg;
};

/* conn.c */
void http_conn_start(struct http_server *server, struct net_stream *io,
    const struct net_peer *peer, int place);
/* Run what can be run, later, from the loop. */
void http_conn_wake(struct http_conn *c);
void http_conn_set_phase(
    struct http_conn *c, enum http_phase phase, unsigned ms);
/* (Re)arm the connection's timer; 0 stops it. */
void http_conn_set_timer(struct http_conn *c, uint64_t ms);
/* The reply's bytes are in the output buffer; the request is over. */
void http_conn_replied(struct http_conn *c, bool keep);
/* Ends the connection; memory goes later. Safe twice. */
void http_conn_close(struct http_conn *c, const char *why);
void http_conn_free(struct http_conn *c);

/* dispatch.c */
/* Query, route, authorizer: the same for every request. */
void http_dispatch_route(struct http_request *req);
void http_dispatch_head(struct http_conn *c);
void http_dispatch_bad(struct http_conn *c);
void http_dispatch_todo(struct http_conn *c);
void http_dispatch_body(struct http_conn *c, const char *p, size_t n);
void http_dispatch_end(struct http_conn *c);
void http_dispatch_late(struct http_conn *c);

/* request.c */
/* `take_head`: the parser's head becomes the request's. */
struct http_request *http_request_new(struct http_conn *c, bool take_head);
void http_request_free(struct http_request *req);
/* The connection is lost: cancel, detach or free. */
void http_request_abandon(struct http_request *req);

/* `head` becomes the request's. */
struct http_request *http_request_new_inner(const struct http_request *outer,
    struct http_inner *inner, const struct http_head *head);

/* inner.c: what an inner request does instead of using its connection. */
void http_inner_allowed(struct http_request *req);
void http_inner_body(
    struct http_request *req, size_t max, http_handler_fn *done);
void http_inner_replied(
    struct http_request *req, const char *type, const void *p, size_t n);
struct http_stream *http_inner_stream(struct http_request *req,
    const char *type, const struct http_stream_fns *fns, void *arg);
bool http_inner_write(struct http_inner *inner, const void *p, size_t n);
void http_inner_end(struct http_inner *inner, bool ok);

/* server.c */
void http_server_forget(struct http_conn *c);

#endif
