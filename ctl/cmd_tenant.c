/* SPDX-License-Identifier: ISC */
/* tenant, domain, plan and limits: what operators give to agents. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/conf_parse.h"
#include "ctl/ctl.h"
#include "ctl/dns.h"
#include "seal/key.h"
#include "seal/keyfile.h"

/* A new tenant's mail waits as long as the configuration says. */
static int
set_hold(struct ctl *ctl, const char *slug)
{
	const struct manage_arg none = MANAGE_ARG_NULL;
	int64_t tenant;
	json_t *rows;

	if (!ctl_find_tenant(ctl, slug, &tenant))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), none,
			MANAGE_ARG_I32(ctl->conf->hold / 1000), none,
			MANAGE_ARG_END };

		rows = ctl_call(ctl, "tenant_set_1", call);
	}
	json_decref(rows);
	return rows != NULL ? 0 : 1;
}

int
ctl_tenant_create(struct ctl *ctl, const struct ctl_args *args)
{
	const char *name = ctl_option(args, "name");
	unsigned char pub[32], box[32 + SEAL_BOX_EXTRA];
	struct secret priv = { 0 }, review = { 0 };
	struct err err = { 0 };
	int rc;

	if (!seal_keyfile_load(&review, ctl->conf->keys_review_pub_file,
		SEAL_KEYFILE_REVIEW_PUB, &err))
		return ctl_fail(ctl, "%s", err.text);
	seal_pair_new(pub, &priv);
	seal_box(box, review.b, priv.b, priv.n);
	secret_wipe(&priv);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_TEXT(name != NULL ? name : args->words[0]),
			MANAGE_ARG_BYTES(pub, sizeof(pub)),
			MANAGE_ARG_BYTES(box, sizeof(box)), MANAGE_ARG_END };

		rc = ctl_call_print(
		    ctl, "tenant_create_1", call, "tenant added");
	}
	return rc == 0 ? set_hold(ctl, args->words[0]) : rc;
}

int
ctl_tenant_list(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "tenants_1", call, NULL);
}

int
ctl_tenant_set(struct ctl *ctl, const struct ctl_args *args)
{
	const char *disabled = ctl_option(args, "disabled");
	int64_t tenant, approvals = ctl_number(ctl, args, "approvals", 3, -2);
	int64_t hold =
	    ctl_seconds(ctl, args, "hold", CTL_HOLD_MIN, CTL_HOLD_MAX, 0);
	bool off = false;
	struct err err = { 0 };
	const struct manage_arg none = MANAGE_ARG_NULL;

	if (approvals == -1 || hold < 0)
		return 2;
	if ((disabled != NULL &&
		!conf_parse(CONF_TYPE_bool, disabled, &off, &err)))
		return ctl_misused(ctl, "%s", err.text);
	if (!ctl_find_tenant(ctl, args->words[0], &tenant) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg a = MANAGE_ARG_I16(approvals);
		const struct manage_arg h = MANAGE_ARG_I32(hold);
		const struct manage_arg d = MANAGE_ARG_BOOL(off);
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), approvals >= 0 ? a : none,
			hold > 0 ? h : none, disabled != NULL ? d : none,
			MANAGE_ARG_END };

		return ctl_call_print(
		    ctl, "tenant_set_1", call, "tenant changed");
	}
}

static void
print_record(const char *domain, const char *token)
{
	(void)printf("publish this record, then: posternctl domain verify %s\n"
		     "_postern.%s. TXT \"v=postern1; t=%s\"\n",
	    domain, domain, token);
}

int
ctl_domain_add(struct ctl *ctl, const struct ctl_args *args)
{
	char token[BASE32_LEN(16) + 1];
	struct secret random;
	json_t *rows;
	int64_t tenant;

	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant))
		return 1;
	secret_random(&random, 16);
	base32_encode(token, random.b, 16);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_TEXT(token), MANAGE_ARG_END };

		rows = ctl_call(ctl, "domain_add_1", call);
	}
	if (rows == NULL)
		return 1;
	if (ctl->json)
		ctl_print(ctl, rows);
	else
		print_record(
		    args->words[0], ctl_text(json_array_get(rows, 0), "token"));
	json_decref(rows);
	return 0;
}

