/* SPDX-License-Identifier: ISC */
/*
 * restore: lay a backup out where nothing is. Everything is read and checked
 * before the first byte is written; what is there is never overwritten.
 *
 * The database starts from it with a setting, postern.restored, by which
 * every program of Postern refuses it until restore-finish has been run.
 */
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/backup.h"
#include "ctl/bundle.h"
#include "ctl/files.h"
#include "seal/key.h"
#include "seal/vault.h"

struct lay {
	struct ctl *ctl;
	const struct ctl_args *args;
	const char *dir; /* the backup */
	const char *data; /* NULL: no database */
	const char *root; /* before every path of keys and state; "" */
	struct buf manifest_text;
	json_t *manifest;
	struct buf bundle;
	struct secret mac; /* key of the manifest's */
};

static bool
read_manifest(struct lay *l)
{
	char *path = xasprintf("%s/" BACKUP_MANIFEST, l->dir);

	if (files_read(
		&l->manifest_text, NULL, path, BACKUP_MANIFEST_MAX, NULL))
		l->manifest = json_loadb(
		    buf_cstr(&l->manifest_text), l->manifest_text.n, 0, NULL);
	if (l->manifest == NULL)
		(void)ctl_fail(
		    l->ctl, "%s: no manifest; the backup did not finish", path);
	else if (ctl_int(l->manifest, "format") != BACKUP_FORMAT) {
		(void)ctl_fail(l->ctl,
		    "%s: made by release %s, which this one does not know",
		    path, ctl_text(l->manifest, "program"));
		json_decref(l->manifest);
		l->manifest = NULL;
	}
	free(path);
	return l->manifest != NULL;
}

static bool
is_same(const struct lay *l, const json_t *file)
{
	char *path = xasprintf("%s/%s", l->dir, ctl_text(file, "name"));
	struct err err = { 0 };
	int64_t size;
	char hex[65];
	bool ok;

	if (!files_hash(hex, &size, NULL, path, &err))
		ok = ctl_fail(l->ctl, "%s", err.text) == 0;
	else
		ok = strcmp(hex, ctl_text(file, "sha256")) == 0 ||
		     ctl_fail(l->ctl, "%s was changed since", path) == 0;
	free(path);
	return ok;
}

static bool
open_vault(struct lay *l)
{
	char *path = xasprintf("%s/" BACKUP_KEYS, l->dir);
	char phrase[SEAL_PASSWORD_MAX + 2];
	struct buf box = { 0 };
	struct err err = { 0 };
	bool ok =
	    ctl_passphrase(l->ctl, l->args, false, phrase, sizeof(phrase));

	if (ok)
		ok = (files_read(
			  &box, NULL, path, SEAL_VAULT_MAX + 1024, &err) &&
			 seal_vault_open(&l->bundle, &l->mac, str_of(phrase),
			     buf_str(&box), &err)) ||
		     ctl_fail(l->ctl, "%s: %s", path, err.text) == 0;
	explicit_bzero(phrase, sizeof(phrase));
	buf_free(&box);
	free(path);
	return ok;
}

/*
 * Was the manifest written by who has the passphrase? It vouches for every
 * other file: whoever can write where backups lie can change none of them.
 */
static bool
check_mac(const struct lay *l)
{
	char *path = xasprintf("%s/" BACKUP_MAC, l->dir);
	unsigned char want[SEAL_VAULT_MAC], given[SEAL_VAULT_MAC];
	struct buf text = { 0 };
	bool ok;

	seal_vault_mac(want, &l->mac, buf_str(&l->manifest_text));
	ok = files_read(&text, NULL, path, 2 * SEAL_VAULT_MAC + 1, NULL) &&
	     text.n == 2 * SEAL_VAULT_MAC + 1 &&
	     hex_decode(given, sizeof(given), buf_cstr(&text), text.n - 1) &&
	     CRYPTO_memcmp(given, want, sizeof(want)) == 0;
	if (!ok)
		(void)ctl_fail(l->ctl,
		    "%s/" BACKUP_MANIFEST " is not the one that was written "
		    "with this passphrase: do not use this folder",
		    l->dir);
	buf_free(&text);
	free(path);
	return ok;
}

/* Does the manifest vouch for this file? */
static bool
is_vouched(const struct lay *l, const char *name)
{
	const json_t *files = json_object_get(l->manifest, "files"), *file;
	size_t i;

	json_array_foreach(files, i, file)
	{
		if (strcmp(ctl_text(file, "name"), name) == 0)
			return true;
	}
	return false;
}

/* Nothing was added to what PostgreSQL's manifest does not look at. */
static bool
check_apart(void *arg, const char *name, mode_t what)
{
	const struct lay *l = arg;

	if (!backup_is_apart(name) || S_ISDIR(what))
		return true;
	if (!is_vouched(l, name))
		return ctl_fail(
			   l->ctl, "%s/%s was added since", l->dir, name) == 0;
	return S_ISREG(what) ||
	       ctl_fail(l->ctl, "%s/%s is no file any more", l->dir, name) == 0;
}

