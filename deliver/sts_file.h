/* SPDX-License-Identifier: ISC */
/*
 * sts_file.h - MTA-STS policies that outlive the worker (RFC 8461 10.2): who
 * can make a record and a policy host go away must not gain by a restart.
 *
 * A line is added for each policy that is fetched; the last of a domain counts.
 * The file is a cache: what cannot be read or written is passed over.
 */
#ifndef DELIVER_STS_FILE_H
#define DELIVER_STS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deliver/sts_policy.h"

/* A larger one is not read; so much is never of use (STS_DOMAINS_MAX). */
#define STS_FILE_BYTES 134217728

struct sts_kept {
	struct str domain, id;
	int64_t fetched_s, expires_s; /* since 1970 */
	struct sts_policy policy;
};

/* `kept` is gone after the call; its policy too, unless the callee takes it
 * and clears kept->policy.mx. */
typedef void sts_file_fn(void *arg, struct sts_kept *kept);

/*
 * Each line that holds at `now_s`, in the order they were added. How many lines
 * there are; 0 when there is no file that can be read.
 */
size_t sts_file_load(
    const char *path, int64_t now_s, sts_file_fn *each, void *arg);
/* How many octets the line has; 0, with errno: it was not written. */
size_t sts_file_add(const char *path, const struct sts_kept *kept);

#endif
