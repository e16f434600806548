/* SPDX-License-Identifier: ISC */
/* grant: let one inbox's agent see what another's sent. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define DAYS_DEFAULT 30
#define DAYS_MAX 90

int
ctl_grant_offer(struct ctl *ctl, const struct ctl_args *args)
{
	const char *to = ctl_option(args, "to");
	int64_t days = ctl_number(ctl, args, "days", DAYS_MAX, DAYS_DEFAULT);
	int64_t tenant, inbox, other, reader;

	if (days < 0)
		return 2;
	if (to == NULL)
		return ctl_misused(ctl, "--to ADDRESS is who may look");
	if (!ctl_find_inbox(ctl, args->words[0], &tenant, &inbox) ||
	    !ctl_find_inbox(ctl, to, &other, &reader))
		return 1;
	if (tenant != other)
		return ctl_misused(ctl, "both inboxes are of one tenant");
	if (!ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(inbox),
			MANAGE_ARG_I64(reader),
			MANAGE_ARG_BOOL(ctl_option(args, "messages") != NULL),
			MANAGE_ARG_I32(days), MANAGE_ARG_END };

		return ctl_call_print(ctl, "grant_offer_1", call,
		    "offered; the inbox's own key accepts it");
	}
}

int
ctl_grant_list(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t tenant;

	if (!ctl_find_tenant(ctl, ctl_option(args, "tenant"), &tenant))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_END };

		return ctl_call_print(ctl, "grants_1", call, NULL);
	}
}

int
ctl_grant_end(struct ctl *ctl, const struct ctl_args *args)
{
	unsigned long long n;
	int64_t tenant;

	if (!str_to_u64(str_of(args->words[1]), INT64_MAX, &n))
		return ctl_misused(ctl, "GRANT is its number in grant list");
	if (!ctl_find_tenant(ctl, args->words[0], &tenant))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64((int64_t)n),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "grant_end_1", call, "grant ended");
	}
}
