/* SPDX-License-Identifier: ISC */
/*
 * dispatch.c - from bytes to commands, and who may say what when.
 *
 * The table is the whole order of the protocol: a command runs only in the
 * states and with the rights its row names. Lines end with CRLF and nothing
 * else; a client that ends them otherwise is told so and cut off, because
 * from there on nobody knows where its commands begin.
 */
#include "smtpd/internal.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "net/stream.h"
#include "smtpd/reply.h"

#define IDLE_COMMANDS_MAX 200 /* without a message between them */

enum needs { NEEDS_NOTHING, NEEDS_TLS, NEEDS_KEY };

struct command {
	unsigned states;
	enum needs needs;
	cmd_fn *run;
};

/* Verbs without a row are refused by verb_refused(). */
static const struct command commands[SMTP_VERBS] = {
	[SMTP_EHLO] = { ST_COMMANDS, NEEDS_NOTHING, cmd_ehlo },
	[SMTP_HELO] = { ST_COMMANDS, NEEDS_NOTHING, cmd_ehlo },
	[SMTP_STARTTLS] = { ST_READY, NEEDS_NOTHING, cmd_starttls },
	[SMTP_AUTH] = { ST_READY, NEEDS_TLS, cmd_auth },
	[SMTP_MAIL] = { ST_READY, NEEDS_KEY, cmd_mail },
	[SMTP_RCPT] = { ST_MAIL | ST_RCPT, NEEDS_KEY, cmd_rcpt },
	[SMTP_DATA] = { ST_RCPT, NEEDS_KEY, cmd_data },
	[SMTP_RSET] = { ST_COMMANDS, NEEDS_NOTHING, cmd_rset },
	[SMTP_NOOP] = { ST_COMMANDS, NEEDS_NOTHING, cmd_noop },
	[SMTP_VRFY] = { ST_COMMANDS, NEEDS_NOTHING, cmd_vrfy },
	[SMTP_HELP] = { ST_COMMANDS, NEEDS_NOTHING, cmd_help },
	[SMTP_QUIT] = { ST_COMMANDS, NEEDS_NOTHING, cmd_quit },
};

static bool line_take(struct smtpd_session *s, char **line, size_t *n);
static void line_run(struct smtpd_session *s, const char *line, size_t n);
static void dispatch(struct smtpd_session *s, const struct smtp_command *cmd);
static bool verb_refused(
    struct smtpd_session *s, const struct smtp_command *cmd);
static bool order_refused(
    struct smtpd_session *s, const struct smtp_command *cmd);
static void order_explain(
    struct smtpd_session *s, const struct smtp_command *cmd);
static bool syntax_refused(
    struct smtpd_session *s, const struct smtp_command *cmd);
static bool worn_out(struct smtpd_session *s);

void
dispatch_input(struct smtpd_session *s)
{
	char *line;
	size_t n;

	while (s->waiting == NULL && (s->state & ST_COMMANDS) != 0) {
		if (net_stream_output_size(s->stream) > SESSION_OUTPUT_MAX) {
			s->choked = true;
			session_pause_reading(s);
			return;
		}
		if (!line_take(s, &line, &n))
			break;
		if (s->smtpd->drained != NULL)
			session_drain(s);
		else
			line_run(s, line, n);
		explicit_bzero(line, n); /* it may be a key */
		free(line);
		if (!worn_out(s))
			session_turn(s);
	}
	if (s->eof && s->waiting == NULL &&
	    (s->state & (ST_COMMANDS | ST_DATA)) != 0)
		session_leave(s, "client went away");
	else if (s->smtpd->drained != NULL)
		session_drain(s); /* what was begun is answered */
}

void
dispatch_early(struct smtpd_session *s, const char *p, size_t n)
{
	struct smtp_command cmd;
	const char *end = memchr(p, '\r', n);

	smtp_command_parse(&cmd, p, end != NULL ? (size_t)(end - p) : n);
	if (cmd.verb == SMTP_FOREIGN)
		reply_expel(s, E_PROTOCOL_VIOLATION, "521 5.5.2",
		    "This is an SMTP server");
	else
		reply_expel(s, E_PROTOCOL_VIOLATION, NULL,
		    "You spoke before the greeting");
}

