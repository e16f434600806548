/* SPDX-License-Identifier: ISC */
/* mode, tighten, pause, resume and suspend: the switches. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/uuid.h"
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

/* What could not be rejected, and what becomes of it. */
static void
say_left(const struct ctl *ctl, const json_t *row)
{
	static const char *const whys[][2] = {
		{ "state_conflict", "was decided or changed meanwhile" },
		{ "second_approval_needed",
		    "stays held: you approved it; another operator can reject "
		    "it" },
	};
	const char *why = ctl_text(row, "why");
	char id[UUID_ID_MAX];
	struct uuid mid;
	size_t i;

	if (!uuid_from_text(&mid, str_of(ctl_text(row, "message_id"))))
		return;
	for (i = 0; i < sizeof(whys) / sizeof(whys[0]); i++)
		if (strcmp(why, whys[i][0]) == 0)
			why = whys[i][1];
	uuid_to_id(id, "msg_", &mid);
	(void)ctl_fail(ctl, "%s %s", id, why);
}

/* Adds up a call's rows: its counts, then what it could not reject. */
static bool
count_rejected(const struct ctl *ctl, json_t *rows, int64_t *n, int64_t *left)
{
	const json_t *sum = json_array_get(rows, 0);
	size_t i;

	*n += ctl_int(sum, "rejected");
	*left = ctl_int(sum, "stays");
	for (i = 1; i < json_array_size(rows); i++)
		say_left(ctl, json_array_get(rows, i));
	return json_is_true(json_object_get(sum, "more"));
}

/* All that an inbox holds, some in each transaction. */
int
ctl_reject(struct ctl *ctl, const struct ctl_args *args)
{
	const char *category = ctl_option(args, "category");
	int64_t n = 0, left = 0;
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
		more = count_rejected(ctl, rows, &n, &left);
		json_decref(rows);
	}
	rows = json_pack("[{s:I, s:I}]", "rejected", (json_int_t)n, "left",
	    (json_int_t)left);
	ctl_print(ctl, rows);
	json_decref(rows);
	return left > 0 ? 1 : 0;
}
