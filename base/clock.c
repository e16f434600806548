/* SPDX-License-Identifier: ISC */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

uint64_t
clock_mono_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int64_t
clock_real_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void
clock_rfc3339(char out[CLOCK_RFC3339_MAX], int64_t us)
{
	time_t sec = (time_t)(us / 1000000);
	struct tm tm;
	size_t n;

	(void)gmtime_r(&sec, &tm);
	n = strftime(out, CLOCK_RFC3339_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(out + n, CLOCK_RFC3339_MAX - n, ".%03uZ",
	    (unsigned)(us / 1000 % 1000));
}
