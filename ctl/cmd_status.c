/* SPDX-License-Identifier: ISC */
/*
 * status: is everything of this host up? Each program is asked as a balancer
 * would ask it; the numbers are those that the worker and the others show.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "ctl/ctl.h"
#include "ctl/reach.h"

static const struct {
	const char *name, *unit;
	unsigned port; /* behind metrics.listen */
} programs[] = {
	{ "posternd", "postern-gateway", 0 },
	{ "postern-admin", "postern-admin", 1 },
	{ "postern-deliver", "postern-deliver", 2 },
	{ "postern-auth", "postern-auth", 3 },
};

static void
add(json_t *all, const char *part, const char *state, const char *detail)
{
	(void)json_array_append_new(
	    all, json_pack("{s:s, s:s, s:s}", "part", part, "state", state,
		     "detail", detail));
}

static bool
look_at_program(const struct ctl *ctl, json_t *all, size_t i)
{
	char said[200], down[120];
	int status =
	    reach_readyz(ctl->conf, programs[i].port, said, sizeof(said));

	(void)snprintf(down, sizeof(down),
	    "does not answer: journalctl -u %s says why", programs[i].unit);
	add(all, programs[i].name,
	    status == 200   ? "ok"
	    : status == 503 ? "not ready"
			    : "down",
	    status == 0 ? down : said);
	return status == 200;
}

/* What waits, as the worker counts it. */
static void
look_at_queue(const struct ctl *ctl, json_t *all)
{
	static const char *const names[] = { "postern_held",
		"postern_queue_due", "postern_uncertain",
		"postern_audit_unsealed_seconds",
		"postern_partitions_ahead_weeks" };
	struct buf said = { 0 };
	size_t i;

	if (reach_get(ctl->conf, 2, "metrics", &said) == 200) {
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			char *want, *at, value[32] = "";

			if (asprintf(&want, "\n%s ", names[i]) < 0)
				break;
			at = strstr(buf_cstr(&said), want);
			if (at != NULL)
				(void)sscanf(at + strlen(want), "%31s", value);
			if (*value != '\0')
				add(all, names[i] + sizeof("postern_") - 1,
				    "info", value);
			free(want);
		}
	}
	buf_free(&said);
}

int
ctl_status(struct ctl *ctl, const struct ctl_args *args)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };
	json_t *all = json_array(), *rows, *row;
	char text[160];
	bool ok = true;
	size_t i;

	(void)args;
	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		ok = look_at_program(ctl, all, i) && ok;
	rows = ctl_call(ctl, "ready_1", none);
	row = json_array_get(rows, 0);
	if (row != NULL) {
		(void)snprintf(text, sizeof(text),
		    "schema %lld, epoch %lld, timeline %lld",
		    (long long)ctl_int(row, "schema"),
		    (long long)ctl_int(row, "epoch"),
		    (long long)ctl_int(row, "timeline"));
		add(all, "database", "ok", text);
	} else {
		add(all, "database", "down", "posternctl doctor says more");
		ok = false;
	}
	json_decref(rows);
	look_at_queue(ctl, all);
	ctl_print(ctl, all);
	json_decref(all);
	return ok ? 0 : 1;
}
