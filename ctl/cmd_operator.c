/* SPDX-License-Identifier: ISC */
/* login, logout and operator: people. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/str.h"
#include "ctl/ctl.h"
#include "seal/password.h"

/* What argon2id makes of the password for `name`'s salt. */
static bool
password_output(
    struct ctl *ctl, const char *name, const char *password, struct secret *out)
{
	const struct manage_arg args[] = { MANAGE_ARG_TEXT(name),
		MANAGE_ARG_END };
	unsigned char salt[SEAL_PASSWORD_SALT];
	json_t *rows = ctl_call(ctl, "operator_salt_1", args);
	const json_t *row = json_array_get(rows, 0);
	bool ok;

	if (rows == NULL)
		return false;
	ok = ctl_bytes(row, "salt", salt, sizeof(salt)) &&
	     seal_password_output(
		 out, str_of(password), salt, ctl_text(row, "params"));
	json_decref(rows);
	if (!ok)
		(void)ctl_fail(ctl, "the password could not be computed");
	return ok;
}

/* Sign in; the new session is in ctl->session. */
static bool
sign_in(struct ctl *ctl, const char *name, const char *password, bool *due)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct secret output = { 0 };
	json_t *rows;

	if (!password_output(ctl, name, password, &output))
		return false;
	secret_random(&ctl->session, 32);
	(void)SHA256(ctl->session.b, 32, hash);
	{
		const struct manage_arg args[] = { MANAGE_ARG_TEXT(name),
			MANAGE_ARG_BYTES(output.b, output.n),
			MANAGE_ARG_BYTES(hash, sizeof(hash)),
			MANAGE_ARG_TEXT("posternctl"), MANAGE_ARG_END };

		rows = ctl_call(ctl, "session_create_1", args);
	}
	secret_wipe(&output);
	if (rows == NULL)
		secret_wipe(&ctl->session);
	*due = json_is_true(
	    json_object_get(json_array_get(rows, 0), "factor_due"));
	json_decref(rows);
	return rows != NULL;
}

void
ctl_next(struct secret *next, unsigned char sha256[32])
{
	secret_random(next, 32);
	(void)SHA256(next->b, 32, sha256);
}

/* Into the file of `posternctl login`. */
static bool
keep_session(struct ctl *ctl)
{
	char text[BASE32_LEN(32) + 2];
	struct err err = { 0 };
	bool ok;

	base32_encode(text, ctl->session.b, 32);
	(void)strcat(text, "\n");
	ok = ctl_write_private(ctl->session_path, text, &err);
	OPENSSL_cleanse(text, sizeof(text));
	if (!ok)
		(void)ctl_fail(ctl, "%s", err.text);
	return ok;
}

bool
ctl_turned(struct ctl *ctl, struct secret *next, bool keep)
{
	ctl->session = *next;
	secret_wipe(next);
	return !keep || keep_session(ctl);
}

bool
ctl_step_up_password(
    struct ctl *ctl, const struct ctl_args *args, const char *option)
{
	const struct manage_arg touch[] = { CTL_SESSION(ctl), MANAGE_ARG_END };
	char password[SEAL_PASSWORD_MAX + 2];
	struct secret output = { 0 }, next = { 0 };
	unsigned char sha256[SHA256_DIGEST_LENGTH];
	json_t *rows, *done = NULL;
	bool ok;

	ctl_next(&next, sha256);
	rows = ctl_call(ctl, "session_touch_1", touch);
	if (rows == NULL)
		return false;
	ok = ctl_password(ctl, args, option, password, sizeof(password)) &&
	     password_output(ctl, ctl_text(json_array_get(rows, 0), "name"),
		 password, &output);
	OPENSSL_cleanse(password, sizeof(password));
	if (ok) {
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			MANAGE_ARG_BYTES(output.b, output.n),
			MANAGE_ARG_BYTES(sha256, sizeof(sha256)),
			MANAGE_ARG_END };

		done = ctl_call(ctl, "step_up_password_1", call);
	}
	secret_wipe(&output);
	ok = done != NULL && ctl_turned(ctl, &next, true);
	secret_wipe(&next);
	json_decref(rows);
	json_decref(done);
	return ok;
}

int
ctl_login(struct ctl *ctl, const struct ctl_args *args)
{
	char password[SEAL_PASSWORD_MAX + 2];
	bool ok, due = false;

	if (!ctl_password(
		ctl, args, "password-file", password, sizeof(password)))
		return 1;
	secret_wipe(&ctl->session);
	ok = sign_in(ctl, args->words[0], password, &due);
	OPENSSL_cleanse(password, sizeof(password));
	if (!ok || (due && !ctl_second_factor(ctl, args)))
		return 1;
	if (!keep_session(ctl))
		return 1;
	(void)printf("signed in as %s until you run posternctl logout\n",
	    args->words[0]);
	return 0;
}

