/* SPDX-License-Identifier: ISC */
/*
 * inbox.h - what an inbox is called, how its mail is labelled, and how much
 * of it there is. Calls are as those of message.h.
 */
#ifndef STORE_INBOX_H
#define STORE_INBOX_H

#include "store/message.h"

struct store_inbox {
	int mode; /* of a change: as it is now */
	int64_t created_at; /* us since 1970 */
	const char *display_name, *metadata; /* "" = none; a JSON object */
	bool one_click; /* recipients get a link to unsubscribe */
};
typedef void store_inbox_fn(
    void *arg, enum err_code code, const struct store_inbox *inbox);
struct store_op *store_inbox_get(
    const struct store_cred *cred, store_inbox_fn *done, void *arg);

struct store_inbox_set {
	int mode; /* becomes stricter; -1 = as it is */
	const char *display_name; /* NULL = as it is */
	const char *metadata; /* merged; "null" = none; NULL = as it is */
};
struct store_op *store_inbox_set(const struct store_cred *cred,
    const struct store_inbox_set *set, store_inbox_fn *done, void *arg);

/* `labels` joined by \n. */
typedef void store_labels_fn(void *arg, enum err_code code, const char *labels);
struct store_op *store_message_label(const struct store_cred *cred,
    const struct uuid *id, const struct str *add, size_t add_count,
    const struct str *away, size_t away_count, store_labels_fn *done,
    void *arg);

struct store_usage {
	const char *day; /* 2026-01-31 */
	int state; /* enum policy_state */
	int64_t messages, recipients, bytes;
	int64_t cut; /* not all: only from then on; 0: all */
};
typedef void store_usage_fn(
    void *arg, enum err_code code, const struct store_usage *u, size_t count);
/* By day (UTC) of submission, oldest first; us since 1970. */
struct store_op *store_usage(const struct store_cred *cred, int64_t since,
    int64_t until, store_usage_fn *done, void *arg);

#endif
