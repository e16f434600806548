/* SPDX-License-Identifier: ISC */
/*
 * smtpd.h - the SMTP door of one worker: sessions that submit mail.
 *
 * An agent signs in with its inbox key over TLS, may send only as its own
 * inbox, and gets 250 only after COMMIT. All runs on one loop.
 */
#ifndef SMTPD_SMTPD_H
#define SMTPD_SMTPD_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/util.h>

struct loop;
struct net_ledger;
struct net_peer;
struct net_tls;
struct smtpd;
struct store;

/* Copied when given. Zero means the default named behind the field. */
struct smtpd_settings {
	char hostname[256];
	char banner[128]; /* "ESMTP" */
	uint64_t size_max; /* 50 MiB */
	unsigned rcpt_max; /* 100 */
	unsigned idle_ms; /* between commands: 5 min */
	unsigned transaction_ms; /* MAIL to final dot: 30 min */
	unsigned errors_max; /* refused commands of a session: 20 */
	unsigned peer_max; /* connections of one address: 50 */
	unsigned inbox_max; /* sessions signed in as one inbox: 200 */
	unsigned sessions_max; /* of this worker: 4000 */
	unsigned stress_ms; /* idle_ms once three quarters of sessions_max are
		open, three times as much for who is signed in: 10 s */
};

/*
 * `ledger` may be NULL (nothing counted between workers); `worker` is this
 * process's number in it. All are borrowed and outlive the smtpd.
 */
struct smtpd *smtpd_new(struct loop *loop, struct store *store,
    struct net_ledger *ledger, unsigned worker,
    const struct smtpd_settings *settings);
/* Sessions that exist keep the values they began with where it matters. */
void smtpd_configure(
    struct smtpd *smtpd, const struct smtpd_settings *settings);

/*
 * Begin a session; takes over `fd`. `tls` is borrowed: STARTTLS is offered
 * with it, or with `implicit` it comes first. Over a limit the peer gets 421.
 */
void smtpd_accept(struct smtpd *smtpd, evutil_socket_t fd,
    const struct net_peer *peer, struct net_tls *tls, bool implicit);

unsigned smtpd_count(const struct smtpd *smtpd);

/*
 * No new commands: each session gets 421 4.3.2 when what it waits for is
 * answered. `done` runs once, later, when the last one has gone.
 */
void smtpd_drain(struct smtpd *smtpd, void (*done)(void *arg), void *arg);
/* Time is up: 421 4.3.2 also for who has not sent all of a message. */
void smtpd_expel(struct smtpd *smtpd);

/* Ends what is left at once. NULL is fine. */
void smtpd_free(struct smtpd *smtpd);

#endif
