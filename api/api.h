/* SPDX-License-Identifier: ISC */
/*
 * api.h - the agents' REST interface, on one worker's loop.
 *
 * Routes, principals and shapes are those of api/openapi.json.
 */
#ifndef API_API_H
#define API_API_H

#include <stddef.h>
#include <stdint.h>

#include <event2/util.h>

struct api;
struct loop;
struct net_ledger;
struct net_peer;
struct net_tls;
struct secret;
struct store;

/* Text is copied; the objects are borrowed until api_free(). */
struct api_setup {
	struct net_tls *tls; /* NULL: plain HTTP (tests only) */
	struct net_ledger *ledger; /* or NULL */
	unsigned worker; /* its number in the ledger */
	size_t json_max; /* bytes of a JSON body without attachments */
	const char *spool_dir; /* for attachments that are too large for it */
	uint64_t spool_max; /* bytes there, of this worker */
	size_t size_max; /* bytes of a body that streams */
	size_t rcpt_max;
	unsigned connections_max;
	const char *identity_keys; /* JSON, or NULL: none */
	const struct secret *e2b_secret; /* signs E2B's reports; or NULL */
};

struct api *api_new(
    struct loop *loop, struct store *store, const struct api_setup *setup);

/* Serve one connected socket; takes over `fd`. */
void api_accept(
    struct api *api, evutil_socket_t fd, const struct net_peer *peer);

/* After a reload: sizes apply to the requests that come. */
void api_configure(struct api *api, const struct api_setup *setup);

/* Answer what is under way, then call `done`. Accepts are closed at once. */
void api_drain(struct api *api, void (*done)(void *arg), void *arg);

/* NULL is fine. Before store_free(). */
void api_free(struct api *api);

#endif
