/* SPDX-License-Identifier: ISC */
/* heads.c - heads of the audit log, outside the database. */
#include "ctl/heads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/xalloc.h"

#define TAIL 1024 /* bytes; more than a line has */

static char *
heads_path(const struct ctl *ctl)
{
	return xasprintf("%s/" HEADS_FILE, ctl->conf->state_dir);
}

bool
heads_append(const struct ctl *ctl, const struct audit_head *head,
    const unsigned char signature[SEAL_SIGNATURE_LEN])
{
	char hash[2 * SEAL_HASH_LEN + 1], sig[2 * SEAL_SIGNATURE_LEN + 1];
	char *path = heads_path(ctl), *line;
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
	bool ok;

	hex_encode(hash, head->hash, SEAL_HASH_LEN);
	hex_encode(sig, signature, SEAL_SIGNATURE_LEN);
	line = xasprintf("%llu %llu %lld %lld %lld %s %s\n",
	    (unsigned long long)head->block, (unsigned long long)head->rows,
	    (long long)head->gen, (long long)head->xid, (long long)head->n,
	    hash, sig);
	ok = fd >= 0 &&
	     write(fd, line, strlen(line)) == (ssize_t)strlen(line) &&
	     fsync(fd) == 0;
	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	free(line);
	free(path);
	return ok;
}

/* What stands behind the last whole line is cut off; then `end` is what the
 * file ends with, `n` bytes. */
static bool
cut_part(int fd, char end[TAIL], size_t *n)
{
	struct stat st;
	const char *last;

	do {
		if (fstat(fd, &st) != 0)
			return false;
		*n = st.st_size < TAIL ? (size_t)st.st_size : TAIL;
		if (pread(fd, end, *n, st.st_size - (off_t)*n) != (ssize_t)*n)
			return false;
		if (*n == 0 || end[*n - 1] == '\n')
			return true;
		last = memrchr(end, '\n', *n);
		st.st_size -= last != NULL ? end + *n - 1 - last : (off_t)*n;
	} while (ftruncate(fd, st.st_size) == 0 && fsync(fd) == 0);
	return false;
}

/* The block of the last line, 0 if there is none. */
static bool
last_known(int fd, unsigned long long *block)
{
	char end[TAIL];
	const char *line;
	size_t n;

	*block = 0;
	if (!cut_part(fd, end, &n))
		return false;
	if (n == 0)
		return true;
	end[n - 1] = '\0';
	line = memrchr(end, '\n', n - 1);
	*block = strtoull(line != NULL ? line + 1 : end, NULL, 10);
	return true;
}

/* The head of the last block, as the database has it. */
static bool
append_last(
    struct ctl *ctl, const struct audit_head *last, const unsigned char pub[32])
{
	const struct manage_arg args[] = { MANAGE_ARG_I64((int64_t)last->block),
		MANAGE_ARG_I32(1), MANAGE_ARG_END };
	json_t *blocks = ctl_call(ctl, "audit_blocks_1", args);
	const json_t *row = json_array_get(blocks, 0);
	struct audit_head head = *last;
	unsigned char sig[SEAL_SIGNATURE_LEN];
	bool ok = blocks != NULL;

	head.rows = (uint64_t)ctl_int(row, "rows"); /* of this block alone */
	if (ok && ctl_bytes(row, "signature", sig, sizeof(sig)) &&
	    seal_audit_verify((struct str){ (const char *)sig, sizeof(sig) },
		pub, head.block, head.hash, head.rows))
		ok = heads_append(ctl, &head, sig);
	json_decref(blocks);
	return ok;
}

bool
heads_mend(
    struct ctl *ctl, const struct audit_head *last, const unsigned char pub[32])
{
	char *path = heads_path(ctl);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned long long known = 0;
	bool ok = fd >= 0 ? last_known(fd, &known) : errno == ENOENT;

	if (!ok)
		(void)ctl_fail(ctl, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	free(path);
	return ok && (known + 1 != last->block || append_last(ctl, last, pub));
}
