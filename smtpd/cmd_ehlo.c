/* SPDX-License-Identifier: ISC */
/*
 * cmd_ehlo.c - EHLO and HELO: what is offered depends on TLS alone.
 */
#include "smtpd/internal.h"

#include <inttypes.h>

#include "smtpd/reply.h"

void
cmd_ehlo(struct smtpd_session *s, const struct smtp_command *cmd)
{
	const struct smtpd_settings *set = &s->smtpd->set;

	s->idle_commands++;
	session_reset(s);
	session_set_state(s, ST_READY);
	s->esmtp = cmd->verb == SMTP_EHLO;
	if (!s->esmtp) {
		reply_line(s, "250 %s", set->hostname);
		return;
	}
	reply_line(s, "250-%s", set->hostname);
	reply_line(s, "250-PIPELINING");
	reply_line(s, "250-SIZE %" PRIu64, set->size_max);
	reply_line(s, "250-8BITMIME");
	reply_line(s, "250-ENHANCEDSTATUSCODES");
	if (!s->secure) {
		reply_line(s, "250 STARTTLS");
		return;
	}
	reply_line(s, "250-SMTPUTF8");
	reply_line(s, "250-DSN");
	reply_line(s, "250-REQUIRETLS");
	reply_line(s, "250-LIMITS RCPTMAX=%u", set->rcpt_max);
	reply_line(s, "250 AUTH PLAIN LOGIN");
}
