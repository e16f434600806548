/* SPDX-License-Identifier: ISC */
/* backoff.h - when to try again (decision D21). */
#ifndef DELIVER_BACKOFF_H
#define DELIVER_BACKOFF_H

/*
 * Seconds until the attempt after `attempts` finished ones: 1, 5, 15, 30, 60,
 * 120, 240 minutes, then 240, each 10 % more or less by chance.
 */
int backoff_seconds(int attempts);

#endif
