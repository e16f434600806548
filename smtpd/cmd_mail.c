/* SPDX-License-Identifier: ISC */
/*
 * cmd_mail.c - MAIL: an agent sends as its own inbox and as nobody else.
 */
#include "smtpd/internal.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "mail/address.h"
#include "smtpd/reply.h"
#include "store/credential.h"

static bool is_own_address(
    struct smtpd_session *s, const struct smtp_command *cmd);
static bool fits(struct smtpd_session *s, const struct smtp_command *cmd);
static void accept_sender(struct smtpd_session *s);

void
cmd_mail(struct smtpd_session *s, const struct smtp_command *cmd)
{
	if (!is_own_address(s, cmd) || !fits(s, cmd))
		return;
	s->tx = xcalloc(1, sizeof *s->tx);
	s->tx->size = cmd->size;
	s->tx->ret = cmd->ret;
	s->tx->smtputf8 = cmd->smtputf8;
	s->tx->require_tls = cmd->require_tls;
	s->tx->deadline_ms = clock_mono_ms() + s->smtpd->set.transaction_ms;
	auth_recheck(s, accept_sender);
}

static bool
is_own_address(struct smtpd_session *s, const struct smtp_command *cmd)
{
	struct str path = cmd->path;
	char quoted[REPLY_QUOTED_MAX];
	struct address from = { 0 }, own;
	enum address_result result = ADDRESS_EMPTY;

	if (path.n > 0)
		result = address_parse(&from, path);
	if (result != ADDRESS_OK && result != ADDRESS_EMPTY) {
		reply_refuse_as(s, E_INVALID_ADDRESS, "501 5.1.7",
		    "The sender <%s> is not an address: %s",
		    reply_quote(quoted, path), address_result_text(result));
		return false;
	}
	if (!cmd->smtputf8 && (from.utf8_local || from.utf8_domain)) {
		reply_refuse(s, E_SMTPUTF8_NEEDED,
		    "The sender <%s> needs SMTPUTF8, which MAIL did not say",
		    reply_quote(quoted, path));
		return false;
	}
	if (result == ADDRESS_OK &&
	    address_parse(&own, str_of(s->cred->address)) == ADDRESS_OK &&
	    address_eq(&from, &own))
		return true;
	reply_quote(quoted, path);
	store_denied(s->cred, "sender_mismatch", quoted);
	reply_refuse(s, E_SENDER_MISMATCH,
	    "MAIL FROM is <%s>; this key may send only as %s", quoted,
	    s->cred->address);
	return false;
}

static bool
fits(struct smtpd_session *s, const struct smtp_command *cmd)
{
	uint64_t max = s->smtpd->set.size_max;

	if (s->cred->size_max > 0 && (uint64_t)s->cred->size_max < max)
		max = (uint64_t)s->cred->size_max;
	if (cmd->size <= max)
		return true;
	reply_refuse(s, E_PAYLOAD_TOO_LARGE,
	    "SIZE is %" PRIu64 ", allowed are %" PRIu64 " octets", cmd->size,
	    max);
	return false;
}

/*
 * The key is good. Whether its inbox takes new mail is said at the dot: what
 * comes may be a mail that was stored before (0119).
 */
static void
accept_sender(struct smtpd_session *s)
{
	session_set_state(s, ST_MAIL);
	reply_line(s, "250 2.1.0 Ok");
}
