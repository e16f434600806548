/* SPDX-License-Identifier: ISC */
/*
 * archive.h - what is in an archive, by names only
 *
 * Memory in, memory out; nothing is unpacked to anywhere. The report is lines:
 *
 *	E path		an entry
 *	S encrypted	some entry, or the list itself, is encrypted
 *	S unreadable	it is no archive, or is broken from some place on
 */
#ifndef DECODE_ARCHIVE_H
#define DECODE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>

/* What has to be done while files can still be opened. */
void archive_prepare(void);
/*
 * Writes at most `cap` bytes to `out`; returns how many. `more`: the bytes
 * are only the start. `cut` is set when not all entries are listed.
 */
size_t archive_report(unsigned char *out, size_t cap, const void *bytes,
    size_t n, bool more, bool *cut);

#endif
