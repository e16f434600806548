/* SPDX-License-Identifier: ISC */
/*
 * database verify: after a restore, or whenever somebody wants to know: the
 * audit chain against the heads kept outside, digests of a sample, bodies of
 * what is not final, and every foreign key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "ctl/audit.h"
#include "ctl/ctl.h"

static int
print_found(struct ctl *ctl, const struct manage_rows *rows)
{
	json_t *all = json_array(), *row;
	size_t i;
	int rc = 0;

	for (i = 0; i < rows->n; i++) {
		row = json_loads(rows->json[i], 0, NULL);
		BUG_ON(row == NULL);
		if (ctl_int(row, "broken") != 0)
			rc = ctl_fail(ctl,
			    "%s: %lld of %lld are broken, such "
			    "as %s",
			    ctl_text(row, "what"),
			    (long long)ctl_int(row, "broken"),
			    (long long)ctl_int(row, "looked"),
			    ctl_text(row, "example"));
		else if (!ctl->json)
			(void)printf("%s: %lld looked at, all good\n",
			    ctl_text(row, "what"),
			    (long long)ctl_int(row, "looked"));
		(void)json_array_append_new(all, row);
	}
	if (ctl->json)
		ctl_print(ctl, all);
	json_decref(all);
	return rc;
}

int
ctl_database_verify(struct ctl *ctl, const struct ctl_args *args)
{
	const char *superuser = ctl_option(args, "superuser");
	int64_t sample = ctl_number(ctl, args, "sample", 1000000, 1000);
	char *heads = xasprintf("%s/" HEADS_FILE, ctl->conf->state_dir);
	struct ctl_args audit = { 0 };
	struct manage_rows rows;
	struct err err = { 0 };
	int rc = sample < 0 ? 2 : 0;

	audit.names[0] = "head";
	audit.values[0] = ctl_option(args, "head");
	if (audit.values[0] == NULL)
		audit.values[0] = heads;
	audit.noptions = access(audit.values[0], F_OK) == 0 ||
			 ctl_option(args, "head") != NULL;
	if (rc == 0)
		rc = ctl_audit_verify(ctl, &audit);
	if (rc != 2 &&
	    ctl_connect(ctl, superuser != NULL ? superuser : "postgres")) {
		if (manage_verify(ctl->db, (int)sample, &rows, &err))
			rc |= print_found(ctl, &rows);
		else
			rc = ctl_fail(ctl, "%s", err.text);
		manage_rows_clear(&rows);
	} else if (rc == 0) {
		rc = 1;
	}
	free(heads);
	return rc;
}
