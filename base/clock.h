/* SPDX-License-Identifier: ISC */
/*
 * clock.h - time for this process.
 *
 * Timeouts use the monotonic clock. Decisions, due times and expiry use the
 * database's clock and are not made here.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_mono_ms(void);
/* Microseconds since 1970. */
int64_t clock_real_us(void);

#define CLOCK_RFC3339_MAX 32
/* "2026-01-02T03:04:05.678Z" (milliseconds) of a clock_real_us() value. */
void clock_rfc3339(char out[CLOCK_RFC3339_MAX], int64_t us);

#endif