static bool
check_files(struct lay *l)
{
	const json_t *files = json_object_get(l->manifest, "files"), *file;
	char *base = xasprintf("%s/base", l->dir);
	const char *const verify[] = { "pg_verifybackup", "-q", base, NULL };
	struct err err = { 0 };
	bool ok = true;
	size_t i;

	json_array_foreach(files, i, file)
	{
		ok = is_same(l, file) && ok;
	}
	if (ok && l->data != NULL)
		ok = backup_walk(l->ctl, l->dir, check_apart, l);
	if (ok && l->data != NULL)
		ok = files_run(verify, &err) ||
		     ctl_fail(l->ctl, "%s: %s", base, err.text) == 0;
	free(base);
	return ok;
}

/* A time, a path: nothing that could end a quoted value, or that a shell,
 * which PostgreSQL gives restore_command to, would run. */
static bool
is_plain(const struct lay *l, const char *name)
{
	const char *value = ctl_option(l->args, name);

	if (value == NULL ||
	    (*value != '\0' && strpbrk(value, "'\\\n\"%$`") == NULL))
		return true;
	return ctl_misused(l->ctl, "--%s: quotes, %%, $ and \\ cannot be used",
		   name) == 0;
}

static bool
check_target(const struct lay *l)
{
	const char *wal = ctl_option(l->args, "wal");

	if (!is_plain(l, "wal") || !is_plain(l, "time") ||
	    !is_plain(l, "timeline"))
		return false;
	if (ctl_option(l->args, "time") != NULL && wal == NULL)
		return ctl_misused(l->ctl,
			   "--time needs --wal, the folder with "
			   "the archived log") == 0;
	if (wal != NULL && files_folder(wal) != FILES_FULL)
		return ctl_fail(l->ctl, "--wal %s: nothing is in it", wal) == 0;
	if (l->data != NULL &&
	    !json_is_true(json_object_get(l->manifest, "base")))
		return ctl_fail(l->ctl, "it was made with --keys-only") == 0;
	if (l->data != NULL && files_folder(l->data) != FILES_EMPTY &&
	    files_folder(l->data) != FILES_MISSING)
		return ctl_fail(l->ctl,
			   "%s is not empty: move it away, and keep it: it "
			   "may know what the backup does not",
			   l->data) == 0;
	return true;
}

/* Who shall own the data folder: whoever owns the one around it. */
static bool
give_data(const struct lay *l)
{
	const char *owner = ctl_option(l->args, "owner");
	const char *const chown_it[] = { "chown", "-R", owner, "--", l->data,
		NULL };
	const char *const chmod_it[] = { "chmod", "0700", "--", l->data, NULL };
	struct err err = { 0 };

	return (files_run(chmod_it, &err) &&
		   (owner == NULL || files_run(chown_it, &err))) ||
	       ctl_fail(l->ctl, "%s", err.text) == 0;
}

/* Everything of postgresql.auto.conf but what an earlier restore wrote. */
static void
keep_settings(struct buf *out, const char *path)
{
	static const char *const ours[] = { "recovery_", "restore_command",
		"postern.restored", "primary_conninfo", "# posternctl" };
	FILE *f = fopen(path, "re");
	char line[2048];
	bool keep;
	size_t i;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		keep = true;
		for (i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
			keep = keep &&
			       strncmp(line, ours[i], strlen(ours[i])) != 0;
		if (keep)
			buf_puts(out, line);
	}
	if (f != NULL)
		(void)fclose(f);
}

static bool
write_recovery(const struct lay *l)
{
	const char *wal = ctl_option(l->args, "wal");
	const char *at = ctl_option(l->args, "time");
	const char *timeline = ctl_option(l->args, "timeline");
	char *conf = xasprintf("%s/postgresql.auto.conf", l->data);
	char *flag = xasprintf("%s/recovery.signal", l->data);
	const struct files_meta own = { .owner = "root", .mode = 0600 };
	struct buf text = { 0 };
	struct secret mark;
	struct err err = { 0 };
	char hex[17];
	bool ok;

	secret_random(&mark, 8);
	hex_encode(hex, mark.b, 8);
	keep_settings(&text, conf);
	buf_printf(&text, "# posternctl restore:\npostern.restored = '%s %s'\n",
	    ctl_text(l->manifest, "made_at"), hex);
	if (wal != NULL)
		buf_printf(
		    &text, "restore_command = 'cp \"%s/%%f\" \"%%p\"'\n", wal);
	else
		buf_puts(&text, "restore_command = 'false'\n"
				"recovery_target = 'immediate'\n");
	if (at != NULL)
		buf_printf(&text, "recovery_target_time = '%s'\n", at);
	if (timeline != NULL)
		buf_printf(
		    &text, "recovery_target_timeline = '%s'\n", timeline);
	buf_puts(&text, "recovery_target_action = 'promote'\n");
	(void)unlink(conf);
	(void)unlink(flag);
	ok = (files_write(conf, buf_str(&text), &own, &err) &&
		 files_write(flag, str_lit(""), &own, &err)) ||
	     ctl_fail(l->ctl, "%s", err.text) == 0;
	buf_free(&text);
	free(flag);
	free(conf);
	return ok;
}

