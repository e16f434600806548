/* SPDX-License-Identifier: ISC */
/*
 * ends.h - two ends of a connection for tests: streams under test, and a raw
 * TLS client whose records can be cut, joined and held back at will.
 */
#ifndef TESTS_UNIT_NET_ENDS_H
#define TESTS_UNIT_NET_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <openssl/ssl.h>

#include "net/stream.h"
#include "net/tls.h"

#define GOT_MAX (1 << 20)

/* A stream and what its callbacks told. */
struct end {
	struct net_stream *s;
	bool connected, eof, failed;
	unsigned readable, drained, told; /* calls; `told` counts events */
	char why[160];
	char *got; /* GOT_MAX and a NUL */
	size_t got_n;
	void (*at)(struct end *end, char where); /* c, r, d, e or f */
};

/* A TLS client without a socket of its own: records are bytes to be sent. */
struct raw {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
	int fd;
};

struct fixture {
	struct event_base *base;
	char dir[32], cert[64], key[64], other[64], other_key[64];
	struct net_tls_keys keys;
	struct net_tls *tls; /* a server of `cert` */
	struct end server, client;
	struct raw raw;
	int fds[2];
};

int ends_setup(void **state);
int ends_teardown(void **state);

/* A self-signed certificate for these alternative names. */
void ends_certificate(
    const char *cert_file, const char *key_file, const char *names);
/* Run the loop till nothing more happens; never waits. */
void ends_settle(struct fixture *f);
/* Watch, read and collect. */
void ends_watch(struct end *end, struct net_stream *s);
/* Forget what was told so far. */
void ends_forget(struct end *end);
void ends_hang_up(struct fixture *f);

/* A fresh pair: [0] becomes `server`, plain and watched; [1] is the test's. */
void ends_pair(struct fixture *f);
/* `server` answers TLS of at most `version`; a raw client at [1] is made. */
void ends_raw(struct fixture *f, int version);
/* Shake hands with `server`, `step` octets at a time (0: all there are). */
void raw_shake(struct fixture *f, size_t step);
/* Encrypt into records that lie in raw.out. */
void raw_encrypt(struct raw *raw, const char *p, size_t n);
/* Send what lies in raw.out, `step` octets at a time, the loop in between. */
void raw_send(struct fixture *f, size_t step);
/* Decrypt what has come; the number of octets. */
size_t raw_receive(struct raw *raw, char *p, size_t size);

#define T(name) cmocka_unit_test_setup_teardown(name, ends_setup, ends_teardown)

#endif
