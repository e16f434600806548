/* SPDX-License-Identifier: ISC */
/*
 * bundle.h - configuration and key files as one run of bytes, for the vault
 * of a backup: for each file lp(path) lp(owner) lp(group) u32 mode lp(bytes).
 */
#ifndef CTL_BUNDLE_H
#define CTL_BUNDLE_H

#include "base/buf.h"
#include "ctl/ctl.h"
#include "ctl/files.h"

#define BUNDLE_FILE_MAX (256 * 1024) /* bytes of one file */
#define BUNDLE_FILES_MAX 256

struct bundle_file {
	char *path; /* the caller frees */
	struct files_meta meta;
	struct str bytes; /* borrowed from the bundle */
};

/*
 * The configuration, every file beside a key file, and the other secrets and
 * certificates that options name. False, reported.
 */
MUST_CHECK bool bundle_gather(struct ctl *ctl, struct buf *out, size_t *count);
/*
 * The next file of `rest`; false at its end, or when it is damaged or names a
 * path that is not absolute or has a ".." in it.
 */
MUST_CHECK bool bundle_next(struct str *rest, struct bundle_file *file);
/*
 * Which files would be written below `root`? A file that is there with other
 * bytes is reported and makes it false; nothing is written.
 */
MUST_CHECK bool bundle_fits(
    const struct ctl *ctl, struct str bundle, const char *root);
/* Write what is missing. False, reported. */
MUST_CHECK bool bundle_write(
    const struct ctl *ctl, struct str bundle, const char *root);

#endif