int
ctl_logout(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl),
		MANAGE_ARG_BOOL(false), MANAGE_ARG_END };
	int rc = 0;

	(void)args;
	if (ctl->session.n != 0)
		rc = ctl_call_print(ctl, "session_end_1", call, "signed out");
	(void)unlink(ctl->session_path);
	return rc;
}

/* Salt and verifier of a new password. */
static bool
new_verifier(const struct ctl *ctl, const struct ctl_args *args,
    struct secret *salt, unsigned char verifier[32])
{
	char password[SEAL_PASSWORD_MAX + 2];
	struct secret output = { 0 };
	bool ok;

	if (!ctl_password(
		ctl, args, "password-file", password, sizeof(password)))
		return false;
	if (strlen(password) < SEAL_PASSWORD_MIN) {
		OPENSSL_cleanse(password, sizeof(password));
		(void)ctl_fail(ctl, "a password has at least %d characters",
		    SEAL_PASSWORD_MIN);
		return false;
	}
	secret_random(salt, SEAL_PASSWORD_SALT);
	ok = seal_password_output(
	    &output, str_of(password), salt->b, SEAL_PASSWORD_PARAMS);
	OPENSSL_cleanse(password, sizeof(password));
	if (ok)
		seal_password_verifier(verifier, &output);
	else
		(void)ctl_fail(ctl, "not enough memory for argon2id");
	secret_wipe(&output);
	return ok;
}

/* --password-file is the new operator's, so one's own has another name. */
static bool
step_up_as_oneself(struct ctl *ctl, const struct ctl_args *args)
{
	return (ctl_option(args, "code-file") == NULL &&
		   ctl_option(args, "confirm-file") == NULL) ||
	       ctl_step_up(ctl, args);
}

int
ctl_operator_create(struct ctl *ctl, const struct ctl_args *args)
{
	const char *role = ctl_option(args, "role");
	const char *slug = ctl_option(args, "tenant");
	const char *address = ctl_option(args, "inbox");
	int64_t tenant = 0, inbox = 0;
	unsigned char verifier[32];
	struct secret salt;

	if (!str_is_login(str_of(args->words[0])))
		return ctl_misused(ctl, "name: " STR_LOGIN_RULE);
	if ((address != NULL &&
		!ctl_find_inbox(ctl, address, &tenant, &inbox)) ||
	    (address == NULL && slug != NULL &&
		!ctl_find_tenant(ctl, slug, &tenant)))
		return 1;
	if (!new_verifier(ctl, args, &salt, verifier))
		return 1;
	if (ctl->session.n == 0) {
		const struct manage_arg first[] = { MANAGE_ARG_TEXT(
							args->words[0]),
			MANAGE_ARG_BYTES(salt.b, salt.n),
			MANAGE_ARG_TEXT(SEAL_PASSWORD_PARAMS),
			MANAGE_ARG_BYTES(verifier, 32), MANAGE_ARG_END };

		if (ctl_call_print(ctl, "setup_1", first,
			"made the first operator; now: posternctl login "
			"NAME") == 0)
			return 0;
		return ctl_last_status() != 409
			   ? 1
			   : ctl_fail(ctl,
				 "there are operators already: sign in as one "
				 "first: posternctl login NAME");
	}
	{
		const struct manage_arg none = MANAGE_ARG_NULL;
		const struct manage_arg t = MANAGE_ARG_I64(tenant);
		const struct manage_arg i = MANAGE_ARG_I64(inbox);
		const struct manage_arg more[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_BYTES(salt.b, salt.n),
			MANAGE_ARG_TEXT(SEAL_PASSWORD_PARAMS),
			MANAGE_ARG_BYTES(verifier, 32),
			MANAGE_ARG_TEXT(role != NULL ? role : "reviewer"),
			tenant != 0 ? t : none, inbox != 0 ? i : none,
			MANAGE_ARG_END };

		if (!step_up_as_oneself(ctl, args))
			return 1;
		return ctl_call_print(
		    ctl, "operator_add_1", more, "operator added");
	}
}

int
ctl_operator_list(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "operators_1", call, NULL);
}

int
ctl_operator_disable(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]), MANAGE_ARG_END };

	return ctl_call_print(
	    ctl, "operator_disable_1", call, "operator disabled");
}
