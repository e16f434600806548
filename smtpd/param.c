/* SPDX-License-Identifier: ISC */
/*
 * param.c - what may stand behind the path of MAIL and RCPT.
 *
 * Every parameter once (RFC 5321 4.1.2); one that is not announced, or not
 * with this command, is SMTP_UNKNOWN_PARAM.
 */
#include "smtpd/param.h"

#include <string.h>

#include "mail/envelope.h"
#include "smtpd/parse.h"

#define ENVID_MAX 100 /* RFC 3461 4.4 */
#define ORCPT_MAX 500 /* RFC 3461 4.2 */

typedef enum smtp_fault param_fn(struct smtp_command *cmd, struct str value);

static param_fn size_param, body_param, auth_param, ret_param, envid_param;
static param_fn utf8_param, tls_param, notify_param, orcpt_param;

enum { NO_VALUE, WITH_VALUE };

static const struct {
	enum smtp_verb verb;
	const char *name;
	int value;
	param_fn *take;
} params[] = {
	{ SMTP_MAIL, "SIZE", WITH_VALUE, size_param },
	{ SMTP_MAIL, "BODY", WITH_VALUE, body_param },
	{ SMTP_MAIL, "AUTH", WITH_VALUE, auth_param },
	{ SMTP_MAIL, "RET", WITH_VALUE, ret_param },
	{ SMTP_MAIL, "ENVID", WITH_VALUE, envid_param },
	{ SMTP_MAIL, "SMTPUTF8", NO_VALUE, utf8_param },
	{ SMTP_MAIL, "REQUIRETLS", NO_VALUE, tls_param },
	{ SMTP_RCPT, "NOTIFY", WITH_VALUE, notify_param },
	{ SMTP_RCPT, "ORCPT", WITH_VALUE, orcpt_param },
};
#define PARAMS (sizeof params / sizeof *params)

/* One NAME or NAME=value; `seen` has a bit for each that came before. */
static enum smtp_fault
take_param(struct smtp_command *cmd, struct str word, unsigned *seen)
{
	const char *equals = memchr(word.p, '=', word.n);
	struct str value = { word.p + word.n, 0 };
	size_t i;

	if (equals != NULL) {
		value.p = equals + 1;
		value.n = word.n - (size_t)(equals + 1 - word.p);
		word.n = (size_t)(equals - word.p);
	}
	for (i = 0; i < PARAMS; i++)
		if (params[i].verb == cmd->verb &&
		    smtp_is_word(word, params[i].name))
			break;
	if (i == PARAMS)
		return SMTP_UNKNOWN_PARAM;
	if ((*seen & 1u << i) != 0 ||
	    (equals != NULL) != (params[i].value == WITH_VALUE))
		return SMTP_BAD_PARAM;
	*seen |= 1u << i;
	return params[i].take(cmd, value);
}

void
smtp_params_parse(struct smtp_command *cmd, struct str rest)
{
	unsigned seen = 0;

	while (cmd->fault == SMTP_FINE && rest.n > 0) {
		cmd->fault = take_param(cmd, smtp_word_take(&rest), &seen);
		rest = smtp_trim(rest);
	}
}

/* RFC 1870 5: at most 20 digits. */
static enum smtp_fault
size_param(struct smtp_command *cmd, struct str value)
{
	size_t i;

	if (value.n == 0 || value.n > 20)
		return SMTP_BAD_PARAM;
	for (i = 0; i < value.n; i++) {
		if (value.p[i] < '0' || value.p[i] > '9')
			return SMTP_BAD_PARAM;
		if (cmd->size > (UINT64_MAX - 9) / 10)
			cmd->size = UINT64_MAX;
		else
			cmd->size =
			    cmd->size * 10 + (uint64_t)(value.p[i] - '0');
	}
	cmd->has_size = true;
	return SMTP_FINE;
}

static enum smtp_fault
body_param(struct smtp_command *cmd, struct str value)
{
	if (smtp_is_word(value, "7BIT"))
		cmd->body = SMTP_BODY_7BIT;
	else if (smtp_is_word(value, "8BITMIME"))
		cmd->body = SMTP_BODY_8BITMIME;
	else
		return SMTP_BAD_PARAM;
	return SMTP_FINE;
}

