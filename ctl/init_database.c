/* SPDX-License-Identifier: ISC */
/*
 * init_database.c - a PostgreSQL on this host lets the programs in by who
 * runs them; one elsewhere has been told by its own people.
 */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "ctl/init.h"

static const char hba[] =
    "# posternctl init: each program is the login of its user.\n"
    "local postern     all      peer map=postern\n"
    "local replication postgres peer map=postern\n";
static const char ident[] = "# posternctl init\n"
			    "postern posternd         l_gateway\n"
			    "postern postern-admin    l_review\n"
			    "postern postern-auth     l_auth\n"
			    "postern postern-deliver  l_worker\n"
			    "postern postern-ctl      l_ctl\n"
			    "postern postern-seal     l_seal\n"
			    "postern postgres         postgres\n"
			    "postern root             postgres\n"
			    "postern root             l_migrate\n"
			    "postern root             l_ctl\n";

/* What psql says as the database's own user; NULL, reported. */
static char *
ask(struct ctl *ctl, const char *sql)
{
	char *socket = xstrdup(ctl->conf->store_socket);
	char *port = xasprintf("%ld", (long)ctl->conf->store_port);
	const char *const argv[] = { "runuser", "-u", "postgres", "--", "psql",
		"-XAtq", "-h", socket, "-p", port, "-d", "postgres", "-c", sql,
		NULL };
	struct buf out = { 0 };
	struct err err = { 0 };
	char *said = NULL;

	if (files_ask(&out, argv, &err)) {
		said = xstrdup(buf_cstr(&out));
		said[strcspn(said, "\n")] = '\0';
	} else {
		(void)ctl_fail(ctl, "PostgreSQL: %s", err.text);
	}
	buf_free(&out);
	free(port);
	free(socket);
	return said;
}

/* Put lines before what is there, once; *changed then becomes true. */
static bool
prepend(struct ctl *ctl, const char *path, const char *lines, bool *changed)
{
	struct buf text = { 0 };
	struct files_meta meta;
	struct err err = { 0 };
	char *next = xasprintf("%s.postern", path);
	bool ok;

	buf_puts(&text, lines);
	ok = files_read(&text, &meta, path, 1 << 20, &err);
	if (ok && strstr(buf_cstr(&text) + strlen(lines), "posternctl init") ==
		      NULL) {
		(void)unlink(next);
		ok = files_write(next, buf_str(&text), &meta, &err);
		if (ok && rename(next, path) != 0)
			ok = false;
		*changed = true;
	}
	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, err.text);
	buf_free(&text);
	free(next);
	return ok;
}

/* Settings that need a restart, where Debian keeps such files. */
static bool
add_settings(struct ctl *ctl)
{
	char *file = ask(ctl, "SHOW config_file"), *path = NULL;
	struct buf text = { 0 };
	struct err err = { 0 };
	bool ok = file != NULL;

	if (ok)
		path = xasprintf("%s/conf.d", dirname(file));
	if (ok && access(path, W_OK) != 0) {
		init_say(ctl, "todo",
		    "include " POSTERN_DATADIR "/postgresql/postern.conf in "
		    "postgresql.conf, and restart it");
	} else if (ok) {
		free(path);
		path = xasprintf("%s/conf.d/postern.conf", file);
		ok = files_read(&text, NULL,
			 POSTERN_DATADIR "/postgresql/postern.conf", 65536,
			 &err) ||
		     ctl_fail(ctl, "%s", err.text) == 0;
		if (ok && access(path, F_OK) != 0) {
			ok = init_file(
			    ctl, path, buf_str(&text), "root:root", 0644);
			init_say(ctl, "todo",
			    "restart PostgreSQL: its settings are in %s", path);
		}
	}
	buf_free(&text);
	free(path);
	free(file);
	return ok;
}

static bool
let_in(struct ctl *ctl)
{
	char *hba_file = ask(ctl, "SHOW hba_file");
	char *ident_file =
	    hba_file != NULL ? ask(ctl, "SHOW ident_file") : NULL;
	bool changed = false, ok = ident_file != NULL;

	ok = ok && prepend(ctl, hba_file, hba, &changed) &&
	     prepend(ctl, ident_file, ident, &changed);
	if (ok && changed) {
		free(hba_file);
		hba_file = ask(ctl, "SELECT pg_reload_conf()");
		ok = hba_file != NULL;
	}
	if (ok)
		init_say(ctl, changed ? "made" : "ok",
		    "PostgreSQL lets each program in as its login");
	free(hba_file);
	free(ident_file);
	return ok;
}

static bool
make_database(struct ctl *ctl)
{
	char *there = ask(ctl, "SELECT count(*) FROM pg_database WHERE "
			       "datname = 'postern'");
	char *said = NULL;
	bool ok = there != NULL;

	if (ok && strcmp(there, "0") == 0) {
		/*
		 * Not the host's locale: what is small in Turkish is not found,
		 * and what is sorted changes with the C library.
		 */
		said = ask(ctl, "CREATE DATABASE postern TEMPLATE template0 "
				"ENCODING 'UTF8' LOCALE 'C.UTF-8'");
		ok = said != NULL;
		if (ok)
			init_say(ctl, "made", "database postern");
	}
	free(said);
	free(there);
	return ok;
}

bool
init_database(struct ctl *ctl, const struct ctl_args *args)
{
	struct ctl_args migrate = { .names = { "superuser" },
		.values = { ctl_option(args, "superuser") },
		.noptions = 1 };

	if (migrate.values[0] == NULL)
		migrate.values[0] = "postgres";
	if (*ctl->conf->store_socket == '/' &&
	    (!let_in(ctl) || !add_settings(ctl) || !make_database(ctl)))
		return false;
	if (ctl_migrate(ctl, &migrate) != 0)
		return false;
	init_say(ctl, "ok", "schema");
	return true;
}
