/* SPDX-License-Identifier: ISC */
/*
 * tls.h - TLS contexts and TLS connections on libevent.
 *
 * TLS 1.2 or newer, no renegotiation, no compression, no client certificates.
 * A server context can take a new certificate while it serves; connections
 * that exist keep the old one. All functions run on the loop's thread.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/util.h>

struct bufferevent;
struct err;
struct event_base;
struct net_tls;

/* Session ticket keys: made once by a supervisor, equal in all its workers. */
struct net_tls_keys {
	unsigned char b[80];
};

enum net_tls_check {
	NET_TLS_VERIFY, /* chain and name must be right */
	NET_TLS_OPPORTUNISTIC /* encrypt, whoever answers */
};

/* Fill `keys` with random bytes. */
void net_tls_keys_make(struct net_tls_keys *keys);

/*
 * A server context from PEM files. Sessions and tickets are bound to
 * `listener` (a short name), so one listener's ticket is no good at another.
 * NULL and `err` when the files cannot be used together.
 */
struct net_tls *net_tls_server_new(const char *cert_file, const char *key_file,
    const char *listener, const struct net_tls_keys *keys, struct err *err);

/* Read the files again; on failure the old certificate stays in use. */
bool net_tls_server_reload(struct net_tls *tls, const char *cert_file,
    const char *key_file, struct err *err);

/* A client context. `ca_file` NULL or "" means the system's authorities. */
struct net_tls *net_tls_client_new(const char *ca_file, struct err *err);
/* Other authorities from now on; who holds `tls` need not know. */
bool net_tls_client_reload(
    struct net_tls *tls, const char *ca_file, struct err *err);

void net_tls_free(struct net_tls *tls);

/*
 * Serve TLS on a connected socket. Takes over `fd` also on failure (NULL).
 * BEV_EVENT_CONNECTED tells the end of the handshake; its deadline is the
 * caller's business.
 */
struct bufferevent *net_tls_accept(
    struct net_tls *tls, struct event_base *base, evutil_socket_t fd);

/*
 * The server's side of STARTTLS. Call when the reply has left (output empty);
 * takes over `plain` also on failure. Bytes still in its input buffer are
 * dropped with it and are never seen by the TLS side.
 */
struct bufferevent *net_tls_upgrade(
    struct net_tls *tls, struct bufferevent *plain);

/*
 * Speak TLS as the client on a connected socket. `host` is the SNI name and,
 * under NET_TLS_VERIFY, the name (or IP address) the certificate must carry.
 */
struct bufferevent *net_tls_connect(struct net_tls *tls,
    struct event_base *base, evutil_socket_t fd, const char *host,
    enum net_tls_check check);

/* The client's side of STARTTLS; as net_tls_upgrade(). */
struct bufferevent *net_tls_upgrade_client(struct net_tls *tls,
    struct bufferevent *plain, const char *host, enum net_tls_check check);

/* "TLSv1.3", "TLS_AES_256_GCM_SHA384"; "" for a connection without TLS. */
const char *net_tls_version(struct bufferevent *bev);
const char *net_tls_cipher(struct bufferevent *bev);

/* Was the peer's certificate verified against name and authorities? */
bool net_tls_is_verified(struct bufferevent *bev);

/* Why did it fail, in words: fills `text`, never longer than `size`. */
void net_tls_why(struct bufferevent *bev, char *text, size_t size);

/* Send close-notify if that can be done at once; then free `bev` as usual. */
void net_tls_bye(struct bufferevent *bev);

#endif
