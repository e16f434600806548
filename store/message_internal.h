/* SPDX-License-Identifier: ISC */
/*
 * message_internal.h - what message.c and raw.c share.
 */
#ifndef STORE_MESSAGE_INTERNAL_H
#define STORE_MESSAGE_INTERNAL_H

#include "store/entry.h"
#include "store/grant.h"
#include "store/inbox.h"
#include "store/message.h"
#include "store/store_internal.h"

typedef void store_tell_fn(
    struct store_op *op, enum err_code code, const struct pg_result *res);

struct store_op {
	struct pg_req *req;
	struct limit_op *peek;
	store_tell_fn *tell;
	union {
		store_list_fn *list;
		store_message_fn *message;
		store_recipients_fn *recipients;
		store_events_fn *events;
		store_reports_fn *reports;
		store_captures_fn *captures;
		store_state_fn *state;
		store_keys_fn *keys;
		store_limits_fn *limits;
		store_threads_fn *threads;
		store_inbox_fn *inbox;
		store_usage_fn *usage;
		store_labels_fn *labels;
		store_entries_fn *entries;
		store_block_fn *block;
		store_grants_fn *grants;
		store_granted_fn *granted;
	} done;
	struct secret kek; /* for reports */
	void *arg;
};

/* Ask; `tell` gives the rows to op->done, which the caller sets. */
struct store_op *store_op_ask(const struct store_cred *cred, const char *sql,
    struct pg_args *args, store_tell_fn *tell, void *arg);

/* Columns M of docs/store-api.md; texts are borrowed from `res`. */
void store_message_read(
    struct store_message *m, const struct pg_result *res, int row);

#endif
