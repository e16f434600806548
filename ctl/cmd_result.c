/* SPDX-License-Identifier: ISC */
/*
 * suppression and uncertain: whom not to write to again, and what a person
 * knows of mail that only may have been sent.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/uuid.h"
#include "ctl/ctl.h"
#include "mail/address.h"

/* --tenant SLUG, or 0: everywhere. */
static bool
find_tenant(struct ctl *ctl, const struct ctl_args *args, int64_t *tenant)
{
	const char *slug = ctl_option(args, "tenant");

	*tenant = 0;
	return slug == NULL || ctl_find_tenant(ctl, slug, tenant);
}

int
ctl_suppression_add(struct ctl *ctl, const struct ctl_args *args)
{
	struct manage_arg scope = MANAGE_ARG_NULL;
	char entry[ADDRESS_MAX + 1];
	int64_t tenant;

	if (!ctl_has_reason(ctl, args) || !find_tenant(ctl, args, &tenant))
		return 1;
	if (!address_entry_canonical(entry, str_of(args->words[0])))
		return ctl_misused(ctl, "%s is neither an address nor @domain",
		    args->words[0]);
	if (tenant != 0)
		scope = (struct manage_arg)MANAGE_ARG_I64(tenant);
	{
		/* An address, or "@domain" with all its addresses. */
		const struct manage_arg call[] = { CTL_SESSION(ctl), scope,
			MANAGE_ARG_NULL, MANAGE_ARG_TEXT(entry),
			MANAGE_ARG_TEXT("s"), MANAGE_ARG_NULL,
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "list_set_1", call, NULL);
	}
}

static json_t *
entries(struct ctl *ctl, int64_t tenant, const char *of)
{
	struct manage_arg scope = MANAGE_ARG_NULL;

	if (tenant != 0)
		scope = (struct manage_arg)MANAGE_ARG_I64(tenant);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), scope,
			MANAGE_ARG_NULL, MANAGE_ARG_TEXT(of), MANAGE_ARG_END };

		return ctl_call(ctl, "lists_1", call);
	}
}

int
ctl_suppression_list(struct ctl *ctl, const struct ctl_args *args)
{
	json_t *rows, *shown = json_array(), *row;
	int64_t tenant;
	size_t i;

	if (!find_tenant(ctl, args, &tenant) ||
	    (rows = entries(ctl, tenant,
		 args->nwords > 0 ? args->words[0] : NULL)) == NULL) {
		json_decref(shown);
		return 1;
	}
	json_array_foreach(rows, i, row)
	{
		if (strcmp(ctl_text(row, "verdict"), "s") != 0)
			continue;
		(void)json_object_del(row, "verdict");
		(void)json_object_del(row, "inbox_id");
		(void)json_array_append(shown, row);
	}
	ctl_print(ctl, shown);
	json_decref(rows);
	json_decref(shown);
	return 0;
}

int
ctl_suppression_remove(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned long long entry;

	if (!ctl_has_reason(ctl, args))
		return 1;
	if (!str_to_u64(str_of(args->words[0]), INT64_MAX, &entry))
		return ctl_misused(
		    ctl, "a number as `suppression list` shows it is needed");
	if (!ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			MANAGE_ARG_I64((int64_t)entry),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "list_remove_1", call, "removed");
	}
}

int
ctl_uncertain_list(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_NULL, MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "uncertain_list_1", call, NULL);
}

int
ctl_uncertain_resolve(struct ctl *ctl, const struct ctl_args *args)
{
	const char *what = args->words[1];
	struct uuid mid;

	if (strcmp(what, "sent") != 0 && strcmp(what, "failed") != 0 &&
	    strcmp(what, "retry") != 0)
		return ctl_misused(ctl, "sent, failed or retry, not %s", what);
	if (!uuid_from_id(&mid, "msg_", str_of(args->words[0])))
		return ctl_misused(ctl, "%s is no message id", args->words[0]);
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_UUID(&mid),
			MANAGE_ARG_TEXT(ctl_option(args, "recipient")),
			MANAGE_ARG_TEXT(what),
			MANAGE_ARG_TEXT(ctl_option(args, "note")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "uncertain_resolve_1", call, NULL);
	}
}
