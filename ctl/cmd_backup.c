/* SPDX-License-Identifier: ISC */
/*
 * backup: a physical copy of the database with its log, configuration and
 * keys under a passphrase, the state folder, and a manifest that names them.
 * The manifest comes last: a folder without it is not a backup.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"
#include "ctl/backup.h"
#include "ctl/bundle.h"
#include "ctl/files.h"
#include "seal/vault.h"

struct backup {
	struct ctl *ctl;
	const struct ctl_args *args;
	const char *dir;
	json_t *files; /* of the manifest */
	struct secret mac; /* its key */
};

/* One more file that the manifest vouches for. */
static bool
vouch(struct backup *b, const char *name)
{
	char *path = xasprintf("%s/%s", b->dir, name), hex[65];
	struct files_meta meta;
	struct err err = { 0 };
	int64_t size;
	bool ok = files_hash(hex, &size, &meta, path, &err) ||
		  ctl_fail(b->ctl, "%s", err.text) == 0;

	if (ok)
		ok = json_array_append_new(b->files,
			 json_pack("{s:s, s:I, s:s, s:s, s:s, s:i}", "name",
			     name, "size", (json_int_t)size, "sha256", hex,
			     "owner", meta.owner, "group", meta.group, "mode",
			     (int)meta.mode)) == 0;
	free(path);
	return ok;
}

/*
 * Of files that PostgreSQL's own manifest leaves out: settings, and the log, of
 * which it knows only from where to where.
 */
static bool
vouch_apart(void *arg, const char *name, mode_t what)
{
	struct backup *b = arg;

	if (!backup_is_apart(name) || S_ISDIR(what))
		return true;
	if (!S_ISREG(what))
		return ctl_fail(b->ctl, "%s/%s is no file", b->dir, name) == 0;
	return vouch(b, name);
}

static bool
copy_database(struct backup *b)
{
	const struct conf *c = b->ctl->conf;
	const char *role = ctl_option(b->args, "superuser");
	char *base = xasprintf("%s/base", b->dir);
	char *where = xasprintf("host=%s port=%ld user=%s%s", c->store_socket,
	    c->store_port, role != NULL ? role : "postgres",
	    *c->store_socket == '/' ? "" : " sslmode=verify-full");
	const char *const copy[] = { "pg_basebackup", "-D", base, "-d", where,
		"-X", "stream", "-c", "fast", "--manifest-checksums=SHA256",
		isatty(2) ? "-P" : NULL, NULL };
	const char *const check[] = { "pg_verifybackup", "-q", base, NULL };
	struct err err = { 0 };
	bool ok;

	ok = (files_run(copy, &err) && files_run(check, &err)) ||
	     ctl_fail(b->ctl, "%s", err.text) == 0;
	free(where);
	free(base);
	return ok && vouch(b, "base/backup_manifest") &&
	       backup_walk(b->ctl, b->dir, vouch_apart, b);
}

static bool
copy_keys(struct backup *b)
{
	static const struct files_meta own = {
		.owner = "root", .group = "root", .mode = 0600
	};
	char *path = xasprintf("%s/" BACKUP_KEYS, b->dir);
	char phrase[SEAL_PASSWORD_MAX + 2];
	struct buf plain = { 0 }, box = { 0 };
	struct err err = { 0 };
	size_t n = 0;
	bool ok;

	ok = ctl_passphrase(b->ctl, b->args, true, phrase, sizeof(phrase)) &&
	     bundle_gather(b->ctl, &plain, &n);
	if (ok)
		ok = (seal_vault_close(&box, &b->mac, str_of(phrase),
			  buf_str(&plain), &err) &&
			 files_write(path, buf_str(&box), &own, &err)) ||
		     ctl_fail(b->ctl, "%s", err.text) == 0;
	explicit_bzero(phrase, sizeof(phrase));
	buf_wipe(&plain);
	buf_free(&plain);
	buf_free(&box);
	free(path);
	if (ok)
		(void)printf("%zu files of configuration and keys\n", n);
	return ok && vouch(b, BACKUP_KEYS);
}

static bool
copy_state_file(struct backup *b, const char *name)
{
	char *from = xasprintf("%s/%s", b->ctl->conf->state_dir, name);
	char *inside = xasprintf(BACKUP_STATE "/%s", name);
	char *to = xasprintf("%s/%s", b->dir, inside);
	struct err err = { 0 };
	bool ok = files_copy(from, to, NULL, &err) ||
		  ctl_fail(b->ctl, "%s", err.text) == 0;

	ok = ok && vouch(b, inside);
	free(to);
	free(inside);
	free(from);
	return ok;
}

/* "l_worker.deployment", and not what is about to become it. */
static bool
is_note(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot != NULL && strcmp(dot, ".deployment") == 0;
}

bool
backup_is_apart(const char *name)
{
	return strncmp(name, "base/pg_wal/", 12) == 0 ||
	       strcmp(name, "base/postgresql.auto.conf") == 0 ||
	       strcmp(name, "base/recovery.signal") == 0 ||
	       strcmp(name, "base/standby.signal") == 0;
}

struct walk {
	const char *folder; /* "base" */
	files_entry_fn *entry;
	void *arg;
};

static bool
with_folder(void *arg, const char *name, mode_t what)
{
	const struct walk *w = arg;
	char *inside = xasprintf("%s/%s", w->folder, name);
	bool ok = w->entry(w->arg, inside, what);

	free(inside);
	return ok;
}

