/* SPDX-License-Identifier: ISC */
/*
 * files.h - files and programs beside the database: what backup, restore and
 * init read, write and run.
 */
#ifndef CTL_FILES_H
#define CTL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define FILES_NAME_MAX 64

/* Whose a file is, by name: the numbers differ on another host. */
struct files_meta {
	char owner[FILES_NAME_MAX], group[FILES_NAME_MAX];
	unsigned mode; /* permission bits */
};

enum files_state {
	FILES_ERROR, /* errno says why */
	FILES_MISSING,
	FILES_EMPTY,
	FILES_FULL,
};

/* A folder: is it there, and is something in it? */
enum files_state files_folder(const char *path);
/*
 * Each entry of a folder but "." and "..", in no order, and what it is: a
 * symbolic link is one, whatever it leads to. Ends with the first false, which
 * is returned; a folder that cannot be read is false, with `err`.
 */
typedef bool files_entry_fn(void *arg, const char *name, mode_t what);
MUST_CHECK bool files_walk(
    const char *path, files_entry_fn *entry, void *arg, struct err *err);
/* Append a regular file of at most `max` bytes; `meta` may be NULL. */
MUST_CHECK bool files_read(struct buf *out, struct files_meta *meta,
    const char *path, size_t max, struct err *err);
/* A new file, flushed; its folders are made. Owners only when root. */
MUST_CHECK bool files_write(const char *path, struct str bytes,
    const struct files_meta *meta, struct err *err);
/* The same of any size; without `meta` it is as the first file's is. `from`
 * is no link. */
MUST_CHECK bool files_copy(const char *from, const char *to,
    const struct files_meta *meta, struct err *err);
/* SHA-256 as 64 hex characters and a NUL; `meta` may be NULL. No links. */
MUST_CHECK bool files_hash(char hex[65], int64_t *size, struct files_meta *meta,
    const char *path, struct err *err);
/* All folders above `path`, mode 0755. */
void files_parents(const char *path);
/* Flush a folder's entries. */
MUST_CHECK bool files_sync_folder(const char *path, struct err *err);

/*
 * Run a program to its end, with this one's output; argv ends with NULL.
 * PostgreSQL's own are also looked for where Debian keeps them.
 */
MUST_CHECK bool files_run(const char *const *argv, struct err *err);
/* The same; its standard output, up to 64 KiB, is appended to `out`. */
MUST_CHECK bool files_ask(
    struct buf *out, const char *const *argv, struct err *err);

#endif
