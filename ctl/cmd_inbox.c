/* SPDX-License-Identifier: ISC */
/* inbox, claim and key: an agent's address and what opens it. */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/conf_parse.h"
#include "ctl/ctl.h"
#include "mail/address.h"
#include "seal/key.h"

#define CLAIM_PREFIX "claim_"
#define CLAIM_BYTES 16
#define CLAIM_TEXT (sizeof(CLAIM_PREFIX) + BASE32_LEN(CLAIM_BYTES))

/* A new code; the database is shown only its hash. */
static void
new_claim(char text[CLAIM_TEXT], unsigned char hash[SHA256_DIGEST_LENGTH])
{
	struct secret code;

	secret_random(&code, CLAIM_BYTES);
	(void)SHA256(code.b, code.n, hash);
	(void)strcpy(text, CLAIM_PREFIX);
	base32_encode(text + strlen(CLAIM_PREFIX), code.b, code.n);
	secret_wipe(&code);
}

static int
print_claim(const struct ctl *ctl, json_t *rows, const char *text)
{
	json_t *row = rows != NULL ? json_array_get(rows, 0) : NULL;

	if (row == NULL) {
		json_decref(rows);
		return 1;
	}
	(void)json_object_set_new(row, "claim_code", json_string(text));
	ctl_print(ctl, rows);
	if (!ctl->json)
		(void)printf("give the code to the agent's owner, who runs: "
			     "posternctl claim CODE, or POST /v1/claim\n");
	json_decref(rows);
	return 0;
}

int
ctl_inbox_create(struct ctl *ctl, const struct ctl_args *args)
{
	const char *plan = ctl_option(args, "plan");
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[CLAIM_TEXT];
	int64_t tenant;

	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant))
		return 1;
	new_claim(text, hash);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_TEXT(plan != NULL ? plan : "default"),
			MANAGE_ARG_TEXT(ctl_option(args, "display-name")),
			MANAGE_ARG_BYTES(hash, sizeof(hash)),
			MANAGE_ARG_BOOL(ctl_option(args, "test") != NULL),
			MANAGE_ARG_END };

		return print_claim(
		    ctl, ctl_call(ctl, "inbox_create_1", call), text);
	}
}

int
ctl_inbox_show(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]), MANAGE_ARG_END };

	return ctl_call_print(ctl, "inbox_find_1", call, NULL);
}

#define OF_TENANT "tenant" /* what gives a setting back */

/* --hold, in seconds; 0 gives it back, null when absent. False: reported. */
static bool
read_hold(
    const struct ctl *ctl, const struct ctl_args *args, struct manage_arg *out)
{
	const char *text = ctl_option(args, "hold");
	int64_t s = 0;

	if (text == NULL)
		return true;
	if (strcmp(text, OF_TENANT) != 0)
		s = ctl_seconds(
		    ctl, args, "hold", CTL_HOLD_MIN, CTL_HOLD_MAX, 0);
	*out = (struct manage_arg)MANAGE_ARG_I32(s);
	return s >= 0;
}

/* --overseer as it is to be written to; "" for none. False: reported. */
static bool
read_overseer(const struct ctl *ctl, const char *text, char out[ADDRESS_MAX])
{
	struct address address;
	enum address_result r;

	out[0] = '\0';
	if (text == NULL || strcmp(text, "none") == 0)
		return true;
	r = address_parse(&address, str_of(text));
	if (r != ADDRESS_OK) {
		(void)ctl_misused(
		    ctl, "--overseer: %s", address_result_text(r));
		return false;
	}
	address_carried(out, &address);
	return true;
}

/* --name as yes or no, null when absent. False: reported. */
static bool
read_switch(const struct ctl *ctl, const struct ctl_args *args,
    const char *name, struct manage_arg *out)
{
	const char *text = ctl_option(args, name);
	struct err err = { 0 };
	bool on = false;

	if (text != NULL && !conf_parse(CONF_TYPE_bool, text, &on, &err)) {
		(void)ctl_misused(ctl, "--%s: %s", name, err.text);
		return false;
	}
	if (text != NULL)
		*out = (struct manage_arg)MANAGE_ARG_BOOL(on);
	return true;
}

/* Mail with links would only wait where nobody says what they begin with. */
static bool
can_link(const struct ctl *ctl, const struct ctl_args *args)
{
	const char *text = ctl_option(args, "one-click");
	bool on = false;

	if (text == NULL || !conf_parse(CONF_TYPE_bool, text, &on, NULL) ||
	    !on || ctl->conf->deliver_unsubscribe_url[0] != '\0')
		return true;
	(void)ctl_fail(ctl,
	    "--one-click: set deliver.unsubscribe_url first, here and where "
	    "postern-deliver runs");
	return false;
}