static bool
lay_database(const struct lay *l)
{
	char *base = xasprintf("%s/base/.", l->dir);
	const char *const copy[] = { "cp", "-R", "--", base, l->data, NULL };
	const char *const sync_it[] = { "sync", "-f", l->data, NULL };
	char *inside = xasprintf("%s/x", l->data);
	struct err err = { 0 };
	bool ok;

	files_parents(inside);
	ok = files_run(copy, &err) ||
	     ctl_fail(l->ctl, "%s: %s", l->data, err.text) == 0;
	/* The settings come last: without them nobody should start it. */
	ok = ok && write_recovery(l) && give_data(l);
	ok = ok && (files_run(sync_it, &err) ||
		       ctl_fail(l->ctl, "%s", err.text) == 0);
	free(inside);
	free(base);
	return ok;
}

/* Where the state folder is: what the configuration says, not the manifest. */
static char *
state_folder(const struct lay *l)
{
	struct str rest = buf_str(&l->bundle);
	struct bundle_file first;
	struct err err = { 0 };
	struct conf *c;
	char *path, *folder = NULL;

	if (!bundle_next(&rest, &first))
		return NULL;
	path = xasprintf("%s%s", l->root, first.path);
	c = conf_load(path, "posternctl", &err);
	if (c != NULL)
		folder = xasprintf("%s%s", l->root, c->state_dir);
	else
		(void)ctl_fail(l->ctl, "%s", err.text);
	conf_free(c);
	free(path);
	free(first.path);
	return folder;
}

/* One file of the state folder, unless there is a newer one. */
static bool
lay_state_file(const struct lay *l, const char *folder, const char *name,
    const json_t *file)
{
	char *from = xasprintf("%s/" BACKUP_STATE "/%s", l->dir, name);
	char *to = xasprintf("%s/%s", folder, name);
	struct files_meta meta = { .mode =
				       (unsigned)ctl_int(file, "mode") & 0666 };
	struct err err = { 0 };
	bool ok;

	(void)snprintf(
	    meta.owner, FILES_NAME_MAX, "%s", ctl_text(file, "owner"));
	(void)snprintf(
	    meta.group, FILES_NAME_MAX, "%s", ctl_text(file, "group"));
	ok = access(to, F_OK) == 0 || files_copy(from, to, &meta, &err) ||
	     ctl_fail(l->ctl, "%s", err.text) == 0;
	free(to);
	free(from);
	return ok;
}

static bool
lay_state(const struct lay *l)
{
	const json_t *files = json_object_get(l->manifest, "files"), *file;
	char *folder = state_folder(l);
	bool ok = folder != NULL;
	const char *name;
	size_t i;

	json_array_foreach(files, i, file)
	{
		name = ctl_text(file, "name");
		if (strncmp(name, BACKUP_STATE "/", sizeof(BACKUP_STATE)) != 0)
			continue;
		name += sizeof(BACKUP_STATE);
		if (ok && backup_is_state(name))
			ok = lay_state_file(l, folder, name, file);
		else
			ok = ok && ctl_fail(l->ctl, "the manifest names %s",
				       name) == 0;
	}
	free(folder);
	return ok;
}

static void
say_next(const struct lay *l)
{
	(void)printf("The backup of %s is laid out%s%s. Next:\n"
		     "  1. start PostgreSQL and Redis; wait until it leaves "
		     "recovery\n"
		     "  2. posternctl restore-finish --reason TEXT\n"
		     "  3. posternctl maintain\n"
		     "  4. posternctl database verify --superuser postgres\n"
		     "  5. start Postern; look at what is held; resume\n",
	    ctl_text(l->manifest, "made_at"), l->data != NULL ? " in " : "",
	    l->data != NULL ? l->data : "");
}

int
ctl_restore(struct ctl *ctl, const struct ctl_args *args)
{
	const char *root = ctl_option(args, "root");
	struct lay l = { .ctl = ctl,
		.args = args,
		.dir = args->words[0],
		.data = ctl_option(args, "data"),
		.root = root != NULL ? root : "" };
	bool keys = ctl_option(args, "without-keys") == NULL, ok;
	struct err err = { 0 };

	if (!seal_init(&err))
		return ctl_fail(ctl, "%s", err.text);
	if (l.data == NULL && !keys)
		return ctl_misused(
		    ctl, "--data DIR says where the database goes");
	(void)umask(077);
	ok = read_manifest(&l) && check_target(&l) && open_vault(&l);
	ok = ok && check_mac(&l) && check_files(&l);
	ok = ok && (!keys || bundle_fits(ctl, buf_str(&l.bundle), l.root));
	ok = ok && (l.data == NULL || lay_database(&l));
	ok = ok && (!keys || (bundle_write(ctl, buf_str(&l.bundle), l.root) &&
				 lay_state(&l)));
	if (ok)
		say_next(&l);
	buf_wipe(&l.bundle);
	buf_free(&l.bundle);
	secret_wipe(&l.mac);
	buf_free(&l.manifest_text);
	json_decref(l.manifest);
	return ok ? 0 : 1;
}
