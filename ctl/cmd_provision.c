/* SPDX-License-Identifier: ISC */
/* provision: tokens with which a program makes inboxes of a tenant. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "seal/key.h"

#define INBOXES_DEFAULT 100
#define INBOXES_MAX 100000
#define DAYS_DEFAULT 365
#define DAYS_MAX 3650
#define RIGHTS_ALL "create,list,pause,delete"

/* Words to the letters the database has; false: not one of them. */
static bool
take_rights(char out[8], const char *words)
{
	struct str rest = str_of(words), word;
	char letter;

	*out = '\0';
	while (rest.n > 0) {
		word = str_trim(str_split(&rest, ','));
		letter = word.n > 0 ? word.p[0] : '\0';
		if ((!str_eq(word, str_lit("create")) &&
			!str_eq(word, str_lit("list")) &&
			!str_eq(word, str_lit("pause")) &&
			!str_eq(word, str_lit("delete"))) ||
		    strchr(out, letter) != NULL)
			return false;
		strncat(out, &letter, 1);
	}
	return *out != '\0';
}

/* Shown once; the database has its hash alone. */
static int
print_token(
    const struct ctl *ctl, json_t *rows, int64_t tenant, const struct secret *s)
{
	json_t *row = rows != NULL ? json_array_get(rows, 0) : NULL;
	struct seal_token token;
	char text[SEAL_TOKEN_MAX];

	if (row == NULL) {
		json_decref(rows);
		return 1;
	}
	token = (struct seal_token){ SEAL_TOKEN_PROVISION, (uint64_t)tenant,
		(uint64_t)ctl_int(row, "key_id"), *s };
	seal_token_format(text, &token);
	(void)json_object_set_new(row, "token", json_string(text));
	OPENSSL_cleanse(text, sizeof(text));
	seal_token_wipe(&token);
	ctl_print(ctl, rows);
	if (!ctl->json)
		(void)printf("the token is shown this once\n");
	json_decref(rows);
	return 0;
}

static void
new_secret(struct secret *s, unsigned char hash[32])
{
	struct secret a = { 0 };

	secret_random(s, 32);
	seal_token_auth(&a, s);
	seal_auth_hash(hash, &a);
	secret_wipe(&a);
}

int
ctl_provision_create(struct ctl *ctl, const struct ctl_args *args)
{
	const char *rights = ctl_option(args, "rights");
	const char *plan = ctl_option(args, "plan");
	int64_t max =
	    ctl_number(ctl, args, "max", INBOXES_MAX, INBOXES_DEFAULT);
	int64_t days = ctl_number(ctl, args, "days", DAYS_MAX, DAYS_DEFAULT);
	unsigned char hash[32];
	struct secret s = { 0 };
	char letters[8];
	int64_t tenant;
	int rc;

	if (max < 0 || days < 0)
		return 2;
	if (!take_rights(letters, rights != NULL ? rights : RIGHTS_ALL))
		return ctl_misused(ctl, "--rights is some of " RIGHTS_ALL);
	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant) ||
	    !ctl_step_up(ctl, args))
		return 1;
	new_secret(&s, hash);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_BYTES(hash, sizeof(hash)),
			MANAGE_ARG_TEXT(letters),
			MANAGE_ARG_TEXT(ctl_option(args, "domains")),
			MANAGE_ARG_TEXT(plan != NULL ? plan : "default"),
			MANAGE_ARG_I32(max),
			MANAGE_ARG_BOOL(ctl_option(args, "test") != NULL),
			MANAGE_ARG_I32(days), MANAGE_ARG_END };

		rc = print_token(ctl,
		    ctl_call(ctl, "provisioner_create_1", call), tenant, &s);
	}
	secret_wipe(&s);
	return rc;
}

int
ctl_provision_list(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t tenant;

	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_END };

		return ctl_call_print(ctl, "provisioners_1", call, NULL);
	}
}

/* Which token: TENANT KEY-NUMBER. 0: found. */
static int
find(
    struct ctl *ctl, const struct ctl_args *args, int64_t *tenant, int64_t *key)
{
	unsigned long long n;

	if (!str_to_u64(str_of(args->words[1]), INT64_MAX, &n)) {
		return ctl_misused(
		    ctl, "KEY-NUMBER is the number in the token");
	}
	*key = (int64_t)n;
	return ctl_find_tenant(ctl, args->words[0], tenant) ? 0 : 1;
}

int
ctl_provision_rotate(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned char hash[32];
	struct secret s = { 0 };
	int64_t tenant = 0, key = 0;
	int rc = find(ctl, args, &tenant, &key);

	if (rc != 0)
		return rc;
	if (!ctl_step_up(ctl, args))
		return 1;
	new_secret(&s, hash);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(key),
			MANAGE_ARG_BYTES(hash, sizeof(hash)), MANAGE_ARG_END };

		rc = print_token(ctl,
		    ctl_call(ctl, "provisioner_rotate_1", call), tenant, &s);
	}
	secret_wipe(&s);
	return rc;
}

int
ctl_provision_end(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t tenant, key;
	int rc = find(ctl, args, &tenant, &key);

	if (rc != 0)
		return rc;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(key),
			MANAGE_ARG_END };

		return ctl_call_print(
		    ctl, "provisioner_end_1", call, "token revoked");
	}
}