/* RFC 4954 5: checked for form and ignored, as from a stranger. */
static enum smtp_fault
auth_param(struct smtp_command *cmd, struct str value)
{
	(void)cmd;
	return value.n > 0 && smtp_xtext_is_valid(value) ? SMTP_FINE
							 : SMTP_BAD_PARAM;
}

static enum smtp_fault
ret_param(struct smtp_command *cmd, struct str value)
{
	if (smtp_is_word(value, "FULL"))
		cmd->ret = ENVELOPE_RET_FULL;
	else if (smtp_is_word(value, "HDRS"))
		cmd->ret = ENVELOPE_RET_HDRS;
	else
		return SMTP_BAD_PARAM;
	return SMTP_FINE;
}

/* Checked for form; ours goes out in its place (decision D4). */
static enum smtp_fault
envid_param(struct smtp_command *cmd, struct str value)
{
	(void)cmd;
	return value.n > 0 && value.n <= ENVID_MAX && smtp_xtext_is_valid(value)
		   ? SMTP_FINE
		   : SMTP_BAD_PARAM;
}

static enum smtp_fault
utf8_param(struct smtp_command *cmd, struct str value)
{
	(void)value;
	cmd->smtputf8 = true;
	return SMTP_FINE;
}

static enum smtp_fault
tls_param(struct smtp_command *cmd, struct str value)
{
	(void)value;
	cmd->require_tls = true;
	return SMTP_FINE;
}

static enum smtp_fault
notify_param(struct smtp_command *cmd, struct str value)
{
	cmd->notify = (unsigned char)envelope_notify_parse(value);
	return cmd->notify != 0 ? SMTP_FINE : SMTP_BAD_PARAM;
}

static bool
is_atom(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' ||
		    strchr("()<>@,;:\\\"/[]?=.", s.p[i]) != NULL)
			return false;
	return s.n > 0;
}

/* RFC 6533 3, loosely, as the value goes no further: any that is one word. */
static bool
is_utf8_xtext(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (s.p[i] == ' ' || s.p[i] == '=')
			return false;
	return s.n > 0;
}

/*
 * address-type ";" xtext. The text is opaque: `rfc822;root` is a good one.
 * Checked for form; ours goes out in its place (decision D4).
 */
static enum smtp_fault
orcpt_param(struct smtp_command *cmd, struct str value)
{
	struct str rest = value, type = str_split(&rest, ';');

	(void)cmd;
	if (value.n > ORCPT_MAX || type.n == value.n || !is_atom(type) ||
	    rest.n == 0)
		return SMTP_BAD_PARAM;
	if (str_ieq(type, str_lit("utf-8")))
		return is_utf8_xtext(rest) ? SMTP_FINE : SMTP_BAD_PARAM;
	return smtp_xtext_is_valid(rest) ? SMTP_FINE : SMTP_BAD_PARAM;
}

bool
smtp_xtext_is_valid(struct str in)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t i;
	int code;

	for (i = 0; i < in.n; i++) {
		if (in.p[i] < '!' || in.p[i] > '~' || in.p[i] == '=')
			return false;
		if (in.p[i] != '+')
			continue;
		if (in.n - i < 3 || strchr(hex, in.p[i + 1]) == NULL ||
		    strchr(hex, in.p[i + 2]) == NULL || in.p[i + 1] == '\0' ||
		    in.p[i + 2] == '\0')
			return false;
		code = (int)(strchr(hex, in.p[i + 1]) - hex) << 4 |
		       (int)(strchr(hex, in.p[i + 2]) - hex);
		if (code == 0 || code == '\r' || code == '\n')
			return false;
		i += 2;
	}
	return true;
}

struct str
smtp_trim(struct str in)
{
	while (in.n > 0 && in.p[0] == ' ') {
		in.p++;
		in.n--;
	}
	while (in.n > 0 && in.p[in.n - 1] == ' ')
		in.n--;
	return in;
}

struct str
smtp_word_take(struct str *in)
{
	const char *space = memchr(in->p, ' ', in->n);
	struct str word = { in->p, in->n };

	if (space != NULL)
		word.n = (size_t)(space - in->p);
	in->p += word.n;
	in->n -= word.n;
	return word;
}

bool
smtp_is_word(struct str in, const char *word)
{
	size_t i;
	char c;

	for (i = 0; i < in.n; i++) {
		c = in.p[i];
		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		if (word[i] == '\0' || c != word[i])
			return false;
	}
	return word[i] == '\0';
}
