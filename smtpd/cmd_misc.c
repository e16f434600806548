/* SPDX-License-Identifier: ISC */
/*
 * cmd_misc.c - RSET, NOOP, VRFY, HELP, QUIT: answered in any state.
 */
#include "smtpd/internal.h"

#include "smtpd/reply.h"

void
cmd_rset(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	s->idle_commands++;
	session_reset(s);
	reply_line(s, "250 2.0.0 Ok");
}

void
cmd_noop(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	s->idle_commands++;
	reply_line(s, "250 2.0.0 Ok");
}

/* RFC 5321 7.3: says nothing about any address. */
void
cmd_vrfy(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	s->idle_commands++;
	reply_line(s, "252 2.5.0 Send the message and see");
}

void
cmd_help(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	s->idle_commands++;
	reply_line(s,
	    "214 2.0.0 EHLO STARTTLS AUTH MAIL RCPT DATA RSET NOOP VRFY "
	    "HELP QUIT; sign in with the inbox address and its key");
}

void
cmd_quit(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	reply_line(s, "221 2.0.0 %s closes", s->smtpd->set.hostname);
	session_leave(s, "quit");
}
