/* SPDX-License-Identifier: ISC */
/*
 * upload.h - chunks of one body on their way into the database (D7).
 *
 * At most 2 chunks of an upload and 32 of a worker are in flight; others wait
 * and make the door stop reading. A chunk whose connection was lost is put
 * again: the same bytes under the same number are the same chunk.
 */
#ifndef STORE_UPLOAD_H
#define STORE_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/str.h"
#include "base/uuid.h"

struct store;
struct upload;

/* Each time a chunk ended, later; look at upload_busy() and _code(). */
typedef void upload_fn(void *arg);

struct upload *upload_new(struct store *st, int64_t tenant, int64_t key,
    struct str proof, const struct uuid *message, upload_fn *moved, void *arg);
/* Copies. */
void upload_put(struct upload *u, uint32_t seq, const void *p, size_t n);
/* Chunks not yet committed. */
unsigned upload_busy(const struct upload *u);
/* Why it failed; E_NONE so far. */
enum err_code upload_code(const struct upload *u);
/* No callback any more. NULL is fine. */
void upload_free(struct upload *u);

#endif
