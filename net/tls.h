/* SPDX-License-Identifier: ISC */
/*
 * tls.h - TLS contexts. Connections are streams (net/stream.h).
 *
 * TLS 1.2 or newer, no renegotiation, no compression, no client certificates.
 * A server context can take a new certificate while it serves; connections
 * that exist keep the old one. All functions run on the loop's thread.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct net_tls;
struct ssl_st;

/* Session ticket keys: made once by a supervisor, equal in all its workers. */
struct net_tls_keys {
	unsigned char b[80];
};

enum net_tls_check {
	NET_TLS_VERIFY, /* chain and name must be right */
	NET_TLS_OPPORTUNISTIC, /* encrypt, whoever answers */
	NET_TLS_DANE, /* one of the records given must match (RFC 7672) */
};

/* A TLSA record (RFC 6698 2.1), DANE-TA(2) or DANE-EE(3). */
struct net_tlsa {
	unsigned char usage, selector, matching;
	const unsigned char *data;
	size_t n;
};

/* Borrowed until the handshake is begun. */
struct net_tls_dane {
	const struct net_tlsa *v;
	size_t n;
	const char *also; /* a second name DANE-TA may vouch for, or NULL */
};

/* Fill `keys` with random bytes. */
void net_tls_keys_make(struct net_tls_keys *keys);

/* PEM files of a server. */
struct net_tls_files {
	const char *cert, *key; /* chain and private key */
	const char *more; /* folder of further ones by name (SNI): each
		NAME.pem with its NAME.key; NULL or "": none */
};

/*
 * A server context from PEM files. Sessions and tickets are bound to
 * `listener` (a short name), so one listener's ticket is no good at another.
 * NULL and `err` when the files cannot be used together.
 */
struct net_tls *net_tls_server_new(const struct net_tls_files *files,
    const char *listener, const struct net_tls_keys *keys, struct err *err);

/* Read the files again; on failure the old certificates stay in use. */
bool net_tls_server_reload(
    struct net_tls *tls, const struct net_tls_files *files, struct err *err);

/* A client context. `ca_file` NULL or "" means the system's authorities. */
struct net_tls *net_tls_client_new(const char *ca_file, struct err *err);
/* Other authorities from now on; who holds `tls` need not know. */
bool net_tls_client_reload(
    struct net_tls *tls, const char *ca_file, struct err *err);

void net_tls_free(struct net_tls *tls);

/*
 * For net/stream.c alone: a new connection's state, to be freed by the caller.
 * NULL without memory, or when no record can be used. `host`, `check` and
 * `dane` as net_stream_ask_tls() says.
 */
struct ssl_st *net_tls_ssl_server(struct net_tls *tls);
struct ssl_st *net_tls_ssl_client(struct net_tls *tls, const char *host,
    enum net_tls_check check, const struct net_tls_dane *dane);

#endif