/* Is the line to come one of AUTH, or an answer to it? RFC 4954 4, 6. */
static bool
signs_in(const struct smtpd_session *s, struct evbuffer *in)
{
	char word[5] = "";

	return s->auth_step != AUTH_NONE ||
	       (evbuffer_copyout(in, word, sizeof word) == sizeof word &&
		   str_ieq(
		       (struct str){ word, sizeof word }, str_lit("AUTH ")));
}

/*
 * One line without its CRLF, NUL added. False when none is complete, or when
 * what is there cannot become one (the session is leaving then).
 */
static bool
line_take(struct smtpd_session *s, char **line, size_t *n)
{
	struct evbuffer *in = net_stream_input(s->stream);
	struct evbuffer_ptr lf = evbuffer_search(in, "\n", 1, NULL);
	size_t have = evbuffer_get_length(in);
	size_t len = lf.pos < 0 ? have : (size_t)lf.pos + 1;

	if (have > 0 && s->auth_step == AUTH_NONE) {
		unsigned char *first = evbuffer_pullup(in, 1);

		if ((*first | 0x20) < 'a' || (*first | 0x20) > 'z') {
			reply_expel(s, E_PROTOCOL_VIOLATION, "521 5.5.2",
			    "This is an SMTP server");
			return false;
		}
	}
	if (len > SMTP_AUTH_LINE_MAX + 2) {
		reply_expel(s, E_SYNTAX_ERROR,
		    signs_in(s, in) ? "500 5.5.6" : "500 5.5.2",
		    "The line is too long");
		return false;
	}
	if (lf.pos < 0)
		return false;
	*line = malloc(len + 1);
	if (*line == NULL)
		abort();
	evbuffer_remove(in, *line, len);
	if (len < 2 || (*line)[len - 2] != '\r') {
		free(*line);
		reply_expel(s, E_SYNTAX_ERROR, "500 5.5.2",
		    "A line ended with a bare LF; lines end with CRLF");
		return false;
	}
	*n = len - 2;
	(*line)[*n] = '\0';
	return true;
}

static void
line_run(struct smtpd_session *s, const char *line, size_t n)
{
	struct smtp_command cmd;

	if (s->auth_step != AUTH_NONE) {
		auth_continue(s, line, n);
		return;
	}
	smtp_command_parse(&cmd, line, n);
	dispatch(s, &cmd);
}

static void
dispatch(struct smtpd_session *s, const struct smtp_command *cmd)
{
	if (cmd->fault == SMTP_BAD_BYTES) {
		reply_refuse_as(s, E_SYNTAX_ERROR, "500 5.5.2",
		    "The line has a NUL, a bare CR or a control character");
		return;
	}
	/* Also where it is refused: the body would run as commands. */
	if (cmd->verb == SMTP_DATA && data_came_early(s))
		return;
	if (verb_refused(s, cmd) || order_refused(s, cmd) ||
	    syntax_refused(s, cmd))
		return;
	commands[cmd->verb].run(s, cmd);
}

static bool
verb_refused(struct smtpd_session *s, const struct smtp_command *cmd)
{
	char quoted[REPLY_QUOTED_MAX];

	switch (cmd->verb) {
	case SMTP_FOREIGN:
		reply_expel(s, E_PROTOCOL_VIOLATION, "521 5.5.2",
		    "This is an SMTP server");
		return true;
	case SMTP_BDAT: /* its bytes follow and must not run as commands */
		reply_expel(
		    s, E_BAD_SEQUENCE, "502 5.5.1", "BDAT is not offered here");
		return true;
	case SMTP_REFUSED:
		reply_refuse_as(s, E_BAD_SEQUENCE, "502 5.5.1",
		    "This command is not offered here");
		return true;
	case SMTP_UNKNOWN:
	case SMTP_VERBS:
		reply_refuse_as(s, E_SYNTAX_ERROR, "500 5.5.2",
		    "\"%s\" is not a command", reply_quote(quoted, cmd->line));
		return true;
	case SMTP_EHLO:
	case SMTP_HELO:
	case SMTP_STARTTLS:
	case SMTP_AUTH:
	case SMTP_MAIL:
	case SMTP_RCPT:
	case SMTP_DATA:
	case SMTP_RSET:
	case SMTP_NOOP:
	case SMTP_VRFY:
	case SMTP_HELP:
	case SMTP_QUIT:
		break;
	}
	return false;
}

