/* SPDX-License-Identifier: ISC */
#include "ctl/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <pwd.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/codec.h"
#include "base/xalloc.h"

#define PG_BIN "/usr/lib/postgresql/15/bin/"

extern char **environ;

static bool
fail(struct err *err, const char *path)
{
	err_set(err, errno, "%s: %s", path, strerror(errno));
	return false;
}

enum files_state
files_folder(const char *path)
{
	enum files_state state = FILES_EMPTY;
	DIR *dir = opendir(path);
	const struct dirent *e;

	if (dir == NULL)
		return errno == ENOENT ? FILES_MISSING : FILES_ERROR;
	while (state == FILES_EMPTY && (e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			state = FILES_FULL;
	}
	(void)closedir(dir);
	return state;
}

bool
files_walk(const char *path, files_entry_fn *entry, void *arg, struct err *err)
{
	/* Of itself no link either: it could be changed for another's. */
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;
	struct stat st;
	bool ok = true;

	if (dir == NULL) {
		(void)fail(err, path);
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	while (ok && (errno = 0, e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		/* One that went meanwhile is not there. */
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			ok = entry(arg, e->d_name, st.st_mode);
		else
			ok = errno == ENOENT || fail(err, path);
	}
	if (ok && errno != 0)
		ok = fail(err, path);
	(void)closedir(dir);
	return ok;
}

/* Names where there are any, else the numbers. */
static void
describe(struct files_meta *meta, const struct stat *st)
{
	const struct passwd *pw = getpwuid(st->st_uid);
	const struct group *gr = getgrgid(st->st_gid);

	meta->mode = (unsigned)st->st_mode & 07777;
	if (pw != NULL)
		(void)snprintf(meta->owner, FILES_NAME_MAX, "%s", pw->pw_name);
	else
		(void)snprintf(
		    meta->owner, FILES_NAME_MAX, "%u", (unsigned)st->st_uid);
	if (gr != NULL)
		(void)snprintf(meta->group, FILES_NAME_MAX, "%s", gr->gr_name);
	else
		(void)snprintf(
		    meta->group, FILES_NAME_MAX, "%u", (unsigned)st->st_gid);
}

bool
files_read(struct buf *out, struct files_meta *meta, const char *path,
    size_t max, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	size_t left;
	ssize_t n = 1;

	if (fd < 0)
		return fail(err, path);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > (off_t)max) {
		err_set(err, EFBIG, "%s: not a file of at most %zu bytes", path,
		    max);
		(void)close(fd);
		return false;
	}
	for (left = max; n > 0 && left > 0; left -= (size_t)n) {
		size_t room = left < 65536 ? left : 65536;

		n = read(fd, buf_reserve(out, room), room);
		if (n > 0)
			out->n += (size_t)n;
	}
	if (n < 0)
		(void)fail(err, path);
	(void)close(fd);
	if (meta != NULL)
		describe(meta, &st);
	return n >= 0;
}

void
files_parents(const char *path)
{
	char *copy = xstrdup(path), *p = copy;

	while ((p = strchr(p + 1, '/')) != NULL) {
		*p = '\0';
		(void)mkdir(copy, 0755);
		*p = '/';
	}
	free(copy);
}

bool
files_sync_folder(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = fd >= 0 && fsync(fd) == 0;

	if (!ok)
		(void)fail(err, path);
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* Root gives a file to whom it belonged, if that name is known here. */
static bool
give(int fd, const struct files_meta *meta)
{
	const struct passwd *pw = getpwnam(meta->owner);
	const struct group *gr = getgrnam(meta->group);

	if (geteuid() == 0 && fchown(fd, pw != NULL ? pw->pw_uid : 0,
				  gr != NULL ? gr->gr_gid : 0) != 0)
		return false;
	return fchmod(fd, (mode_t)meta->mode) == 0;
}

static bool
write_all(int fd, const void *p, size_t n)
{
	const char *at = p;
	ssize_t done;

	for (; n > 0; n -= (size_t)done, at += done) {
		done = write(fd, at, n);
		if (done < 0)
			return false;
	}
	return true;
}

/* The new file, with its folders; -1 with `err`. */
static int
create(const char *path, struct err *err)
{
	int fd;

	files_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		(void)fail(err, path);
	return fd;
}

/* Owner, disk, folder; a file that is not whole goes again. */
static bool
finish(int fd, bool ok, const char *path, const struct files_meta *meta,
    struct err *err)
{
	char *copy = xstrdup(path);

	ok = ok && give(fd, meta) && fsync(fd) == 0;
	if (!ok)
		(void)fail(err, path);
	(void)close(fd);
	ok = ok && files_sync_folder(dirname(copy), err);
	if (!ok)
		(void)unlink(path);
	free(copy);
	return ok;
}

bool
files_write(const char *path, struct str bytes, const struct files_meta *meta,
    struct err *err)
{
	int fd = create(path, err);

	return fd >= 0 &&
	       finish(fd, write_all(fd, bytes.p, bytes.n), path, meta, err);
}

bool
files_copy(const char *from, const char *to, const struct files_meta *meta,
    struct err *err)
{
	int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY),
	    fd = -1;
	struct files_meta same;
	char block[65536];
	struct stat st;
	ssize_t n = 0;

	if (in < 0 || fstat(in, &st) != 0) {
		(void)fail(err, from);
		if (in >= 0)
			(void)close(in);
		return false;
	}
	describe(&same, &st);
	fd = create(to, err);
	while (fd >= 0 && (n = read(in, block, sizeof(block))) > 0) {
		if (!write_all(fd, block, (size_t)n)) {
			n = -1;
			break;
		}
	}
	(void)close(in);
	return fd >= 0 &&
	       finish(fd, n == 0, to, meta != NULL ? meta : &same, err);
}

bool
files_hash(char hex[65], int64_t *size, struct files_meta *meta,
    const char *path, struct err *err)
{
	unsigned char block[65536], hash[32];
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	struct stat st;
	size_t n;
	bool ok;

	*size = 0;
	ok = md != NULL && f != NULL && fstat(fileno(f), &st) == 0 &&
	     EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
	while (ok && (n = fread(block, 1, sizeof(block), f)) > 0) {
		ok = EVP_DigestUpdate(md, block, n) == 1;
		*size += (int64_t)n;
	}
	ok = ok && !ferror(f) && EVP_DigestFinal_ex(md, hash, NULL) == 1;
	if (ok)
		hex_encode(hex, hash, sizeof(hash));
	else
		(void)fail(err, path);
	if (ok && meta != NULL)
		describe(meta, &st);
	if (f != NULL)
		(void)fclose(f);
	EVP_MD_CTX_free(md);
	return ok;
}

/* PostgreSQL's programs of the right version, or whatever PATH has. */
static char *
find_program(const char *name)
{
	char *path = xasprintf(PG_BIN "%s", name);

	if (strncmp(name, "pg_", 3) == 0 && access(path, X_OK) == 0)
		return path;
	free(path);
	return xstrdup(name);
}

/* Start a program; `out_fd` becomes its standard output unless negative. */
static pid_t
start(const char *const *argv, int out_fd, struct err *err)
{
	posix_spawn_file_actions_t actions;
	char *program = find_program(argv[0]), **args;
	size_t n = 0, i;
	pid_t pid = -1;
	int rc;

	while (argv[n] != NULL)
		n++;
	args = xcalloc(n + 1, sizeof(args[0]));
	for (i = 0; i < n; i++)
		args[i] = xstrdup(i == 0 ? program : argv[i]);
	(void)fflush(NULL);
	(void)posix_spawn_file_actions_init(&actions);
	if (out_fd >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	rc = posix_spawnp(&pid, program, &actions, NULL, args, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (rc != 0) {
		err_set(err, rc, "%s: %s", argv[0], strerror(rc));
		pid = -1;
	}
	for (i = 0; i < n; i++)
		free(args[i]);
	free(args);
	free(program);
	return pid;
}

static bool
ended_well(pid_t pid, const char *name, struct err *err)
{
	int status = 0;

	if (pid < 0)
		return false;
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    WEXITSTATUS(status) == 0)
		return true;
	err_set(err, EIO, "%s failed", name);
	return false;
}

bool
files_run(const char *const *argv, struct err *err)
{
	return ended_well(start(argv, -1, err), argv[0], err);
}

bool
files_ask(struct buf *out, const char *const *argv, struct err *err)
{
	int ends[2];
	ssize_t n;
	size_t left;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return fail(err, "pipe");
	pid = start(argv, ends[1], err);
	(void)close(ends[1]);
	for (left = 65536; left > 0; left -= (size_t)n) {
		n = read(ends[0], buf_reserve(out, left), left);
		if (n <= 0)
			break;
		out->n += (size_t)n;
	}
	(void)close(ends[0]);
	return ended_well(pid, argv[0], err);
}
