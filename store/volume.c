/* SPDX-License-Identifier: ISC */
/*
 * volume.c - does an inbox send more than it used to? Answered from what its
 * limits count anyway (d.quota), so that the way in asks nothing more.
 */
#include <time.h>

#include "base/clock.h"
#include "mail/finding.h"
#include "store/credential.h"

#define DAY_US ((int64_t)24 * 3600 * 1000000)

static int64_t
today(void)
{
	return clock_real_us() / DAY_US;
}

/* Counted from 1, in UTC as the counters are. */
static int
day_of_month(int64_t day)
{
	time_t at = (time_t)(day * (DAY_US / 1000000));
	struct tm tm;

	return gmtime_r(&at, &tm) == NULL ? 1 : tm.tm_mday;
}

void
store_cred_counted(struct store_cred *cred)
{
	cred->used_on = today();
}

void
store_cred_sent(struct store_cred *cred)
{
	int64_t day = today();

	/* A session may see a midnight, and hardly a second one. */
	if (cred->used_on != day) {
		cred->used_day = 0;
		if (day_of_month(day) <= day_of_month(cred->used_on))
			cred->used_month = 0;
		cred->used_on = day;
	}
	cred->used_day++;
	cred->used_month++;
}

bool
store_cred_volume_odd(const struct store_cred *cred)
{
	int64_t day = today();
	int past = cred->used_month - cred->used_day;

	/* Little in this month: it may be a new inbox, which has no past. */
	return cred->used_on == day && past >= FINDING_VOLUME_MIN &&
	       finding_volume_odd(cred->used_day + 1, past,
		   (day_of_month(day) - 1) * (int64_t)24);
}