static bool
order_refused(struct smtpd_session *s, const struct smtp_command *cmd)
{
	const struct command *row = &commands[cmd->verb];

	if ((row->states & ST_GREETED) == 0 && s->state == ST_GREETED) {
		reply_refuse(s, E_BAD_SEQUENCE, "Say EHLO first");
		return true;
	}
	if (row->needs != NEEDS_NOTHING && !s->secure) {
		reply_refuse_as(s, E_TLS_REQUIRED,
		    cmd->verb == SMTP_AUTH ? "538 5.7.11" : "530 5.7.0",
		    "This connection is not encrypted");
		return true;
	}
	if (row->needs == NEEDS_KEY && s->cred == NULL) {
		reply_refuse(
		    s, E_MISSING_AUTHORIZATION, "You have not signed in");
		return true;
	}
	if ((row->states & s->state) == 0) {
		order_explain(s, cmd);
		return true;
	}
	return false;
}

static void
order_explain(struct smtpd_session *s, const struct smtp_command *cmd)
{
	if (cmd->verb == SMTP_DATA && s->tx != NULL && s->tx->refused > 0)
		reply_refuse_as(s, E_BAD_SEQUENCE, "554 5.5.1",
		    "No recipient was accepted");
	else if (cmd->verb == SMTP_MAIL)
		reply_refuse(s, E_BAD_SEQUENCE,
		    "A sender was given already; RSET drops it");
	else if (cmd->verb == SMTP_RCPT || s->tx == NULL)
		reply_refuse(s, E_BAD_SEQUENCE,
		    cmd->verb == SMTP_RCPT || cmd->verb == SMTP_DATA
			? "MAIL has to come first"
			: "Not at this point");
	else
		reply_refuse(s, E_BAD_SEQUENCE,
		    cmd->verb == SMTP_DATA ? "RCPT has to come first"
					   : "Not inside a transaction");
}

static bool
syntax_refused(struct smtpd_session *s, const struct smtp_command *cmd)
{
	char quoted[REPLY_QUOTED_MAX];

	reply_quote(
	    quoted, cmd->verb == SMTP_AUTH ? str_lit("AUTH ...") : cmd->line);
	switch (cmd->fault) {
	case SMTP_FINE:
	case SMTP_BAD_BYTES: /* told before */
		return false;
	case SMTP_TOO_LONG:
		reply_refuse_as(s, E_SYNTAX_ERROR,
		    cmd->verb == SMTP_AUTH ? "500 5.5.6" : "500 5.5.2",
		    "The line is too long");
		break;
	case SMTP_BAD_ARGUMENT:
		reply_refuse(s, E_SYNTAX_ERROR,
		    "\"%s\" has a missing or wrong argument", quoted);
		break;
	case SMTP_BAD_SENDER:
	case SMTP_ROUTE_SENDER:
		reply_refuse_as(s, E_INVALID_ADDRESS, "501 5.1.7",
		    "\"%s\" has %s", quoted,
		    cmd->fault == SMTP_BAD_SENDER ? "no valid <sender>"
						  : "a source route");
		break;
	case SMTP_BAD_RECIPIENT:
	case SMTP_ROUTE_RECIPIENT:
		reply_refuse(s, E_INVALID_ADDRESS, "\"%s\" has %s", quoted,
		    cmd->fault == SMTP_BAD_RECIPIENT ? "no valid <recipient>"
						     : "a source route");
		break;
	case SMTP_BAD_PARAM:
		reply_refuse(s, E_SYNTAX_ERROR,
		    "\"%s\" has a parameter with a wrong value", quoted);
		break;
	case SMTP_UNKNOWN_PARAM:
		reply_refuse(s, E_PARAM_UNSUPPORTED,
		    "\"%s\" has a parameter that is not announced", quoted);
		break;
	}
	if (cmd->verb == SMTP_RCPT && s->tx != NULL)
		s->tx->refused++;
	return true;
}

static bool
worn_out(struct smtpd_session *s)
{
	if ((s->state & (ST_LEAVING | ST_CLOSED)) != 0)
		return true;
	if (s->errors <= s->smtpd->set.errors_max &&
	    s->idle_commands <= IDLE_COMMANDS_MAX)
		return false;
	if (s->waiting != NULL)
		return false; /* when that is answered */
	reply_expel(s, E_TOO_MANY_ERRORS, NULL, "%s",
	    s->errors > s->smtpd->set.errors_max
		? "Too many commands were refused"
		: "Too many commands without a message");
	return true;
}
