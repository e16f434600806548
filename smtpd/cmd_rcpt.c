/* SPDX-License-Identifier: ISC */
/*
 * cmd_rcpt.c - RCPT: syntax and number only. Nothing an agent names is looked
 * up before a person has released the mail (decision A6); who is blocked is
 * said at the dot (0098).
 */
#include "smtpd/internal.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "mail/address.h"
#include "smtpd/reply.h"
#include "store/credential.h"

static bool check_address(
    struct smtpd_session *s, struct str path, struct address *rcpt);
static bool has_room(struct smtpd_session *s);
static void accept_rcpt(struct smtpd_session *s);

void
cmd_rcpt(struct smtpd_session *s, const struct smtp_command *cmd)
{
	struct address rcpt;

	if (!check_address(s, cmd->path, &rcpt) || !has_room(s)) {
		s->tx->refused++;
		return;
	}
	free(s->tx->asked.address);
	s->tx->asked.address = xcalloc(1, ADDRESS_MAX);
	address_carried(s->tx->asked.address, &rcpt);
	s->tx->asked.notify = cmd->notify;
	auth_recheck(s, accept_rcpt);
}

static bool
check_address(struct smtpd_session *s, struct str path, struct address *rcpt)
{
	char quoted[REPLY_QUOTED_MAX];
	enum address_result result = address_parse(rcpt, path);

	reply_quote(quoted, path);
	if (result != ADDRESS_OK)
		reply_refuse(s, E_INVALID_ADDRESS,
		    "The recipient <%s> is not an address: %s", quoted,
		    address_result_text(result));
	else if (!s->tx->smtputf8 && (rcpt->utf8_local || rcpt->utf8_domain))
		reply_refuse(s, E_SMTPUTF8_NEEDED,
		    "The recipient <%s> needs SMTPUTF8, which MAIL did not say",
		    quoted);
	else if (!address_domain_public(rcpt))
		reply_refuse(s, E_RECIPIENT_DOMAIN_REFUSED,
		    "No public mail goes to <%s>", quoted);
	else
		return true;
	return false;
}

static bool
has_room(struct smtpd_session *s)
{
	unsigned max = s->smtpd->set.rcpt_max;

	if (s->cred->rcpt_max > 0 && (unsigned)s->cred->rcpt_max < max)
		max = (unsigned)s->cred->rcpt_max;
	if (s->tx->rcpt_count < max)
		return true;
	reply_refuse(s, E_TOO_MANY_RECIPIENTS,
	    "One message may have %u recipients", max);
	return false;
}

static void
accept_rcpt(struct smtpd_session *s)
{
	struct smtpd_tx *tx = s->tx;

	if ((tx->rcpt_count & (tx->rcpt_count + 1)) == 0) /* 0, 1, 3, 7, ... */
		tx->rcpt = xreallocarray(
		    tx->rcpt, tx->rcpt_count * 2 + 1, sizeof *tx->rcpt);
	tx->rcpt[tx->rcpt_count++] = tx->asked;
	tx->asked.address = NULL;
	session_set_state(s, ST_RCPT);
	reply_line(s, "250 2.1.5 Ok");
}
