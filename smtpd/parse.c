/* SPDX-License-Identifier: ISC */
/*
 * parse.c - RFC 5321 4.1 as seen by a server that refuses what it does not
 * know. The only leniences are those real clients need: verbs and parameter
 * names in any case, one space after "FROM:" and "TO:", spaces at the end.
 */
#include "smtpd/parse.h"

#include <string.h>

#include "smtpd/param.h"

static const struct {
	const char *name;
	enum smtp_verb verb;
} verbs[] = {
	{ "EHLO", SMTP_EHLO },
	{ "HELO", SMTP_HELO },
	{ "STARTTLS", SMTP_STARTTLS },
	{ "AUTH", SMTP_AUTH },
	{ "MAIL", SMTP_MAIL },
	{ "RCPT", SMTP_RCPT },
	{ "DATA", SMTP_DATA },
	{ "RSET", SMTP_RSET },
	{ "NOOP", SMTP_NOOP },
	{ "VRFY", SMTP_VRFY },
	{ "HELP", SMTP_HELP },
	{ "QUIT", SMTP_QUIT },
	{ "BDAT", SMTP_BDAT },
	{ "EXPN", SMTP_REFUSED },
	{ "ETRN", SMTP_REFUSED },
	{ "TURN", SMTP_REFUSED },
	{ "ATRN", SMTP_REFUSED },
	{ "SEND", SMTP_REFUSED },
	{ "SOML", SMTP_REFUSED },
	{ "SAML", SMTP_REFUSED },
	{ "XCLIENT", SMTP_REFUSED },
	{ "XFORWARD", SMTP_REFUSED },
	{ "GET", SMTP_FOREIGN },
	{ "POST", SMTP_FOREIGN },
	{ "PUT", SMTP_FOREIGN },
	{ "HEAD", SMTP_FOREIGN },
	{ "DELETE", SMTP_FOREIGN },
	{ "PATCH", SMTP_FOREIGN },
	{ "OPTIONS", SMTP_FOREIGN },
	{ "CONNECT", SMTP_FOREIGN },
	{ "TRACE", SMTP_FOREIGN },
	{ "PRI", SMTP_FOREIGN },
};

static enum smtp_verb verb_find(struct str word);
static bool bytes_are_fine(const char *line, size_t n);
static void parse_greeting(struct smtp_command *cmd);
static void parse_auth(struct smtp_command *cmd);
static void parse_path(struct smtp_command *cmd, const char *keyword,
    enum smtp_fault bad, enum smtp_fault route);
static size_t path_end(struct str in);

void
smtp_command_parse(struct smtp_command *cmd, const char *line, size_t n)
{
	struct str rest = { line, n };
	struct str word = smtp_word_take(&rest);

	memset(cmd, 0, sizeof *cmd);
	cmd->line = (struct str){ line, n };
	cmd->verb = verb_find(word);
	cmd->arg = smtp_trim(rest);
	if (n > 0 && !((line[0] | 0x20) >= 'a' && (line[0] | 0x20) <= 'z'))
		cmd->verb = SMTP_FOREIGN;
	if (!bytes_are_fine(line, n)) {
		cmd->fault = SMTP_BAD_BYTES;
		return;
	}
	if (n > (cmd->verb == SMTP_AUTH ? SMTP_AUTH_LINE_MAX : SMTP_LINE_MAX)) {
		cmd->fault = SMTP_TOO_LONG;
		return;
	}
	switch (cmd->verb) {
	case SMTP_EHLO:
	case SMTP_HELO:
		parse_greeting(cmd);
		break;
	case SMTP_AUTH:
		parse_auth(cmd);
		break;
	case SMTP_MAIL:
		parse_path(cmd, "FROM:", SMTP_BAD_SENDER, SMTP_ROUTE_SENDER);
		break;
	case SMTP_RCPT:
		parse_path(
		    cmd, "TO:", SMTP_BAD_RECIPIENT, SMTP_ROUTE_RECIPIENT);
		break;
	case SMTP_STARTTLS:
	case SMTP_DATA:
	case SMTP_RSET:
	case SMTP_QUIT:
		if (cmd->arg.n > 0)
			cmd->fault = SMTP_BAD_ARGUMENT;
		break;
	case SMTP_VRFY:
		if (cmd->arg.n == 0)
			cmd->fault = SMTP_BAD_ARGUMENT;
		break;
	case SMTP_NOOP:
	case SMTP_HELP:
	case SMTP_BDAT:
	case SMTP_REFUSED:
	case SMTP_FOREIGN:
	case SMTP_UNKNOWN:
	case SMTP_VERBS:
		break;
	}
}

