/* SPDX-License-Identifier: ISC */
/*
 * smtpd.c - the set of sessions of one worker.
 */
#include "smtpd/smtpd.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/xalloc.h"
#include "smtpd/internal.h"
#include "smtpd/reply.h"

struct smtpd *
smtpd_new(struct loop *loop, struct store *store, struct net_ledger *ledger,
    unsigned worker, const struct smtpd_settings *settings)
{
	struct smtpd *smtpd = xcalloc(1, sizeof *smtpd);

	smtpd->loop = loop;
	smtpd->store = store;
	smtpd->ledger = ledger;
	smtpd->worker = worker;
	TAILQ_INIT(&smtpd->sessions);
	smtpd_configure(smtpd, settings);
	return smtpd;
}

void
smtpd_configure(struct smtpd *smtpd, const struct smtpd_settings *settings)
{
	struct smtpd_settings *set = &smtpd->set;

	*set = *settings;
	if (set->size_max == 0)
		set->size_max = 52428800;
	if (set->rcpt_max == 0)
		set->rcpt_max = 100;
	if (set->idle_ms == 0)
		set->idle_ms = 5 * 60 * 1000;
	if (set->transaction_ms == 0)
		set->transaction_ms = 30 * 60 * 1000;
	if (set->errors_max == 0)
		set->errors_max = 20;
	if (set->peer_max == 0)
		set->peer_max = 50;
	if (set->inbox_max == 0)
		set->inbox_max = 200;
	if (set->stress_ms == 0)
		set->stress_ms = 10 * 1000;
	if (set->sessions_max == 0)
		set->sessions_max = 4000;
	if (set->banner[0] == '\0')
		memcpy(set->banner, "ESMTP", sizeof "ESMTP");
}

bool
smtpd_stressed(const struct smtpd *smtpd)
{
	return smtpd->count >= (smtpd->set.sessions_max * 3 + 3) / 4;
}

/* Once each time it begins: those already waiting are hurried too. */
void
smtpd_look(struct smtpd *smtpd)
{
	struct smtpd_session *s;
	bool stressed = smtpd_stressed(smtpd);

	if (stressed && !smtpd->was_stressed) {
		log_warn("smtpd.stress", KV("size", smtpd->count));
		TAILQ_FOREACH(s, &smtpd->sessions, entry)
			session_hurry(s);
	}
	smtpd->was_stressed = stressed;
}

unsigned
smtpd_count(const struct smtpd *smtpd)
{
	return smtpd->count;
}

void
smtpd_drain(struct smtpd *smtpd, void (*done)(void *arg), void *arg)
{
	struct smtpd_session *s, *next;

	smtpd->drained = done;
	smtpd->drained_arg = arg;
	if (smtpd->count == 0)
		loop_defer(smtpd->loop, done, arg);
	TAILQ_FOREACH_SAFE(s, &smtpd->sessions, entry, next)
		session_drain(s);
}

void
smtpd_expel(struct smtpd *smtpd)
{
	struct smtpd_session *s, *next;

	TAILQ_FOREACH_SAFE(s, &smtpd->sessions, entry, next)
		session_expel(s);
}

void
smtpd_free(struct smtpd *smtpd)
{
	struct smtpd_session *s;

	if (smtpd == NULL)
		return;
	smtpd->drained = NULL;
	while ((s = TAILQ_FIRST(&smtpd->sessions)) != NULL)
		session_kill(s);
	free(smtpd);
}
