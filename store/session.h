/* SPDX-License-Identifier: ISC */
/*
 * session.h - session keys: one run of something that is not trusted gets a
 * key of its own, with a policy that is closed by default, and a record.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/str.h"

struct store;
struct store_cred;
struct store_session_op; /* any call below that is still open */

/* Never call `done`. NULL is fine. */
void store_session_cancel(struct store_session_op *op);

#define STORE_SESSION_LIST_MAX 100

/* Texts with p == NULL are none. */
struct store_session_new {
	int seconds; /* until it ends; at most a day and the parent's end */
	struct str run, sandbox_id, template_name, purpose;
	const struct str *recipients, *domains;
	size_t recipient_count, domain_count;
	int max_messages;
	bool attachments;
	const char *doors; /* of "srm": SMTP, REST, MCP */
};

/* `key` is wiped when this returns. */
typedef void store_session_new_fn(void *arg, enum err_code code, int64_t id,
    const char *key, int64_t expires_at);
struct store_session_op *store_session_create(const struct store_cred *cred,
    const struct store_session_new *session, store_session_new_fn *done,
    void *arg);

/* `value`: extend: the new end, us since 1970; end: messages taken back. */
typedef void store_session_fn(void *arg, enum err_code code, int64_t value);
struct store_session_op *store_session_extend(const struct store_cred *cred,
    int64_t id, int seconds, store_session_fn *done, void *arg);

struct store_session_end {
	bool keep; /* what is held goes on waiting */
	struct str exit_error;
	int64_t stdout_lines, stderr_lines, payload_length; /* -1: unknown */
};
struct store_session_op *store_session_end(const struct store_cred *cred,
    int64_t id, const struct store_session_end *end, store_session_fn *done,
    void *arg);

/*
 * A sandbox ended or stands still since `at` (us since 1970): its sessions
 * end, whosever they are. `event` names the report; `why` is one word.
 * `value`: sessions ended, -1: this report was heard before.
 */
struct store_session_op *store_sandbox_gone(struct store *st,
    const unsigned char event[32], struct str sandbox, const char *why,
    int64_t at, store_session_fn *done, void *arg);

/* Texts "" and times 0 are none; numbers -1 are unknown. */
struct store_session {
	int64_t id;
	const char *run, *sandbox_id, *template_name, *purpose;
	const char *recipients, *domains; /* joined by \n */
	int max_messages;
	bool attachments;
	const char *doors;
	int sent, refused;
	int64_t started_at, expires_at, ended_at;
	bool dead; /* its key works no more */
	const char *exit_error;
	int64_t stdout_lines, stderr_lines, payload_length;
	const char *counts; /* "1:3,8:2": messages by enum policy_state */
};
/* Rows are borrowed. `id` 0: of the inbox the newest `limit` (at most
 * STORE_SESSION_LIST_MAX), of those that are older than `after` unless 0. */
typedef void store_sessions_fn(
    void *arg, enum err_code code, const struct store_session *s, size_t count);
struct store_session_op *store_sessions(const struct store_cred *cred,
    int64_t id, int64_t after, int limit, store_sessions_fn *done, void *arg);

#endif
