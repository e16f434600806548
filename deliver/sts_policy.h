/* SPDX-License-Identifier: ISC */
/*
 * sts_policy.h - what MTA-STS records and policies say (RFC 8461 3), as a
 * function of bytes.
 */
#ifndef DELIVER_STS_POLICY_H
#define DELIVER_STS_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define STS_ID_MAX 32
#define STS_POLICY_BYTES 65536 /* of one policy */
#define STS_MX_MAX 100 /* patterns of one policy */
#define STS_MX_BYTES 4096 /* of them all: twenty thousand policies are kept */
#define STS_MAX_AGE_S 31557600 /* RFC 8461 3.2 */

enum sts_mode {
	STS_MODE_NONE, /* there was a policy; now there is none */
	STS_MODE_TESTING, /* tell, but deliver */
	STS_MODE_ENFORCE,
};

struct sts_policy {
	enum sts_mode mode;
	long max_age_s;
	char *mx; /* patterns, each ended by NUL; of the policy */
	size_t mx_n;
};

/*
 * The id of a TXT record, whose strings are joined; false when it is no
 * MTA-STS record. `id` stays as it is then.
 */
bool sts_record_parse(char id[STS_ID_MAX + 1], struct str txt);

/* False: not a policy. Free with sts_policy_clear(). */
bool sts_policy_parse(struct sts_policy *policy, struct str text);
void sts_policy_clear(struct sts_policy *policy);

/* Does a pattern name this MX host? RFC 8461 4.1. */
bool sts_policy_names(const struct sts_policy *policy, const char *host);

const char *sts_mode_name(enum sts_mode mode);

#endif
