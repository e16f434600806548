/* SPDX-License-Identifier: ISC */
/* mode, tighten, pause, resume and suspend: the switches. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "policy/vocabulary.h"

/* What a switch is turned for; 0 = all inboxes, or all tenants. */
struct scope {
	int64_t tenant, inbox;
};

static bool
find_mode(const struct ctl *ctl, const char *name, enum policy_mode *mode)
{
	if (policy_mode_find(name, mode))
		return true;
	(void)ctl_misused(ctl,
	    "no mode %s; read_only, gated_all, gated_send, monitored or "
	    "autonomous",
	    name);
	return false;
}

static struct manage_arg
id_or_null(int64_t id)
{
	const struct manage_arg none = MANAGE_ARG_NULL;
	const struct manage_arg some = MANAGE_ARG_I64(id);

	return id != 0 ? some : none;
}

int
ctl_mode(struct ctl *ctl, const struct ctl_args *args)
{
	enum policy_mode mode;
	struct scope at;

	if (!find_mode(ctl, args->words[1], &mode) ||
	    !ctl_has_reason(ctl, args) ||
	    !ctl_find_inbox(ctl, args->words[0], &at.tenant, &at.inbox) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			MANAGE_ARG_I64(at.tenant), MANAGE_ARG_I64(at.inbox),
			MANAGE_ARG_I16(mode),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "mode_set_1", call, NULL);
	}
}

/* ADDRESS, --tenant SLUG or --all; to pause by it needs no sign-in. */
static bool
find_scope(struct ctl *ctl, const struct ctl_args *args, struct scope *at,
    bool signed_in)
{
	const char *slug = ctl_option(args, "tenant");
	bool all = ctl_option(args, "all") != NULL;

	*at = (struct scope){ 0, 0 };
	if (args->nwords + (slug != NULL) + all != 1) {
		(void)ctl_misused(
		    ctl, "name an ADDRESS, --tenant SLUG or --all");
		return false;
	}
	if (all)
		return true;
	if (!signed_in)
		return ctl_find_switch(ctl,
		    slug != NULL ? slug : args->words[0], &at->tenant,
		    &at->inbox);
	if (args->nwords == 1)
		return ctl_find_inbox(
		    ctl, args->words[0], &at->tenant, &at->inbox);
	return ctl_find_tenant(ctl, slug, &at->tenant);
}

int
ctl_tighten(struct ctl *ctl, const struct ctl_args *args)
{
	enum policy_mode mode;
	struct scope at = { 0, 0 };

	if (!find_mode(ctl, args->words[1], &mode) ||
	    !ctl_has_reason(ctl, args) ||
	    !ctl_find_switch(ctl, args->words[0], &at.tenant, &at.inbox))
		return 1;
	{
		const struct manage_arg call[] = { CTL_UID,
			MANAGE_ARG_I64(at.tenant), MANAGE_ARG_I64(at.inbox),
			MANAGE_ARG_I16(mode),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "tighten_1", call, NULL);
	}
}

int
ctl_pause(struct ctl *ctl, const struct ctl_args *args)
{
	struct scope at;

	if (!ctl_has_reason(ctl, args) || !find_scope(ctl, args, &at, false))
		return 1;
	{
		const struct manage_arg call[] = { CTL_UID,
			id_or_null(at.tenant), id_or_null(at.inbox),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "ctl_pause_1", call, "paused");
	}
}

int
ctl_resume(struct ctl *ctl, const struct ctl_args *args)
{
	struct scope at;

	if (!ctl_has_reason(ctl, args) || !find_scope(ctl, args, &at, true) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			id_or_null(at.tenant), id_or_null(at.inbox),
			MANAGE_ARG_BOOL(false),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "pause_1", call, "resumed");
	}
}

int
ctl_suspend(struct ctl *ctl, const struct ctl_args *args)
{
	bool off = ctl_option(args, "off") != NULL;
	struct scope at;

	if (!ctl_has_reason(ctl, args) ||
	    !ctl_find_inbox(ctl, args->words[0], &at.tenant, &at.inbox))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			MANAGE_ARG_I64(at.tenant), MANAGE_ARG_I64(at.inbox),
			MANAGE_ARG_BOOL(!off),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_END };

		return ctl_call_print(ctl, "suspend_1", call,
		    off ? "no longer suspended" : "suspended");
	}
}

#define REJECT_AT_ONCE 200

/* All that an inbox holds, some in each transaction. */
int
ctl_reject(struct ctl *ctl, const struct ctl_args *args)
{
	const char *category = ctl_option(args, "category");
	int64_t n = 0;
	bool more = true;
	struct scope at;
	json_t *rows;

	if (!ctl_has_reason(ctl, args) ||
	    !ctl_find_inbox(ctl, args->words[0], &at.tenant, &at.inbox))
		return 1;
	while (more) {
		const struct manage_arg call[] = { CTL_SESSION(ctl),
			MANAGE_ARG_I64(at.tenant), MANAGE_ARG_I64(at.inbox),
			MANAGE_ARG_TEXT(category != NULL ? category : "other"),
			MANAGE_ARG_TEXT(ctl_option(args, "reason")),
			MANAGE_ARG_I32(REJECT_AT_ONCE), MANAGE_ARG_END };

		rows = ctl_call(ctl, "reject_all_1", call);
		if (rows == NULL)
			return 1;
		n += ctl_int(json_array_get(rows, 0), "rejected");
		more = json_is_true(
		    json_object_get(json_array_get(rows, 0), "more"));
		json_decref(rows);
	}
	rows = json_pack("[{s:I}]", "rejected", (json_int_t)n);
	ctl_print(ctl, rows);
	json_decref(rows);
	return 0;
}
