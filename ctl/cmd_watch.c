/* SPDX-License-Identifier: ISC */
/* queue, trace, maintain and ready: looking, and housekeeping. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/uuid.h"
#include "ctl/ctl.h"
#include "ctl/trace.h"

#define MAINTAIN_ROUNDS 10000 /* of one run */
#define IN_USE "weeks in use"
#define DAY_MS (24LL * 60 * 60 * 1000)

int
ctl_queue(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "queue_1", call, NULL);
}

int
ctl_queue_domains(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
		MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, "queue_domains_1", call);

	(void)args;
	if (rows == NULL)
		return 1;
	if (json_array_size(rows) > 0 || ctl->json)
		ctl_print(ctl, rows);
	else
		(void)printf("No mail waits to go.\n");
	json_decref(rows);
	return 0;
}

/* Its history; with `logs` also what each program said of it. */
static int
print_events(struct ctl *ctl, const char *uuid, const char *logs)
{
	char id[UUID_ID_MAX];
	struct uuid u;
	json_t *rows;
	int rc = 0;

	if (!uuid_from_text(&u, str_of(uuid)))
		return 1;
	{
		const struct manage_arg call[] = { CTL_SESSION(ctl), CTL_UID,
			MANAGE_ARG_UUID(&u), MANAGE_ARG_END };

		rows = ctl_call(ctl, "trace_events_1", call);
	}
	if (rows == NULL)
		return 1;
	uuid_to_id(id, "msg_", &u);
	if (logs != NULL)
		rc = trace_with_logs(ctl, rows, id, logs);
	else
		ctl_print(ctl, rows);
	json_decref(rows);
	return rc;
}

/* One message is shown with its history, several as a table. */
/* Of many, on a terminal, what tells one from another. */
static void
print_found(struct ctl *ctl, json_t *rows)
{
	json_t *brief = json_array(), *row;
	size_t i;

	if (ctl->json || json_array_size(rows) == 1) {
		ctl_print(ctl, rows);
		json_decref(brief);
		return;
	}
	json_array_foreach(rows, i, row)
	{
		const char *at = ctl_text(row, "created_at");
		char text[20];

		(void)snprintf(text, sizeof(text), "%.10s %.5s", at,
		    strlen(at) > 16 ? at + 11 : "");
		(void)json_array_append_new(
		    brief, json_pack("{s:O, s:s, s:O, s:O, s:O}", "message_id",
			       json_object_get(row, "message_id"), "submitted",
			       text, "state", json_object_get(row, "state"),
			       "subject", json_object_get(row, "subject"),
			       "address", json_object_get(row, "address")));
	}
	ctl_print(ctl, brief);
	json_decref(brief);
}

int
ctl_trace(struct ctl *ctl, const struct ctl_args *args)
{
	const char *what = args->words[0], *logs = ctl_option(args, "logs");
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
	else if (n > 1 && logs != NULL)
		rc = ctl_fail(ctl, "--logs follows one message, and %s has %zu",
		    args->words[0], n);
	else
		print_found(ctl, rows);
	json_decref(rows);
	return n == 1 ? print_events(ctl, found, logs) : rc;
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
			strcmp(what, "weeks dropped") == 0 ||
			strcmp(what, IN_USE) == 0))
			log_info("maintain.partition", KV("why", what),
			    KV("n", ctl_int(row, "n")));
	}
}

/* Adds the counts of `more` to those of `all`; is there perhaps still more? */
static bool
add_round(json_t *all, const json_t *more)
{
	json_t *row;
	bool again = false;
	size_t i;

	json_array_foreach(all, i, row)
	{
		int64_t n = ctl_int(json_array_get(more, i), "n");

		if (strcmp(ctl_text(row, "what"), IN_USE) == 0) {
			(void)json_object_set_new(row, "n", json_integer(n));
			continue; /* tomorrow is soon enough */
		}
		again = again || n > 0;
		(void)json_object_set_new(
		    row, "n", json_integer(ctl_int(row, "n") + n));
	}
	return again;
}

/* A call makes some weeks, or removes some of a kind: until none is left. */
int
ctl_maintain(struct ctl *ctl, const struct ctl_args *args)
{
	int64_t weeks = ctl_number(ctl, args, "weeks", 52, 4);
	const struct manage_arg call[] = { CTL_UID, MANAGE_ARG_I32(weeks),
		MANAGE_ARG_I32(ctl->conf->body_keep / DAY_MS),
		MANAGE_ARG_I32(ctl->conf->metadata_keep / DAY_MS),
		MANAGE_ARG_BOOL(ctl_option(args, "after-gap") != NULL),
		MANAGE_ARG_END };
	json_t *rows, *more;
	bool again, ok;
	int round = 0;

	if (weeks < 0)
		return 2;
	rows = ctl_call(ctl, "maintain_1", call);
	if (rows == NULL)
		return 1;
	do {
		more = ctl_call(ctl, "maintain_1", call);
		ok = more != NULL;
		again = ok && add_round(rows, more);
		json_decref(more);
	} while (again && ++round < MAINTAIN_ROUNDS);
	log_partitions(rows);
	ctl_print(ctl, rows);
	json_decref(rows);
	return ok ? 0 : 1;
}

int
ctl_ready(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };

	(void)args;
	return ctl_call_print(ctl, "ready_1", none, NULL);
}
