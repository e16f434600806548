/* SPDX-License-Identifier: ISC */
/* stream_internal.h - a stream, as stream.c and stream_facts.c see it. */
#ifndef NET_STREAM_INTERNAL_H
#define NET_STREAM_INTERNAL_H

#include <event2/event_struct.h>
#include <openssl/ssl.h>

#include "net/stream.h"

enum phase {
	PHASE_CONNECT,
	PHASE_HANDSHAKE,
	PHASE_OPEN,
	PHASE_BROKEN, /* ERROR has been told */
};

struct net_stream {
	evutil_socket_t fd;
	SSL *ssl;
	const struct net_stream_fns *fns;
	void *arg;
	struct evbuffer *in, *out;
	struct event rd, wr, again;
	enum phase phase;
	unsigned depth; /* of our handlers on the stack */
	bool dead; /* freed inside a callback */
	bool reading; /* the owner wants input */
	bool eof;
	bool rd_on, wr_on; /* registered */
	bool owes; /* output waits to be tried */
	bool read_wants_write; /* TLS has to answer before it reads on */
	size_t retry; /* octets SSL_write() must be given again */
	unsigned long why; /* OpenSSL's code of what failed */
	int error; /* errno of connect() */
};

#endif