int
ctl_inbox_set(struct ctl *ctl, const struct ctl_args *args)
{
	const char *approvals = ctl_option(args, "approvals");
	const char *overseer = ctl_option(args, "overseer");
	const struct manage_arg none = MANAGE_ARG_NULL;
	struct manage_arg need = none, hold = none, wide = none, retry = none,
			  links = none;
	char address[ADDRESS_MAX];
	int64_t tenant, inbox, n = 0;

	if (args->noptions == 0)
		return ctl_inbox_show(ctl, args);
	if (approvals != NULL && strcmp(approvals, OF_TENANT) != 0)
		n = ctl_number(ctl, args, "approvals", 2, -1);
	if (n == -1 || !read_hold(ctl, args, &hold) ||
	    !read_overseer(ctl, overseer, address) ||
	    !read_switch(ctl, args, "full-key-smtp", &wide) ||
	    !read_switch(ctl, args, "retry-uncertain", &retry) ||
	    !read_switch(ctl, args, "one-click", &links))
		return 2;
	if (!can_link(ctl, args))
		return 1;
	if (approvals != NULL)
		need = (struct manage_arg)MANAGE_ARG_I16(n);
	if (!ctl_find_inbox(ctl, args->words[0], &tenant, &inbox) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(inbox), need,
			hold,
			MANAGE_ARG_TEXT(overseer != NULL ? address : NULL),
			wide, retry, links, MANAGE_ARG_END };

		return ctl_call_print(
		    ctl, "inbox_own_1", call, "inbox changed");
	}
}

int
ctl_inbox_reset(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[CLAIM_TEXT];
	int64_t tenant, inbox;

	if (!ctl_find_inbox(ctl, args->words[0], &tenant, &inbox) ||
	    !ctl_step_up(ctl, args))
		return 1;
	new_claim(text, hash);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(inbox),
			MANAGE_ARG_BYTES(hash, sizeof(hash)), MANAGE_ARG_END };

		return print_claim(
		    ctl, ctl_call(ctl, "inbox_reset_1", call), text);
	}
}

static void
auth_hash(unsigned char out[32], const struct secret *s)
{
	struct secret a = { 0 };

	seal_token_auth(&a, s);
	seal_auth_hash(out, &a);
	secret_wipe(&a);
}

static void
set_token(
    json_t *row, const char *name, const char *number, const struct secret *s)
{
	struct seal_token token = { json_is_true(json_object_get(row, "test"))
					? SEAL_TOKEN_TEST
					: SEAL_TOKEN_LIVE,
		(uint64_t)ctl_int(row, "tenant_id"),
		(uint64_t)ctl_int(row, number), *s };
	char text[SEAL_TOKEN_MAX];

	seal_token_format(text, &token);
	(void)json_object_set_new(row, name, json_string(text));
	OPENSSL_cleanse(text, sizeof(text));
	seal_token_wipe(&token);
}

int
ctl_claim(struct ctl *ctl, const struct ctl_args *args)
{
	const char *text = args->words[0];
	unsigned char code[CLAIM_BYTES], full_hash[32], send_hash[32], pub[32],
	    wrapped[SEAL_WRAPPED_LEN];
	struct secret full, send, kek = { 0 }, priv = { 0 };
	const struct manage_arg call[] = { MANAGE_ARG_BYTES(code, sizeof(code)),
		MANAGE_ARG_BYTES(full_hash, 32),
		MANAGE_ARG_BYTES(send_hash, 32), MANAGE_ARG_BYTES(pub, 32),
		MANAGE_ARG_BYTES(wrapped, sizeof(wrapped)), MANAGE_ARG_END };
	json_t *rows, *row;
	char line[CLAIM_TEXT + 2];

	if (strcmp(text, "-") == 0) {
		text = fgets(line, sizeof(line), stdin) != NULL ? line : "";
		line[strcspn(line, "\r\n")] = '\0';
	}
	if (strncmp(text, CLAIM_PREFIX, strlen(CLAIM_PREFIX)) == 0)
		text += strlen(CLAIM_PREFIX);
	if (!base32_decode(code, sizeof(code), text, strlen(text)))
		return ctl_misused(ctl, "that is not a claim code");
	secret_random(&full, 32);
	secret_random(&send, 32);
	auth_hash(full_hash, &full);
	auth_hash(send_hash, &send);
	seal_pair_new(pub, &priv);
	seal_token_kek(&kek, &full);
	seal_wrap(wrapped, &kek, pub, &priv);
	secret_wipe(&kek);
	secret_wipe(&priv);
	rows = ctl_call(ctl, "claim_1", call);
	row = rows != NULL ? json_array_get(rows, 0) : NULL;
	if (row != NULL) {
		set_token(row, "key", "full_key", &full);
		set_token(row, "smtp_key", "send_key", &send);
		ctl_print(ctl, rows);
		if (!ctl->json)
			(void)printf("both keys are shown this once\n");
	}
	secret_wipe(&full);
	secret_wipe(&send);
	json_decref(rows);
	return row != NULL ? 0 : 1;
}

int
ctl_key_kill(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned long long key;
	int64_t tenant;

	if (!str_to_u64(str_of(args->words[1]), INT64_MAX, &key))
		return ctl_misused(ctl, "KEY-NUMBER is the number in the key");
	if (!ctl_find_tenant(ctl, args->words[0], &tenant))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64((int64_t)key),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "key_kill_1", call, "key revoked");
	}
}
