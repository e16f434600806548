/* SPDX-License-Identifier: ISC */
/* tenant export, tenant delete, inbox delete: what leaves and what ends. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define EXPORT_PAGE 500 /* rows a call */
#define PLACE_MAX 64

/* One page of `what` behind `place`, which moves on. -1: reported. */
static int
export_page(
    struct ctl *ctl, int64_t tenant, const char *what, char *place, FILE *out)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(what),
		MANAGE_ARG_TEXT(place), MANAGE_ARG_I32(EXPORT_PAGE),
		MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "tenant_export_1", call), *row;
	size_t i;
	int n;

	if (rows == NULL)
		return -1;
	json_array_foreach(rows, i, row)
	{
		(void)fprintf(
		    out, "{\"%s\":%s}\n", what, ctl_text(row, "object"));
		(void)snprintf(place, PLACE_MAX, "%s", ctl_text(row, "place"));
	}
	n = (int)json_array_size(rows);
	json_decref(rows);
	return n;
}

static int64_t
export_all(struct ctl *ctl, int64_t tenant, const char *what, FILE *out)
{
	char place[PLACE_MAX] = "";
	int64_t all = 0;
	int n;

	while ((n = export_page(ctl, tenant, what, place, out)) > 0)
		all += n;
	return n < 0 ? -1 : all;
}

int
ctl_tenant_export(struct ctl *ctl, const struct ctl_args *args)
{
	const char *path = args->words[1];
	int64_t tenant, n = -1;
	FILE *out;
	bool ok;

	if (!ctl_find_tenant(ctl, args->words[0], &tenant))
		return 1;
	(void)umask(077);
	out = fopen(path, "wxe");
	if (out == NULL)
		return ctl_fail(ctl, "%s: %s", path, strerror(errno));
	ok = export_all(ctl, tenant, "tenant", out) >= 0 &&
	     (n = export_all(ctl, tenant, "messages", out)) >= 0;
	if (ok && (fflush(out) != 0 || fsync(fileno(out)) != 0))
		ok = ctl_fail(ctl, "%s: %s", path, strerror(errno)) == 0;
	if (fclose(out) != 0 || !ok) {
		(void)unlink(path);
		return 1;
	}
	(void)printf("%lld messages in %s; bodies are sealed, each inbox "
		     "reads its own\n",
	    (long long)n, path);
	return 0;
}

int
ctl_tenant_delete(struct ctl *ctl, const struct ctl_args *args)
{
	const char *reason = ctl_option(args, "reason");
	int64_t tenant;

	if (!ctl_has_reason(ctl, args) ||
	    !ctl_find_tenant(ctl, args->words[0], &tenant) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_TEXT(args->words[0]),
			MANAGE_ARG_TEXT(reason), MANAGE_ARG_END };

		return ctl_call_print(ctl, "tenant_delete_1", call, NULL);
	}
}

int
ctl_inbox_delete(struct ctl *ctl, const struct ctl_args *args)
{
	const char *reason = ctl_option(args, "reason");
	int64_t tenant, inbox;

	if (!ctl_has_reason(ctl, args) ||
	    !ctl_find_inbox(ctl, args->words[0], &tenant, &inbox) ||
	    !ctl_step_up(ctl, args))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_I64(tenant), MANAGE_ARG_I64(inbox),
			MANAGE_ARG_TEXT(reason), MANAGE_ARG_END };

		return ctl_call_print(ctl, "inbox_delete_1", call, NULL);
	}
}
