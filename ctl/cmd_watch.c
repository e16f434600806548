/* SPDX-License-Identifier: ISC */
/* queue, trace, maintain and ready: looking, and housekeeping. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/uuid.h"
#include "ctl/ctl.h"

#define DAY_MS (24LL * 60 * 60 * 1000)

int
ctl_queue(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "queue_1", call, NULL);
}

static int
print_events(struct ctl *ctl, const char *id)
{
	struct uuid u;

	if (!uuid_from_text(&u, str_of(id)))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_UUID(&u), MANAGE_ARG_END };

		return ctl_call_print(ctl, "trace_events_1", call, NULL);
	}
}

/* One message is shown with its history, several as a table. */
int
ctl_trace(struct ctl *ctl, const struct ctl_args *args)
{
	const char *what = args->words[0];
	char text[UUID_TEXT_MAX], found[UUID_TEXT_MAX];
	struct uuid u;
	json_t *rows;
	size_t n;
	int rc = 0;

	if (uuid_from_id(&u, "msg_", str_of(what))) {
		uuid_to_text(text, &u);
		what = text;
	}
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_TEXT(what), MANAGE_ARG_END };

		rows = ctl_call(ctl, "trace_1", call);
	}
	if (rows == NULL)
		return 1;
	n = json_array_size(rows);
	(void)snprintf(found, sizeof(found), "%s",
	    n == 1 ? ctl_text(json_array_get(rows, 0), "message_id") : "");
	if (n == 0)
		rc = ctl_fail(ctl, "nothing known about %s", args->words[0]);
	else
		ctl_print(ctl, rows);
	json_decref(rows);
	return n == 1 ? print_events(ctl, found) : rc;
}

/* For the journal: the timer's output is nobody's to read. */
static void
log_partitions(json_t *rows)
{
	const json_t *row;
	size_t i;

	log_set_level(LOG_LEVEL_INFO);
	json_array_foreach(rows, i, row)
	{
		const char *what = ctl_text(row, "what");

		if (ctl_int(row, "n") > 0 &&
		    (strcmp(what, "partitions made") == 0 ||
			strcmp(what, "weeks dropped") == 0))
			log_info("maintain.partition", KV("why", what),
			    KV("n", ctl_int(row, "n")));
	}
}

int
ctl_maintain(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t weeks = ctl_number(args, "weeks", 52, 4);
	const struct manage_arg call[] = { CTL_UID, MANAGE_ARG_I32(weeks),
		MANAGE_ARG_I32(ctl->conf->body_keep / DAY_MS),
		MANAGE_ARG_I32(ctl->conf->metadata_keep / DAY_MS),
		MANAGE_ARG_END };
	json_t *rows;

	if (weeks < 0)
		return 2;
	rows = ctl_call(ctl, "maintain_1", call);
	if (rows == NULL)
		return 1;
	log_partitions(rows);
	ctl_print(ctl, rows);
	json_decref(rows);
	return 0;
}

int
ctl_ready(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "ready_1", none, NULL);
}
