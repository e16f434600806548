/* SPDX-License-Identifier: ISC */
/*
 * message.h - an agent looks at its own messages.
 *
 * Every call shows the credential to the database, which answers not_found
 * for ids of others. Rows are borrowed and valid only inside `done`.
 */
#ifndef STORE_MESSAGE_H
#define STORE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/uuid.h"

struct store_cred;
struct store_op; /* any call below that is still open */

/* Never call `done`. NULL is fine. */
void store_op_cancel(struct store_op *op);

/* Texts are NUL-terminated, "" for none; times are us since 1970, 0 none. */
struct store_message {
	struct uuid message, thread;
	int version, round;
	int state; /* enum policy_state */
	unsigned char digest[32];
	const char *mail_from;
	const char *rcpts; /* joined by \n */
	const char *rcpt_kind; /* one letter each: t c b o */
	const char *subject, *header_from;
	const char *labels; /* joined by \n */
	int64_t size;
	int chunks;
	const char *rfc_message_id, *in_reply_to;
	const char *references; /* joined by \n */
	const char *reasons; /* joined by , */
	int64_t hold_until;
	const char *verdict, *category, *note, *hint; /* "" = undecided */
	bool edited;
	int64_t decided_at, send_at, not_after;
	bool test;
	int attachments;
	int64_t key;
	int64_t created_at, updated_at;
	bool doubt; /* it may have been sent, whatever the state says */
	/* of a thread: all of it, more than is listed */
	int64_t total, total_size;
	struct uuid last;
};

struct store_list {
	struct uuid after; /* all zero = from the newest */
	int limit; /* 1-100 */
	const char *states; /* "1,2" or NULL */
	int64_t since, until; /* us since 1970, 0 = open */
	const char *label; /* all of these, joined by \n, or NULL */
};

typedef void store_list_fn(void *arg, enum err_code code,
    const struct store_message *messages, size_t count);
struct store_op *store_message_list(const struct store_cred *cred,
    const struct store_list *query, store_list_fn *done, void *arg);

/* The messages of one thread, oldest first, 100 at most. */
struct store_op *store_thread_messages(const struct store_cred *cred,
    const struct uuid *thread, store_list_fn *done, void *arg);

struct store_thread {
	struct uuid thread, last;
	int64_t messages, size;
	const char *subject; /* of its first message */
	const char *rcpts, *labels; /* of all, joined by \n, repeated */
	int64_t created_at, updated_at;
};
typedef void store_threads_fn(void *arg, enum err_code code,
    const struct store_thread *threads, size_t count);
/* Newest first; `after` is the last message of a thread, or all zero. */
struct store_op *store_threads(const struct store_cred *cred,
    const struct uuid *after, int limit, store_threads_fn *done, void *arg);

typedef void store_message_fn(
    void *arg, enum err_code code, const struct store_message *m);
struct store_op *store_message_get(const struct store_cred *cred,
    const struct uuid *id, store_message_fn *done, void *arg);

struct store_recipient {
	int ix;
	const char *address, *kind;
	int delivery; /* enum policy_delivery */
	int reply_code;
	const char *enhanced, *reply;
	int attempts;
	int64_t next_attempt_at, updated_at;
};
typedef void store_recipients_fn(void *arg, enum err_code code,
    const struct store_recipient *r, size_t count);
struct store_op *store_message_recipients(const struct store_cred *cred,
    const struct uuid *id, store_recipients_fn *done, void *arg);

struct store_event {
	int n;
	const char *type; /* "message.held" */
	int64_t at;
	const char *actor; /* "agent", "operator", "policy", "worker" */
	int state;
	const char *detail;
};
typedef void store_events_fn(
    void *arg, enum err_code code, const struct store_event *e, size_t count);
struct store_op *store_message_events(const struct store_cred *cred,
    const struct uuid *id, store_events_fn *done, void *arg);

/* A delivery status notification (RFC 3464), opened for this answer. */
struct store_report {
	const char *kind; /* "failed", "delayed", "relayed" */
	const char *ix; /* of its recipients: "1,2" */
	int64_t at;
	struct str content; /* p NULL: from before the inbox was reset */
};
typedef void store_reports_fn(
    void *arg, enum err_code code, const struct store_report *r, size_t count);
/* `kek` as store_message_raw() takes it. */
struct store_op *store_message_reports(const struct store_cred *cred,
    const struct uuid *id, const struct secret *kek, store_reports_fn *done,
    void *arg);

/* What mail of a test inbox would have been on the wire. */
struct store_capture {
	int n; /* of the message's, 1.. */
	const char *domain, *rcpts; /* its recipients, '\n' between */
	const char *mail_from; /* the return path */
	int64_t at;
	struct str fields; /* in front of the frozen bytes; may be empty */
};
typedef void store_captures_fn(
    void *arg, enum err_code code, const struct store_capture *c, size_t count);
/* `kek` as store_message_raw() takes it. */
struct store_op *store_message_captures(const struct store_cred *cred,
    const struct uuid *id, const struct secret *kek, store_captures_fn *done,
    void *arg);

/* Code state_conflict: `state` says where the message is. */
typedef void store_state_fn(void *arg, enum err_code code, int state);
struct store_op *store_message_cancel(const struct store_cred *cred,
    const struct uuid *id, store_state_fn *done, void *arg);

/*
 * The frozen bytes, opened with the key that store_token_kek() made from the
 * agent's own key (copied, wiped at the end). `head` runs first, with the
 * message; `data` with each piece, in order, and returns false to pause
 * until store_raw_resume(); `end` runs once, last. With `grant`, mail of the
 * inbox that gave it; of `head`'s message only size and digest are there then.
 * Any code but 0 in `end` means that what was given so far is not the message.
 */
struct store_raw;
struct store_raw_fns {
	void (*head)(void *arg, const struct store_message *m);
	bool (*data)(void *arg, const void *p, size_t n);
	void (*end)(void *arg, enum err_code code);
};
struct store_raw *store_message_raw(const struct store_cred *cred,
    const struct uuid *id, int64_t grant, const struct secret *kek,
    const struct store_raw_fns *fns, void *arg);
void store_raw_resume(struct store_raw *raw);
/* No callback any more. NULL is fine. */
void store_raw_cancel(struct store_raw *raw);

/* Keys of the inbox. */
struct store_key {
	int64_t key;
	char kind, scope;
	const char *label;
	int64_t created_at, expires_at, revoked_at, last_used;
};
typedef void store_keys_fn(
    void *arg, enum err_code code, const struct store_key *k, size_t count);
struct store_op *store_keys(
    const struct store_cred *cred, store_keys_fn *done, void *arg);
struct store_op *store_key_revoke(const struct store_cred *cred, int64_t key,
    store_state_fn *done, void *arg);

/* What remains of the limits, without using any. */
struct store_limit {
	const char *name; /* "hour" */
	unsigned seconds; /* length of the window */
	int64_t limit, left;
	unsigned reset; /* seconds until some of it comes back */
};
typedef void store_limits_fn(
    void *arg, enum err_code code, const struct store_limit *l, size_t count);
struct store_op *store_limits(
    const struct store_cred *cred, store_limits_fn *done, void *arg);

#endif
