/* SPDX-License-Identifier: ISC */
/* Second factors: asking postern-auth, and helping who lost theirs. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "net/ask.h"

#define CODE_MAX 64 /* bytes of a code's line, and a NUL */

/* What postern-auth says to a code: true when it was right. */
static bool
judge(struct ctl *ctl, char purpose, const char *code)
{
	struct buf question = { 0 }, answer = { 0 };
	unsigned char sha256[32];
	struct secret next;
	struct str rest, status = { 0 }, why = { 0 };
	struct err err = { 0 };
	bool ok;

	buf_lp(&question, "code", 4);
	buf_lp(&question, ctl->session.b, ctl->session.n);
	ctl_next(&next, sha256);
	buf_lp(&question, sha256, sizeof(sha256));
	buf_lp(&question, &purpose, 1);
	buf_lp(&question, code, strlen(code));
	if (!ask_wait(ctl->conf->auth_socket, &question, &answer, &err)) {
		(void)ctl_fail(ctl,
		    "postern-auth does not answer, so second factors cannot "
		    "be checked: %s",
		    err.text);
		return false;
	}
	rest = buf_str(&answer);
	ok = str_lp(&rest, &status) && str_lp(&rest, &why) &&
	     str_eq(status, str_lit("200"));
	if (!ok)
		(void)ctl_fail(ctl, "that code was refused: %.*s %.*s",
		    (int)status.n, status.p, (int)why.n, why.p);
	buf_wipe(&answer);
	buf_free(&answer);
	ok = ok && ctl_turned(ctl, &next, purpose == 's');
	secret_wipe(&next);
	return ok;
}

static bool
judge_file(struct ctl *ctl, const struct ctl_args *args, char purpose)
{
	char text[CODE_MAX];
	bool ok = ctl_password(ctl, args, "code-file", text, sizeof(text)) &&
		  judge(ctl, purpose, text);

	OPENSSL_cleanse(text, sizeof(text));
	return ok;
}

bool
ctl_second_factor(struct ctl *ctl, const struct ctl_args *args)
{
	char text[CODE_MAX];
	bool ok;

	if (ctl_option(args, "code-file") != NULL)
		return judge_file(ctl, args, 'i');
	if (!ctl_ask_terminal("Code: ", text, sizeof(text))) {
		(void)ctl_fail(ctl,
		    "this operator has a second factor: use --code-file "
		    "FILE, with a code of the app or for recovery");
		return false;
	}
	ok = judge(ctl, 'i', text);
	OPENSSL_cleanse(text, sizeof(text));
	return ok;
}

bool
ctl_step_up(struct ctl *ctl, const struct ctl_args *args)
{
	if (ctl_option(args, "code-file") != NULL && ctl->session.n != 0)
		return judge_file(ctl, args, 's');
	if (ctl_option(args, "confirm-file") != NULL)
		return ctl_step_up_password(ctl, args, "confirm-file");
	if (ctl_option(args, "password-file") != NULL)
		return ctl_step_up_password(ctl, args, "password-file");
	return true;
}

int
ctl_operator_reset(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]), MANAGE_ARG_END };

	if (!ctl_step_up(ctl, args))
		return 1;
	return ctl_call_print(ctl, "factor_reset_1", call,
	    "second factors removed; the password alone signs in now");
}

int
ctl_operator_recover(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]), MANAGE_ARG_END };

	if (!ctl_connect(ctl, "l_migrate"))
		return 1;
	return ctl_call_print(ctl, "factor_recover_1", call,
	    "second factors removed; the password alone signs in now");
}
