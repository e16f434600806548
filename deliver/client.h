/* SPDX-License-Identifier: ISC */
/*
 * client.h - one SMTP transaction with one next hop (RFC 5321).
 *
 * The session does one thing at a time and asks its owner at the points where
 * the database has a say: on_ready before MAIL FROM, on_gate before the final
 * dot. All callbacks come from the loop, never from inside a call; after
 * on_end nothing more comes and the owner frees the client.
 */
#ifndef DELIVER_CLIENT_H
#define DELIVER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/str.h"
#include "deliver/reply.h"
#include "mail/envelope.h"

struct client;
struct net_stream;
struct loop;
struct net_tls;
struct net_tls_dane;

enum client_tls {
	CLIENT_TLS_NONE, /* after TLS failed at a host that may; its no to
		that is no no to the mail */
	CLIENT_TLS_MAY, /* when offered; the certificate is not checked */
	CLIENT_TLS_ENCRYPT, /* STARTTLS; the certificate is not checked */
	CLIENT_TLS_MUST, /* STARTTLS, verified */
	CLIENT_TLS_DANE, /* STARTTLS, verified by `dane` */
	CLIENT_TLS_WRAP, /* from the first byte, verified */
};

struct client_conf {
	struct net_tls *tls;
	enum client_tls policy;
	const struct net_tls_dane *dane; /* its records are borrowed */
	const char *helo;
	const char *host; /* name for SNI, certificate and log */
	struct sockaddr_storage addr;
	socklen_t addr_len;
	struct str user, password; /* user.n 0: no AUTH. Borrowed */
	struct str mail_from;
	const struct str *rcpt; /* as on the wire, borrowed */
	size_t rcpt_count;
	long long size;
	bool is_8bit, needs_utf8;
	bool require_tls; /* RFC 8689; the policy must be one that verifies */
	enum envelope_ret ret;
	const unsigned char *notify; /* per rcpt, ENVELOPE_...; borrowed */
	const char *envid; /* ours, xtext; borrowed */
	bool one_by_one; /* although it offers PIPELINING */
	unsigned timeout_ms; /* for every step; 0: as RFC 5321 4.5.3.2 says */
};

/* A session between two messages: connected, greeted, signed in. */
struct client_conn {
	struct loop *loop;
	struct net_stream *stream;
	struct reply ehlo;
	bool is_tls, verified;
	char tls_text[96];
	uint64_t began_ms;
	unsigned messages; /* it has carried */
};

enum client_rcpt {
	CLIENT_RCPT_OPEN, /* nothing final was said */
	CLIENT_RCPT_TAKEN, /* 2xx to RCPT; with the dot's reply it is final */
	CLIENT_RCPT_DELIVERED,
	CLIENT_RCPT_DEFERRED,
	CLIENT_RCPT_FAILED,
	CLIENT_RCPT_UNCERTAIN, /* the dot left and no final reply came */
};

enum client_end {
	CLIENT_END_DONE, /* each recipient has its result */
	CLIENT_END_NEXT, /* nothing was tried here: try another address */
	CLIENT_END_UNSURE, /* what answered what? Again, one_by_one */
	CLIENT_END_STALE, /* the kept session was over: begin a new one */
	CLIENT_END_TLS, /* TLS failed before it carried a reply; may be tried
		without */
	CLIENT_END_NO_GO, /* the gate said no; the dot did not leave */
	CLIENT_END_BAD_BYTES, /* the body is not what may be sent */
};

struct client_events {
	/* EHLO is over. Answer with client_mail() or client_abort(). */
	void (*on_ready)(void *arg, const char *tls);
	/* Wants body. Answer with client_body() and client_body_end(). */
	void (*on_body)(void *arg);
	/* All but the dot is written. Answer with client_dot(). */
	void (*on_gate)(void *arg);
	void (*on_end)(void *arg, enum client_end end);
};

/*
 * Copies `conf`, borrows what it points to. With `conn`, which is taken, the
 * session begins at on_ready; else NULL.
 */
struct client *client_start(struct loop *loop, const struct client_conf *conf,
    struct client_conn *conn, const struct client_events *events, void *arg);
/*
 * In on_end: the session, if another message may follow in it, else NULL. The
 * peer has answered the dot and said nothing since.
 */
struct client_conn *client_detach(struct client *c);
/* Says QUIT, without waiting. */
void client_conn_close(struct client_conn *conn);
void client_mail(struct client *c);
/* More bytes, in order; on_body comes again when there is room. */
void client_body(struct client *c, const char *p, size_t n);
/* What on_body asked for was given; it comes again when there is room. */
void client_more(struct client *c);
/* All bytes were given. */
void client_body_end(struct client *c);
/* Send the final dot, or end the session without it. */
void client_dot(struct client *c, bool go);
/* End now; on_end follows (NEXT, or results as far as they are final). */
void client_abort(struct client *c, const char *why);
/* Closes; no more callbacks. From any callback. NULL is fine. */
void client_free(struct client *c);

enum client_rcpt client_result(
    const struct client *c, size_t i, const struct reply **reply);
/*
 * Does that reply speak of this recipient? It answered its own RCPT, or the dot
 * of a message that no other recipient of the transaction was to get. What was
 * said to MAIL or DATA may be about the sender.
 */
bool client_is_own(const struct client *c, size_t i);
/* The certificate fits, also where nobody demands that. */
bool client_is_verified(const struct client *c);
/* The next hop takes over the duty to report (RFC 3461 6.2.1). */
bool client_passes_dsn(const struct client *c);
/* The reply or reason that ended it; for the log and for open recipients. */
const struct reply *client_last(const struct client *c);

#endif