/* Is "v=postern1; t=<token>" among the TXT records of _postern.<domain>? */
static bool
has_record(const struct ctl *ctl, const char *domain, const char *token)
{
	struct dns_answer found;
	char name[300], want[64];
	size_t i;

	(void)snprintf(name, sizeof(name), "_postern.%s", domain);
	(void)snprintf(want, sizeof(want), "v=postern1; t=%s", token);
	if (dns_ask(ctl->conf, name, DNS_TXT, &found) != DNS_FOUND)
		return false;
	for (i = 0; i < found.n; i++) {
		if (strcmp(found.text[i], want) == 0)
			return true;
	}
	return false;
}

static char *
token_of(struct ctl *ctl, const char *domain)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_NULL, MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "domains_1", call), *row;
	char *token = NULL;
	size_t i;

	if (rows == NULL)
		return NULL;
	json_array_foreach(rows, i, row)
	{
		if (strcasecmp(ctl_text(row, "domain"), domain) == 0 &&
		    token == NULL)
			token = strdup(ctl_text(row, "token"));
	}
	json_decref(rows);
	if (token == NULL)
		(void)ctl_fail(ctl, "no domain %s", domain);
	return token;
}

int
ctl_domain_verify(struct ctl *ctl, const struct ctl_args *args)
{
	bool force = ctl_option(args, "force") != NULL;
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_TEXT(args->words[0]),
		MANAGE_ARG_TEXT(force ? "force" : "dns"), MANAGE_ARG_END };
	char *token;
	bool found;

	if (!force) {
		token = token_of(ctl, args->words[0]);
		if (token == NULL)
			return 1;
		found = has_record(ctl, args->words[0], token);
		if (!found) {
			print_record(args->words[0], token);
			free(token);
			return ctl_fail(ctl, "the record is not there yet");
		}
		free(token);
	}
	return ctl_call_print(ctl, "domain_verify_1", call, "domain verified");
}

/* Lists of one tenant, or with `optional` of all. */
static int
list_of_tenant(struct ctl *ctl, const struct ctl_args *args,
    const char *function, bool optional)
{
	const char *slug = ctl_option(args, "tenant");
	const struct manage_arg none = MANAGE_ARG_NULL;
	int64_t tenant = 0;

	if ((slug != NULL || !optional) && !ctl_find_tenant(ctl, slug, &tenant))
		return 1;
	{
		const struct manage_arg t = MANAGE_ARG_I64(tenant);
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			tenant != 0 ? t : none, MANAGE_ARG_END };

		return ctl_call_print(ctl, function, call, NULL);
	}
}

int
ctl_domain_list(struct ctl *ctl, const struct ctl_args *args)
{
	return list_of_tenant(ctl, args, "domains_1", true);
}

int
ctl_plan_list(struct ctl *ctl, const struct ctl_args *args)
{
	return list_of_tenant(ctl, args, "plans_1", false);
}

/* --hour --day --month --held --bytes, null when absent. False: reported. */
static bool
read_limits(const struct ctl *ctl, const struct ctl_args *args,
    struct manage_arg out[5])
{
	static const char *const names[] = { "hour", "day", "month", "held",
		"bytes" };
	int64_t v;
	int i;

	for (i = 0; i < 5; i++) {
		v = ctl_number(
		    ctl, args, names[i], i == 4 ? INT64_MAX : INT32_MAX, -2);
		if (v == -1)
			return false;
		out[i] = (struct manage_arg){
			.type = i == 4 ? MANAGE_I64 : MANAGE_I32, .i = v
		};
		if (v == -2)
			out[i] = (struct manage_arg){ .type = MANAGE_NULL };
	}
	return true;
}

int
ctl_plan_set(struct ctl *ctl, const struct ctl_args *args)
{
	struct manage_arg l[5];
	int64_t tenant;

	if (!read_limits(ctl, args, l))
		return 2;
	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(args->words[0]),
			l[0], l[1], l[2], l[3], l[4], MANAGE_ARG_END };

		return ctl_call_print(ctl, "plan_set_1", call, "plan set");
	}
}

int
ctl_limits(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t tenant, inbox;
	struct manage_arg l[5];

	if (!read_limits(ctl, args, l))
		return 2;
	if (args->noptions == 0)
		return ctl_inbox_show(ctl, args);
	if (!ctl_find_inbox(ctl, args->words[0], &tenant, &inbox) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(inbox),
			MANAGE_ARG_TEXT(ctl_option(args, "plan")), l[0], l[1],
			l[2], l[3], l[4], MANAGE_ARG_END };

		return ctl_call_print(
		    ctl, "limits_set_1", call, "limits changed");
	}
}
