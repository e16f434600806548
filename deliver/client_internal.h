/* SPDX-License-Identifier: ISC */
/* client_internal.h - what client.c (life) and client_step.c (steps) share. */
#ifndef DELIVER_CLIENT_INTERNAL_H
#define DELIVER_CLIENT_INTERNAL_H

#include "deliver/client.h"
#include "deliver/reply.h"
#include "deliver/stuff.h"
#include "net/tls.h"

struct loop_timer;
struct net_stream;

enum client_state {
	CS_CONNECT,
	CS_HANDSHAKE,
	CS_GREETING,
	CS_EHLO,
	CS_HELO,
	CS_STARTTLS,
	CS_AUTH_PLAIN,
	CS_AUTH_LOGIN,
	CS_AUTH_USER,
	CS_AUTH_PASSWORD,
	CS_READY, /* the owner's turn */
	CS_MAIL,
	CS_RCPT,
	CS_DATA,
	CS_RSET, /* are the replies of a group still those of its commands? */
	CS_BODY,
	CS_GATE, /* the owner's turn */
	CS_DOT,
	CS_END,
	CS_COUNT
};

struct client_row {
	enum client_rcpt result;
	struct reply reply;
	bool is_own; /* client_is_own() */
};

struct client {
	struct loop *loop;
	struct client_conf conf;
	struct net_tls_dane dane; /* of `conf` */
	struct client_events ev;
	void *arg;
	enum client_state state;
	enum client_end end;
	struct client_conn *conn; /* what outlives the message */
	struct net_stream *stream; /* of `conn` */
	bool reused; /* it was kept from another message */
	bool keeps; /* and may be kept for the next */
	struct loop_timer *timer;
	struct reply_parser parser;
	struct reply ehlo, last, data;
	bool is_tls, verified, all_given, asked, quits;
	bool lost, aborted; /* the peer's end, the owner's */
	struct stuff stuff;
	struct client_row *rows;
	size_t at; /* the recipient being asked */
	size_t rcpt_count; /* of them in this transaction */
	/* Replies to a group that was sent at once (RFC 2920); 0: one by one.
	 */
	size_t owed;
	bool grouped;
	char tls_text[96];
};

/* Not a word of the message without TLS. */
static inline bool
client_insists(const struct client *c)
{
	return c->conf.policy != CLIENT_TLS_NONE &&
	       c->conf.policy != CLIENT_TLS_MAY;
}

/* client_step.c: a whole reply arrived in c->last. */
void client_on_reply(struct client *c);
/* Begin with EHLO (again after TLS). */
void client_greet(struct client *c);

/* client.c */
void client_enter(struct client *c, enum client_state state);
void client_say(struct client *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void client_say_secret(struct client *c, struct str s);
/* End the session with `end`; on_end comes from the loop. */
void client_finish(struct client *c, enum client_end end);
/* The peer or the network failed: open recipients are deferred. */
void client_broke(struct client *c, const char *why);
/* Ask the owner, from a clean stack. */
void client_ask_ready(struct client *c);
void client_want_body(struct client *c);
void client_upgrade(struct client *c);

#endif
