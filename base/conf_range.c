/* SPDX-License-Identifier: ISC */
#include "base/conf_range.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MINUTE ((int64_t)60 * 1000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static const struct range {
	const char *name;
	size_t offset;
	int64_t min, max; /* ms */
	const char *text;
} ranges[] = {
	{ "hold", offsetof(struct conf, hold), MINUTE, 400 * DAY,
	    "60s to 400d" },
	{ "approve_ttl", offsetof(struct conf, approve_ttl), MINUTE, 400 * DAY,
	    "60s to 400d" },
	{ "body_keep", offsetof(struct conf, body_keep), DAY, 3650 * DAY,
	    "1d to 3650d" },
	{ "metadata_keep", offsetof(struct conf, metadata_keep), 30 * DAY,
	    3650 * DAY, "30d to 3650d" },
	{ "smtp.idle_timeout", offsetof(struct conf, smtp_idle_timeout), 1000,
	    DAY, "1s to 1d" },
	{ "smtp.transaction_timeout",
	    offsetof(struct conf, smtp_transaction_timeout), 1000, DAY,
	    "1s to 1d" },
	{ "admin.undo", offsetof(struct conf, admin_undo), 0, 2 * MINUTE,
	    "0s to 120s" },
	{ "deliver.give_up", offsetof(struct conf, deliver_give_up), 1000,
	    72 * HOUR, "1s to 72h" },
	{ "deliver.delay_notice", offsetof(struct conf, deliver_delay_notice),
	    0, 400 * DAY, "0s to 400d" },
	{ "deliver.lease", offsetof(struct conf, deliver_lease), 1000, HOUR,
	    "1s to 1h" },
};

bool
conf_durations_fit(const struct conf *conf, struct err *err)
{
	size_t i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const struct range *r = &ranges[i];
		int64_t v;

		memcpy(&v, (const char *)conf + r->offset, sizeof(v));
		if (v < r->min || v > r->max) {
			err_set(err, EINVAL, "%s: %s", r->name, r->text);
			return false;
		}
	}
	return true;
}
