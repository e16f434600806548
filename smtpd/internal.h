/* SPDX-License-Identifier: ISC */
/*
 * internal.h - the session, as the files of smtpd/ see it. Nobody else.
 *
 * One operation at a time: while `waiting` is set the session runs no
 * command. A session ends only through session_close(), which may be called
 * twice and from anywhere; the memory goes later, on a clean stack.
 */
#ifndef SMTPD_INTERNAL_H
#define SMTPD_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/queue.h"
#include "base/str.h"
#include "net/peer.h"
#include "smtpd/data.h"
#include "smtpd/parse.h"
#include "smtpd/smtpd.h"

struct loop_timer;
struct net_stream;
struct store_cred;
struct submit;

enum {
	ST_CONNECTED = 1 << 0, /* no greeting yet */
	ST_GREETED = 1 << 1,
	ST_READY = 1 << 2, /* after EHLO */
	ST_MAIL = 1 << 3, /* sender accepted */
	ST_RCPT = 1 << 4, /* at least one recipient accepted */
	ST_DATA = 1 << 5, /* the message is being read */
	ST_LEAVING = 1 << 6, /* the last reply is on its way */
	ST_CLOSED = 1 << 7,
	ST_COMMANDS = ST_GREETED | ST_READY | ST_MAIL | ST_RCPT
};

enum smtpd_auth_step {
	AUTH_NONE,
	AUTH_PLAIN,
	AUTH_LOGIN_NAME,
	AUTH_LOGIN_PASSWORD
};

struct smtpd_rcpt {
	char *address; /* as it goes out between <> */
	unsigned char notify; /* ENVELOPE_..., 0 = nothing said */
};

/* A transaction: from an accepted MAIL to its end, whatever that is. */
struct smtpd_tx {
	uint64_t deadline_ms; /* for all of it, whoever dawdles */
	uint64_t size; /* announced, 0 = not */
	enum envelope_ret ret;
	bool smtputf8, require_tls;
	struct smtpd_rcpt *rcpt;
	size_t rcpt_count;
	unsigned refused; /* recipients not accepted */
	struct smtp_data data;
	struct submit *submit; /* the message on its way */
	bool swallow; /* it is refused: read on to its end */
	struct smtpd_rcpt asked; /* the recipient being checked */
	uint64_t began_ms, ended_ms; /* of DATA */
};

TAILQ_HEAD(smtpd_sessions, smtpd_session);

struct smtpd {
	struct loop *loop;
	struct store *store;
	struct net_ledger *ledger;
	unsigned worker;
	struct smtpd_settings set;
	struct smtpd_sessions sessions;
	unsigned count;
	bool was_stressed;
	void (*drained)(void *arg); /* set: no new commands */
	void *drained_arg;
};

struct smtpd_session {
	TAILQ_ENTRY(smtpd_session) entry;
	struct smtpd *smtpd;
	struct net_stream *stream;
	struct net_tls *tls;
	struct net_peer peer;
	char id[20]; /* in every log line */
	int place, inbox_place; /* in the ledger */
	unsigned state;
	bool secure; /* TLS is up */
	bool esmtp; /* EHLO, not HELO */
	bool upgrading; /* STARTTLS said 220 */
	bool eof; /* the client has shut its side */
	bool choked; /* replies wait to be read before more commands run */
	size_t lingered; /* bytes thrown away while leaving */
	unsigned errors, auth_failures, idle_commands;

	const char *waiting; /* what for; NULL: it is the client's turn */
	void *op; /* cancelled with the session */
	void (*op_cancel)(void *op);

	struct loop_timer *clock; /* of the client, or of leaving */
	uint64_t deadline_ms; /* what the clock waits for; 0 = nothing */
	uint64_t alarm_ms; /* when it rings, never later; 0 = it is off */
	struct loop_timer *pause; /* before a refused sign-in is answered */

	enum smtpd_auth_step auth_step;
	enum err_code auth_why; /* the last failure */
	char *auth_name; /* until the database has answered */
	struct store_cred *cred; /* signed in; NULL before */
	void (*go_on)(struct smtpd_session *s); /* when it says so again */
	struct smtpd_tx *tx; /* between MAIL and its end */
};

/* smtpd.c */
/* So many sessions are open that idle ones have to go sooner. */
bool smtpd_stressed(const struct smtpd *smtpd);
/* `count` has changed. */
void smtpd_look(struct smtpd *smtpd);

/* session.c */
/* Wait no longer than is usual under stress. */
void session_hurry(struct smtpd_session *s);
void session_close(struct smtpd_session *s, const char *why);
/* After the last reply: send what is left, then close. */
void session_leave(struct smtpd_session *s, const char *why);
/* Wait for `op`; it is cancelled when the session ends first. */
void session_wait(struct smtpd_session *s, const char *what, void *op,
    void (*cancel)(void *op));
/* The operation has called back: its handle is dead. */
void session_answered(struct smtpd_session *s);
/* Take input again, now or when the output has gone. */
void session_resume(struct smtpd_session *s);
/* It is the client's turn: start its clock. */
void session_turn(struct smtpd_session *s);
void session_pause_reading(struct smtpd_session *s);
void session_set_state(struct smtpd_session *s, unsigned state);
/* Forget the transaction; back to ST_READY. */
void session_reset(struct smtpd_session *s);
/* Swap plain for TLS, with nothing remembered. */
void session_begin_tls(struct smtpd_session *s);

/* The worker stops: 421, unless something is being waited for or sent. */
void session_drain(struct smtpd_session *s);
/* 421 also to who is sending a message, unless all of it is there. */
void session_expel(struct smtpd_session *s);
/* Close and free now; only from a clean stack. */
void session_kill(struct smtpd_session *s);

/* dispatch.c */
#define SESSION_OUTPUT_MAX (16 * 1024) /* of replies not read yet */
void dispatch_input(struct smtpd_session *s);
void dispatch_early(struct smtpd_session *s, const char *p, size_t n);

/* One command each; `cmd` points into the line and dies on return. */
typedef void cmd_fn(struct smtpd_session *s, const struct smtp_command *cmd);
cmd_fn cmd_ehlo, cmd_starttls, cmd_auth, cmd_mail, cmd_rcpt, cmd_data;
cmd_fn cmd_rset, cmd_noop, cmd_vrfy, cmd_help, cmd_quit, cmd_bdat;

/* cmd_auth.c: the answer to a 334. */
void auth_continue(struct smtpd_session *s, const char *line, size_t n);
void auth_after_pause(void *session);
/* Wipes name and credential. */
void auth_forget(struct smtpd_session *s);
/*
 * Is the key still good? `go_on` runs now or later, at most once: not at all
 * when it is not, for then the session has been told and is leaving.
 */
void auth_recheck(
    struct smtpd_session *s, void (*go_on)(struct smtpd_session *s));
/* 550 5.7.1 [unknown_api_key] and leave. */
void auth_revoked(struct smtpd_session *s);

/* cmd_data.c: bytes stand behind DATA; the session is leaving then. */
bool data_came_early(struct smtpd_session *s);
/* Message bytes are in the input buffer. */
void data_input(struct smtpd_session *s);
void tx_free(struct smtpd_tx *tx);

#endif
