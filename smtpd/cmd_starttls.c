/* SPDX-License-Identifier: ISC */
/*
 * cmd_starttls.c - RFC 3207.
 *
 * Whatever the client sent behind the command was sent in the clear and may
 * be an attacker's: it is never carried into TLS, and its presence ends the
 * session.
 */
#include "smtpd/internal.h"

#include <event2/buffer.h>

#include "net/stream.h"
#include "smtpd/reply.h"

void
cmd_starttls(struct smtpd_session *s, const struct smtp_command *cmd)
{
	(void)cmd;
	if (s->secure) {
		reply_refuse(s, E_BAD_SEQUENCE, "TLS is in use already");
		return;
	}
	if (evbuffer_get_length(net_stream_input(s->stream)) > 0) {
		reply_expel(s, E_PROTOCOL_VIOLATION, NULL,
		    "Bytes came behind STARTTLS");
		return;
	}
	auth_forget(s);
	session_begin_tls(s);
	reply_line(s, "220 2.0.0 Ready for TLS");
}
