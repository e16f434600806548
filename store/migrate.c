/* SPDX-License-Identifier: ISC */
/*
 * migrate.c - the schema, from the files built into this program.
 *
 * Files are applied in order and never edited after a release: their hash is
 * kept, and a difference stops the migration before anything is changed.
 *
 * A file expands the schema, so that the release before goes on working with
 * it, unless its head says `-- contract: serves N`: it takes away what only
 * programs that know less than migration N use, and waits until a person says
 * that they are gone, and they are.
 */
#include "store/manage.h"

#include <openssl/sha.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "store/manage_internal.h"
#include "store/store.h"

#define LOCK "select pg_advisory_lock(7307214170135950964)"
#define UNLOCK "select pg_advisory_unlock(7307214170135950964)"
#define NO_TRANSACTION "-- no-transaction"
#define CONTRACT "-- contract: serves "

static bool
run(struct manage *m, const char *sql, struct err *err)
{
	return pg_sync_script(m->db, sql, err);
}

static void
roll_back(struct manage *m)
{
	struct err ignored;

	if (!run(m, "ROLLBACK", &ignored))
		return; /* the connection is gone, and with it all it did */
}

/* Of a file that contracts: what a program must know; 0: it expands. */
static int
serves(const struct manage_migration *mig)
{
	const char *line = mig->sql;

	while (strncmp(line, "--", 2) == 0) {
		if (strncmp(line, CONTRACT, sizeof(CONTRACT) - 1) == 0)
			return atoi(line + sizeof(CONTRACT) - 1);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

/* -1 on error, 0 to do, 1 done before. */
static int
is_applied(
    struct manage *m, const struct manage_migration *mig, struct err *err)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct pg_args args = { 0 };
	struct pg_result *res;
	int found = 0;

	res = pg_sync_call(m->db,
	    "select to_regclass('d.schema_migration') is not null as yes", NULL,
	    err);
	if (res == NULL || !pg_get_bool(res, 0, "yes")) {
		found = res == NULL ? -1 : 0;
		pg_result_free(res);
		return found;
	}
	pg_result_free(res);
	pg_i32(&args, mig->version);
	res = pg_sync_call(m->db,
	    "select sha256 from d.schema_migration where version = $1", &args,
	    err);
	pg_args_free(&args);
	if (res == NULL)
		return -1;
	if (pg_rows(res) == 1) {
		struct str had = pg_get_bytes(res, 0, "sha256");

		(void)SHA256(
		    (const unsigned char *)mig->sql, strlen(mig->sql), hash);
		found = had.n == sizeof(hash) &&
				memcmp(had.p, hash, sizeof(hash)) == 0
			    ? 1
			    : -1;
		if (found < 0)
			err_set(err, EINVAL,
			    "%s was changed after it was applied; install the "
			    "program that belongs to this database",
			    mig->name);
	}
	pg_result_free(res);
	return found;
}

static bool
record(struct manage *m, const struct manage_migration *mig, struct err *err)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct pg_args args = { 0 };
	struct pg_result *res;

	(void)SHA256((const unsigned char *)mig->sql, strlen(mig->sql), hash);
	pg_i32(&args, mig->version);
	pg_text(&args, mig->name);
	pg_bytes(&args, hash, sizeof(hash));
	pg_i32(&args, serves(mig));
	res = pg_sync_call(m->db,
	    "insert into d.schema_migration(version, name, sha256, serves) "
	    "values ($1, $2, $3, $4)",
	    &args, err);
	pg_args_free(&args);
	pg_result_free(res);
	return res != NULL;
}

static void
name_file(struct err *err, const char *name)
{
	struct err why = *err;

	err_set(err, why.code, "%s: %.200s", name, why.text);
}

static bool
apply(struct manage *m, const struct manage_migration *mig, struct err *err)
{
	bool alone =
	    strncmp(mig->sql, NO_TRANSACTION, sizeof(NO_TRANSACTION) - 1) == 0;

	if ((alone && !run(m, mig->sql, err)) || !run(m, "BEGIN", err) ||
	    (!alone && !run(m, mig->sql, err)) ||
	    !run(m, "SET LOCAL ROLE p_owner", err) || !record(m, mig, err) ||
	    !run(m, "COMMIT", err)) {
		roll_back(m);
		name_file(err, mig->name);
		return false;
	}
	return true;
}

static int
check(struct manage *m, const struct manage_migration *mig, struct err *err)
{
	int done;

	if (!run(m, "BEGIN; SET LOCAL ROLE p_owner", err))
		return -1;
	done = is_applied(m, mig, err);
	roll_back(m);
	return done;
}