const char *
smtp_verb_name(enum smtp_verb verb)
{
	size_t i;

	for (i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (verbs[i].verb == verb && verb < SMTP_REFUSED)
			return verbs[i].name;
	return "other";
}

bool
smtp_base64_decode(struct str in, unsigned char *out, size_t size, size_t *n)
{
	*n = 0;
	if (in.n == 1 && in.p[0] == '=')
		return true;
	return in.n / 4 * 3 <= size && base64_decode(out, n, in.p, in.n);
}

bool
smtp_plain_parse(const unsigned char *p, size_t n, struct str *authzid,
    struct str *authcid, struct str *password)
{
	const char *text = (const char *)p;
	const char *first = memchr(text, '\0', n), *second;
	const char *c;

	if (first == NULL)
		return false;
	second = memchr(first + 1, '\0', n - (size_t)(first + 1 - text));
	if (second == NULL)
		return false;
	*authzid = (struct str){ text, (size_t)(first - text) };
	*authcid = (struct str){ first + 1, (size_t)(second - first - 1) };
	*password = (struct str){ second + 1, n - (size_t)(second + 1 - text) };
	for (c = text; c < second; c++)
		if (c != first && ((unsigned char)*c < 0x20 || *c == 0x7f))
			return false;
	return authcid->n > 0 && password->n > 0 &&
	       memchr(password->p, '\0', password->n) == NULL;
}

static enum smtp_verb
verb_find(struct str word)
{
	size_t i;

	for (i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (smtp_is_word(word, verbs[i].name))
			return verbs[i].verb;
	return SMTP_UNKNOWN;
}

/* Printable ASCII, space, and bytes >= 0x80 that handlers refuse by name. */
static bool
bytes_are_fine(const char *line, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			return false;
	return true;
}

/* RFC 5321 4.1.4: the name is not checked, but it must be one word. */
static void
parse_greeting(struct smtp_command *cmd)
{
	size_t i;

	if (cmd->arg.n == 0 || cmd->arg.n > 255)
		cmd->fault = SMTP_BAD_ARGUMENT;
	for (i = 0; i < cmd->arg.n; i++)
		if (cmd->arg.p[i] <= ' ' || cmd->arg.p[i] > '~')
			cmd->fault = SMTP_BAD_ARGUMENT;
}

static void
parse_auth(struct smtp_command *cmd)
{
	struct str rest = cmd->arg;

	cmd->mechanism = smtp_word_take(&rest);
	cmd->initial = smtp_trim(rest);
	cmd->has_initial = cmd->initial.n > 0;
	if (cmd->mechanism.n == 0 || cmd->mechanism.n > 20 ||
	    (cmd->has_initial &&
		memchr(cmd->initial.p, ' ', cmd->initial.n) != NULL))
		cmd->fault = SMTP_BAD_ARGUMENT;
}

static void
parse_path(struct smtp_command *cmd, const char *keyword, enum smtp_fault bad,
    enum smtp_fault route)
{
	struct str rest = cmd->arg, key = { rest.p, strlen(keyword) };
	size_t end;

	cmd->fault = SMTP_BAD_ARGUMENT;
	if (rest.n < key.n || !smtp_is_word(key, keyword))
		return;
	rest.p += key.n;
	rest.n -= key.n;
	if (rest.n > 0 && rest.p[0] == ' ') { /* Outlook, others */
		rest.p++;
		rest.n--;
	}
	cmd->fault = bad;
	end = path_end(rest);
	if (end == 0 || end - 1 > SMTP_PATH_MAX)
		return;
	cmd->path = (struct str){ rest.p + 1, end - 1 };
	if (cmd->path.n > 0 && cmd->path.p[0] == '@') {
		cmd->fault = route;
		return;
	}
	rest.p += end + 1;
	rest.n -= end + 1;
	if (rest.n > 0 && rest.p[0] != ' ')
		return;
	cmd->fault = SMTP_FINE;
	smtp_params_parse(cmd, smtp_trim(rest));
}

/* Index of the '>' that closes `in`, which starts with '<'; 0 if none. */
static size_t
path_end(struct str in)
{
	bool quoted = false;
	size_t i;

	if (in.n == 0 || in.p[0] != '<')
		return 0;
	for (i = 1; i < in.n; i++) {
		if (quoted && in.p[i] == '\\')
			i++;
		else if (in.p[i] == '"')
			quoted = !quoted;
		else if (!quoted && in.p[i] == '>')
			return i;
		else if (!quoted && (in.p[i] == '<' || in.p[i] == ' '))
			return 0;
	}
	return 0;
}
