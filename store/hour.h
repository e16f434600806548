/* SPDX-License-Identifier: ISC */
/*
 * hour.h - this worker's hour keys, one per inbox (decision D7).
 */
#ifndef STORE_HOUR_H
#define STORE_HOUR_H

#include "seal/body.h"

struct hours;
struct store_cred;

struct hours *hours_new(void);
/* Wipes. NULL is fine. */
void hours_free(struct hours *h);
/* The key of this hour; copy what is needed, wipe the copy. */
void hours_get(
    struct hours *h, const struct store_cred *cred, struct seal_hour *out);

#endif
