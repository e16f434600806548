/* SPDX-License-Identifier: ISC */
/*
 * stream.h - bytes over a connected socket, plain or TLS, on an event loop.
 *
 * What comes is put into the input buffer and told by `readable`; what is put
 * into the output buffer leaves by itself: at the end of the callback in which
 * it was put there, else in the same turn of the loop, all of it together.
 *
 * Callbacks come from the loop only, never from inside a call of this file.
 * In each of them everything here may be called, net_stream_free() of the very
 * stream too; nothing is told after that. One wake-up reads and writes a
 * bounded amount, so that a busy peer starves nobody.
 *
 * There are no timeouts here: how long a peer may take is the owner's to say.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include <event2/util.h>

#include "net/tls.h"

struct evbuffer;
struct event_base;
struct net_stream;
struct sockaddr;

enum net_stream_event {
	NET_STREAM_CONNECTED, /* connect() or a handshake is over */
	/*
	 * The peer sends no more; what it sent before has been told. The
	 * output still leaves.
	 */
	NET_STREAM_EOF,
	/* Lost, or the handshake failed: nothing goes either way any more. */
	NET_STREAM_ERROR,
};

struct net_stream_fns {
	void (*readable)(void *arg); /* there is more input than before */
	void (*drained)(void *arg); /* all output has left */
	void (*event)(void *arg, enum net_stream_event what);
};

/*
 * A connected, non-blocking socket, which is taken over. Reading is off and
 * nobody is told of anything. Never NULL.
 */
struct net_stream *net_stream_new(struct event_base *base, evutil_socket_t fd);

/*
 * Connect to `addr`; CONNECTED or ERROR follows, at ERROR net_stream_why()
 * tells. NULL when there is no socket to be had.
 */
struct net_stream *net_stream_connect(
    struct event_base *base, const struct sockaddr *addr, size_t len);

/* Closes at once, what is in the output is lost. NULL is fine. */
void net_stream_free(struct net_stream *s);

/* Whom to tell; `fns` is borrowed. NULL: nobody from now on. */
void net_stream_tell(
    struct net_stream *s, const struct net_stream_fns *fns, void *arg);

/* Read, or let it lie. No use after EOF and ERROR. */
void net_stream_read(struct net_stream *s, bool on);
bool net_stream_reads(const struct net_stream *s);

/* Take from one and add to the other, nothing else. */
struct evbuffer *net_stream_input(const struct net_stream *s);
struct evbuffer *net_stream_output(const struct net_stream *s);
size_t net_stream_output_size(const struct net_stream *s);
void net_stream_write(struct net_stream *s, const void *p, size_t n);

/*
 * What the peer has said by now that no callback has brought: up to `size`
 * octets of it, which stay where they are. Returns how many.
 */
size_t net_stream_peek(struct net_stream *s, void *p, size_t size);

evutil_socket_t net_stream_fd(const struct net_stream *s);

/*
 * Speak TLS from here on, as server or as client.
 * Input that was read in the clear is dropped here and never seen by the TLS
 * side (RFC 3207 4.2). CONNECTED or ERROR follows, its deadline is the
 * owner's business. False, and nothing has changed, when there is output that
 * would go encrypted though it was meant to be clear, or no memory.
 *
 * `host` is the SNI name and, under NET_TLS_VERIFY, the name (or IP address)
 * that the certificate must carry; `dane` is for NET_TLS_DANE.
 */
bool net_stream_serve_tls(struct net_stream *s, struct net_tls *tls);
bool net_stream_ask_tls(struct net_stream *s, struct net_tls *tls,
    const char *host, enum net_tls_check check,
    const struct net_tls_dane *dane);

/* "TLSv1.3", "TLS_AES_256_GCM_SHA384"; "" without TLS. */
const char *net_stream_version(const struct net_stream *s);
const char *net_stream_cipher(const struct net_stream *s);
/* Does the certificate fit name and authorities, or DANE? Also where nobody
 * asked for that. */
bool net_stream_is_verified(const struct net_stream *s);

/* Why did connect() or TLS fail, in words: fills `text`, never longer than
 * `size`. */
void net_stream_why(const struct net_stream *s, char *text, size_t size);

/*
 * No more will be written: close-notify if that can be done at once, and the
 * sending side is shut. The input goes on until EOF.
 */
void net_stream_bye(struct net_stream *s);

#endif