bool
backup_walk(
    const struct ctl *ctl, const char *dir, files_entry_fn *entry, void *arg)
{
	static const char *const folders[] = { "base", "base/pg_wal" };
	struct walk w = { .entry = entry, .arg = arg };
	struct err err = { 0 };
	bool ok = true;
	char *path;
	size_t i;

	for (i = 0; ok && i < sizeof(folders) / sizeof(folders[0]); i++) {
		w.folder = folders[i];
		path = xasprintf("%s/%s", dir, w.folder);
		ok = files_walk(path, with_folder, &w, &err);
		free(path);
	}
	/* Without a text it is the entry that said why. */
	if (err.code != 0)
		(void)ctl_fail(ctl, "%s", err.text);
	return ok;
}

bool
backup_is_state(const char *name)
{
	return strchr(name, '/') == NULL &&
	       (strncmp(name, "audit-heads", 11) == 0 ||
		   strcmp(name, "revoked-keys") == 0 || is_note(name));
}

/* Links are no state: others than root may write there. */
static bool
copy_if_state(void *arg, const char *name, mode_t what)
{
	return !backup_is_state(name) || !S_ISREG(what) ||
	       copy_state_file(arg, name);
}

/* What a backup of the database cannot know; sessions are nobody's. */
static bool
copy_state(struct backup *b)
{
	/* The folder itself may be a link, to another disk. */
	char *path = xasprintf("%s/.", b->ctl->conf->state_dir);
	struct err err = { 0 };
	bool ok = files_walk(path, copy_if_state, b, &err);

	if (err.code != 0)
		(void)ctl_fail(b->ctl, "%s", err.text);
	free(path);
	return ok;
}

/* The first row of a call without arguments; the caller decrefs. */
static json_t *
ask(struct ctl *ctl, const char *function)
{
	const struct manage_arg none[] = { MANAGE_ARG_END };
	json_t *rows = ctl_call(ctl, function, none);
	json_t *row = json_incref(json_array_get(rows, 0));

	if (rows != NULL && row == NULL)
		row = json_object(); /* nothing sealed yet */
	json_decref(rows);
	return row;
}

/* Under the passphrase: who made the manifest, which vouches for the rest? */
static bool
write_mac(struct backup *b, const char *text, struct err *err)
{
	char *path = xasprintf("%s/" BACKUP_MAC, b->dir);
	char hex[2 * SEAL_VAULT_MAC + 2];
	unsigned char mac[SEAL_VAULT_MAC];
	bool ok;

	seal_vault_mac(mac, &b->mac, str_of(text));
	hex_encode(hex, mac, sizeof(mac));
	(void)strcat(hex, "\n");
	ok = ctl_write_private(path, hex, err);
	free(path);
	return ok;
}

static bool
write_manifest(struct backup *b, json_t *ready, json_t *head)
{
	char *path = xasprintf("%s/" BACKUP_MANIFEST, b->dir), at[32];
	struct err err = { 0 };
	time_t now = time(NULL);
	json_t *all;
	char *text;
	bool ok;

	(void)strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	all = json_pack("{s:i, s:s, s:s, s:s, s:s, s:b, s:O, s:O, s:O}",
	    "format", BACKUP_FORMAT, "made_at", at, "program", PACKAGE_VERSION,
	    "conf", b->ctl->conf_path, "state_dir", b->ctl->conf->state_dir,
	    "base", ctl_option(b->args, "keys-only") == NULL, "database", ready,
	    "audit_head", head, "files", b->files);
	text = all != NULL ? json_dumps(all, JSON_INDENT(1)) : NULL;
	BUG_ON(text == NULL);
	ok = (write_mac(b, text, &err) && ctl_write_private(path, text, &err) &&
		 files_sync_folder(b->dir, &err)) ||
	     ctl_fail(b->ctl, "%s", err.text) == 0;
	json_decref(all);
	free(text);
	free(path);
	return ok;
}

static bool
make_folder(struct backup *b)
{
	enum files_state state = files_folder(b->dir);

	if (state == FILES_FULL)
		return ctl_fail(b->ctl,
			   "%s is not empty: each backup has a folder of its "
			   "own",
			   b->dir) == 0;
	if (state == FILES_ERROR ||
	    (state == FILES_MISSING && mkdir(b->dir, 0700) != 0))
		return ctl_fail(b->ctl, "%s: %s", b->dir, strerror(errno)) == 0;
	return true;
}

/* For doctor: when, and where to. The backup is whole without it. */
static void
note_backup(const struct backup *b)
{
	char *path = xasprintf("%s/" BACKUP_LAST, b->ctl->conf->state_dir);
	char *text = xasprintf("%s\n", b->dir);
	struct err err = { 0 };

	if (!ctl_write_private(path, text, &err))
		(void)ctl_fail(b->ctl,
		    "%s; doctor will not know of this backup", err.text);
	free(text);
	free(path);
}

int
ctl_backup(struct ctl *ctl, const struct ctl_args *args)
{
	struct backup b = { .ctl = ctl,
		.args = args,
		.dir = args->words[0],
		.files = json_array() };
	json_t *ready, *head = NULL;
	bool ok;

	(void)umask(077);
	ready = ask(ctl, "ready_1");
	if (ready != NULL)
		head = ask(ctl, "seal_head_1");
	/* Before anything long: is there a passphrase, and every key? */
	ok = head != NULL && make_folder(&b) && copy_keys(&b);
	ok = ok && (ctl_option(args, "keys-only") != NULL || copy_database(&b));
	/* Last, so that it knows of nothing less than the copy does. */
	ok = ok && copy_state(&b) && write_manifest(&b, ready, head);
	secret_wipe(&b.mac);
	json_decref(ready);
	json_decref(head);
	json_decref(b.files);
	if (ok) {
		note_backup(&b);
		(void)printf(
		    "%s is complete; keep the passphrase elsewhere\n", b.dir);
	}
	return ok ? 0 : 1;
}