/* Has a later release been here? Then its posternctl is the one to use. */
static bool
is_known(struct manage *m, struct err *err)
{
	const struct manage_migration *mig = manage_migrations;
	struct pg_result *res = NULL;
	bool ok;
	int newest = 0, last = 0;

	for (; mig->name != NULL; mig++)
		last = mig->version;
	ok = run(m, "BEGIN; SET LOCAL ROLE p_owner", err);
	if (ok)
		res = pg_sync_call(m->db,
		    "select to_regclass('d.schema_migration') is not null "
		    "as yes",
		    NULL, err);
	ok = res != NULL;
	if (ok && pg_get_bool(res, 0, "yes")) {
		pg_result_free(res);
		res = pg_sync_call(m->db,
		    "select coalesce(max(version), 0) as v "
		    "from d.schema_migration",
		    NULL, err);
		ok = res != NULL;
		newest = ok ? pg_get_int(res, 0, "v") : 0;
	}
	pg_result_free(res);
	roll_back(m);
	if (ok && newest > last)
		err_set(err, EPROTO,
		    "the database has migration %d of a later release, and "
		    "this one knows %d: use that release's posternctl",
		    newest, last);
	return ok && newest <= last;
}

/* Is nobody connected who knows less than `mig` serves? */
static bool
is_alone(struct manage *m, const struct manage_migration *mig, struct err *err)
{
	struct pg_args args = { 0 };
	struct pg_result *res = NULL;
	bool ok = run(m, "BEGIN; SET LOCAL ROLE p_ctl", err);

	pg_i32(&args, serves(mig));
	if (ok)
		res = pg_sync_call(m->db,
		    "select string_agg(distinct a.application_name, ', ') "
		    "as who from pg_stat_activity a "
		    "where a.datname = current_database() and a.usename in "
		    "('l_gateway', 'l_review', 'l_worker', 'l_seal', "
		    "'l_auth') and coalesce(substring(a.application_name "
		    "from '" STORE_KNOWS "([0-9]{1,9})$')::int, 0) < $1",
		    &args, err);
	pg_args_free(&args);
	ok = res != NULL && pg_is_null(res, 0, "who");
	if (res != NULL && !ok)
		err_set(err, EBUSY,
		    "%s takes away what these still use; restart them with "
		    "this release first: %.200s",
		    mig->name, pg_get_text(res, 0, "who"));
	pg_result_free(res);
	roll_back(m);
	return ok;
}

/* One file, as far as its turn has come. */
static bool
step(struct manage *m, const struct manage_migration *mig, bool contract,
    manage_migrated_fn *told, void *arg, struct err *err)
{
	bool now = contract || serves(mig) == 0;
	int done = check(m, mig, err);

	if (done != 0)
		return done > 0;
	if (now && serves(mig) != 0 && !is_alone(m, mig, err))
		return false;
	if (now && !apply(m, mig, err))
		return false;
	told(arg, mig->name, now);
	return true;
}

bool
manage_migrate(struct manage *m, bool contract, manage_migrated_fn *told,
    void *arg, struct err *err)
{
	const struct manage_migration *mig;
	struct err ignored;
	bool ok;

	if (!run(m,
		"SET lock_timeout = '5s'; SET statement_timeout = 0;"
		"SET idle_in_transaction_session_timeout = 0;" LOCK,
		err))
		return false;
	ok = is_known(m, err);
	/* What expands comes first, whatever waits between. */
	for (mig = manage_migrations; ok && mig->name != NULL; mig++)
		ok = (contract && serves(mig) != 0) ||
		     step(m, mig, false, told, arg, err);
	for (mig = manage_migrations; ok && contract && mig->name != NULL;
	     mig++)
		ok = step(m, mig, true, told, arg, err);
	if (!run(m, UNLOCK, &ignored))
		return false;
	return ok;
}

#define HARDENING "\n-- hardening: "
#define STEP "\n-- step: "

/* Where the next part of roles.sql begins, or its end. */
static const char *
next_part(const char *p)
{
	const char *step = strstr(p, STEP), *hard = strstr(p, HARDENING);

	if (step == NULL || (hard != NULL && hard < step))
		step = hard;
	return step != NULL ? step : p + strlen(p);
}

/* One part, in a savepoint of its own. */
static bool
run_part(struct manage *m, const char *part, manage_lacks_fn *lacks, void *arg,
    struct err *err)
{
	bool may_lack = strncmp(part, HARDENING, sizeof(HARDENING) - 1) == 0;
	const char *name = part + (may_lack ? sizeof(HARDENING) : sizeof(STEP));
	char *sql = xstrndup(part, (size_t)(next_part(part + 1) - part));
	char *title = xstrndup(name - 1, strcspn(name - 1, "\n"));
	bool ok = run(m, "SAVEPOINT part", err) && run(m, sql, err);

	if (!ok && may_lack) {
		struct err why = *err;

		ok = run(m, "ROLLBACK TO part", err);
		if (ok)
			lacks(arg, title, why.text);
	} else if (!ok) {
		name_file(err, title);
	}
	free(title);
	free(sql);
	return ok;
}

bool
manage_roles(
    struct manage *m, manage_lacks_fn *lacks, void *arg, struct err *err)
{
	const char *part = next_part(manage_roles_sql);
	bool ok = run(m, "BEGIN", err);

	for (; ok && *part != '\0'; part = next_part(part + 1))
		ok = run_part(m, part, lacks, arg, err);
	if (ok && run(m, "COMMIT", err))
		return true;
	roll_back(m);
	name_file(err, "roles.sql");
	return false;
}
