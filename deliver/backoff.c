/* SPDX-License-Identifier: ISC */
#include "deliver/backoff.h"

#include <stdint.h>
#include <stdlib.h>

int
backoff_seconds(int attempts)
{
	static const int minutes[] = { 1, 5, 15, 30, 60, 120, 240 };
	const int last = (int)(sizeof(minutes) / sizeof(minutes[0])) - 1;
	int i = attempts < 0 ? 0 : attempts > last ? last : attempts;
	uint32_t span = (uint32_t)minutes[i] * 60 / 5; /* 20 % */

	return minutes[i] * 60 - (int)span / 2 +
	       (int)arc4random_uniform(span + 1);
}
