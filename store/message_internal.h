/* SPDX-License-Identifier: ISC */
/*
 * message_internal.h - what message.c and raw.c share.
 */
#ifndef STORE_MESSAGE_INTERNAL_H
#define STORE_MESSAGE_INTERNAL_H

#include "store/message.h"
#include "store/store_internal.h"

/* Columns M of docs/store-api.md; texts are borrowed from `res`. */
void store_message_read(
    struct store_message *m, const struct pg_result *res, int row);

#endif
