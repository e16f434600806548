/* SPDX-License-Identifier: ISC */
#include "ctl/bundle.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"

struct paths {
	char *of[BUNDLE_FILES_MAX];
	size_t n;
};

/* Remember a regular file, once. */
static void
add_path(struct paths *paths, const char *path)
{
	struct stat st;
	size_t i;

	if (*path == '\0' || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	for (i = 0; i < paths->n; i++) {
		if (strcmp(paths->of[i], path) == 0)
			return;
	}
	if (paths->n < BUNDLE_FILES_MAX)
		paths->of[paths->n++] = xstrdup(path);
}

/* All files in the folder of a key file. */
static void
add_folder_of(struct paths *paths, const char *path)
{
	char *copy = xstrdup(path);
	const char *folder = dirname(copy);
	const struct dirent *e;
	DIR *dir = *path != '\0' ? opendir(folder) : NULL;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char *file = xasprintf("%s/%s", folder, e->d_name);

		add_path(paths, file);
		free(file);
	}
	if (dir != NULL)
		(void)closedir(dir);
	free(copy);
}

static bool
add_of_program(struct ctl *ctl, struct paths *paths, const char *program)
{
	struct err err = { 0 };
	struct conf *c = conf_load(ctl->conf_path, program, &err);

	if (c == NULL)
		return ctl_fail(ctl, "%s", err.text) == 0;
	add_folder_of(paths, c->keys_review_key_file);
	add_folder_of(paths, c->keys_review_pub_file);
	add_folder_of(paths, c->keys_relay_key_file);
	add_folder_of(paths, c->keys_relay_pub_file);
	add_folder_of(paths, c->keys_approve_key_file);
	add_folder_of(paths, c->keys_policy_key_file);
	add_folder_of(paths, c->keys_secrets_key_file);
	add_folder_of(paths, c->keys_seal_key_file);
	add_folder_of(paths, c->keys_auth_key_file);
	add_folder_of(paths, c->keys_auth_pub_file);
	add_folder_of(paths, c->keys_identity_key_file);
	add_folder_of(paths, c->keys_identity_pub_file);
	add_folder_of(paths, c->keys_bounce_key_file);
	add_folder_of(paths, c->keys_deployment_file);
	add_path(paths, c->redis_password_file);
	add_path(paths, c->deliver_smarthost_password_file);
	add_path(paths, c->deliver_smarthost_ca_file);
	add_path(paths, c->tls_cert_file);
	add_path(paths, c->tls_key_file);
	conf_free(c);
	return true;
}

static bool
add_file(const struct ctl *ctl, struct buf *out, const char *path)
{
	struct files_meta meta;
	struct buf bytes = { 0 };
	struct err err = { 0 };
	bool ok = files_read(&bytes, &meta, path, BUNDLE_FILE_MAX, &err);

	if (ok) {
		buf_lp(out, path, strlen(path));
		buf_lp(out, meta.owner, strlen(meta.owner));
		buf_lp(out, meta.group, strlen(meta.group));
		buf_u32(out, meta.mode);
		buf_lp(out, bytes.p, bytes.n);
	} else {
		(void)ctl_fail(ctl, "%s", err.text);
	}
	buf_wipe(&bytes);
	buf_free(&bytes);
	return ok;
}

bool
bundle_gather(struct ctl *ctl, struct buf *out, size_t *count)
{
	static const char *const programs[] = { "posternd", "postern-admin",
		"postern-deliver", "postern-auth", "posternctl" };
	struct paths paths = { .n = 0 };
	bool ok = true;
	size_t i;

	add_path(&paths, ctl->conf_path);
	for (i = 0; ok && i < sizeof(programs) / sizeof(programs[0]); i++)
		ok = add_of_program(ctl, &paths, programs[i]);
	if (ok && paths.n == BUNDLE_FILES_MAX)
		ok = ctl_fail(ctl, "more than %d files beside the keys",
			 BUNDLE_FILES_MAX - 1) == 0;
	for (i = 0; ok && i < paths.n; i++)
		ok = add_file(ctl, out, paths.of[i]);
	*count = paths.n;
	for (i = 0; i < paths.n; i++)
		free(paths.of[i]);
	return ok;
}

static bool
take_u32(struct str *rest, uint32_t *v)
{
	const unsigned char *p = (const unsigned char *)rest->p;

	if (rest->n < 4)
		return false;
	*v = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
	     p[3];
	rest->p += 4;
	rest->n -= 4;
	return true;
}

static bool
take(struct str *rest, struct str *out, size_t max)
{
	uint32_t n;

	if (!take_u32(rest, &n) || n > rest->n || n > max)
		return false;
	*out = (struct str){ rest->p, n };
	rest->p += n;
	rest->n -= n;
	return true;
}

/* An absolute path of a file, and no way around: no "..", no NUL. */
static bool
is_sound(struct str path)
{
	const char *p = path.p, *end = path.p + path.n, *slash;

	if (path.n == 0 || *p != '/' || end[-1] == '/' ||
	    memchr(p, '\0', path.n) != NULL)
		return false;
	for (; p < end; p = slash) {
		p++;
		slash = memchr(p, '/', (size_t)(end - p));
		if (slash == NULL)
			slash = end;
		if (slash - p == 2 && p[0] == '.' && p[1] == '.')
			return false;
	}
	return true;
}

bool
bundle_next(struct str *rest, struct bundle_file *file)
{
	struct str path, owner, group;

	*file = (struct bundle_file){ .path = NULL };
	if (!take(rest, &path, 4096) || !is_sound(path) ||
	    !take(rest, &owner, FILES_NAME_MAX - 1) ||
	    !take(rest, &group, FILES_NAME_MAX - 1) ||
	    !take_u32(rest, &file->meta.mode) ||
	    !take(rest, &file->bytes, BUNDLE_FILE_MAX))
		return false;
	memcpy(file->meta.owner, owner.p, owner.n);
	memcpy(file->meta.group, group.p, group.n);
	file->meta.mode &= 0777;
	file->path = str_dup(path);
	return true;
}

/* 0 = not there, 1 = there and the same, -1 = there and another. */
static int
compare(const char *path, struct str bytes)
{
	struct buf now = { 0 };
	int same;

	if (access(path, F_OK) != 0)
		return 0;
	same = files_read(&now, NULL, path, BUNDLE_FILE_MAX, NULL) &&
		       str_eq(buf_str(&now), bytes)
		   ? 1
		   : -1;
	buf_wipe(&now);
	buf_free(&now);
	return same;
}

bool
bundle_fits(const struct ctl *ctl, struct str bundle, const char *root)
{
	struct bundle_file file;
	bool ok = true;
	char *path;

	while (bundle_next(&bundle, &file)) {
		path = xasprintf("%s%s", root, file.path);
		if (compare(path, file.bytes) < 0)
			ok = ctl_fail(ctl,
				 "%s is there with other bytes: move it "
				 "away, or restore with --root DIR",
				 path) == 0;
		free(path);
		free(file.path);
	}
	return ok && (bundle.n == 0 ||
			 ctl_fail(ctl, "the files in it are damaged") == 0);
}

bool
bundle_write(const struct ctl *ctl, struct str bundle, const char *root)
{
	struct bundle_file file;
	struct err err = { 0 };
	bool ok = true;
	char *path;

	while (ok && bundle_next(&bundle, &file)) {
		path = xasprintf("%s%s", root, file.path);
		if (compare(path, file.bytes) == 0)
			ok = files_write(path, file.bytes, &file.meta, &err) ||
			     ctl_fail(ctl, "%s", err.text) == 0;
		free(path);
		free(file.path);
	}
	return ok;
}
