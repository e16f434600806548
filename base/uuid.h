/* SPDX-License-Identifier: ISC */
/*
 * uuid.h - UUIDv7 inside, `msg_` + 26 base32 characters outside.
 */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct uuid {
	unsigned char b[16];
};

#define UUID_TEXT_MAX 37 /* with the NUL */
#define UUID_ID_MAX 40 /* prefix, 26 characters, NUL */

/* A new id, greater than every one made before in this process. */
struct uuid uuid_v7_new(void);
/* The lowest version 7 id of a millisecond. */
struct uuid uuid_of_ms(int64_t ms);
/* Milliseconds since 1970 in a version 7 id. */
int64_t uuid_time_ms(const struct uuid *u);
bool uuid_eq(const struct uuid *a, const struct uuid *b);
/* Order of the database. */
int uuid_cmp(const struct uuid *a, const struct uuid *b);

/* "msg_01h4..."; `prefix` ends in '_' and has at most 12 bytes. */
void uuid_to_id(
    char out[UUID_ID_MAX], const char *prefix, const struct uuid *u);
/* False unless `s` is exactly `prefix` and a base32 id. */
bool uuid_from_id(struct uuid *u, const char *prefix, struct str s);

/* The form PostgreSQL writes: 8-4-4-4-12 lower hex. */
void uuid_to_text(char out[UUID_TEXT_MAX], const struct uuid *u);
bool uuid_from_text(struct uuid *u, struct str s);

#endif
