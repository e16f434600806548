/* SPDX-License-Identifier: ISC */
/*
 * submit.h - one message on its way into the database, for every door.
 *
 * begin -> feed the bytes as submitted (CRLF, dots unstuffed) -> finish ->
 * outcome. In between: header rules and freezing (decisions D16), MIME
 * limits, limits (D20), sealing (D7), chunks, commit (D29). Memory is bounded
 * whatever the size. `done` runs once, after COMMIT with its result known,
 * or with the reason why nothing was stored; never inside a call.
 *
 *	sub = submit_begin(cred, &env, on_done, on_room, s);
 *	if (!submit_feed(sub, p, n))
 *		stop reading until on_room(s);
 *	submit_finish(sub);
 */
#ifndef STORE_SUBMIT_H
#define STORE_SUBMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/str.h"
#include "base/uuid.h"
#include "mail/envelope.h"

struct store_cred;
struct submit;

enum submit_door {
	SUBMIT_SMTP = 's',
	SUBMIT_REST = 'r',
	SUBMIT_MCP = 'm',
};

struct submit_rcpt {
	struct str address; /* as on the wire between <>, syntax checked */
	char kind; /* 't' to, 'c' cc, 'b' bcc or envelope only */
	unsigned char notify; /* ENVELOPE_... of mail/envelope.h, 0 = none */
};

/* Zero is "none" everywhere. All of it is copied. */
struct submit_envelope {
	enum submit_door door;
	const struct submit_rcpt *rcpt;
	size_t rcpt_count; /* duplicates are folded */
	bool smtputf8; /* the client asked for SMTPUTF8 */
	enum envelope_ret ret;
	bool require_tls; /* no hop without TLS that is checked (RFC 8689) */
	int64_t size; /* as announced; 0 = unknown */
	int64_t send_at, not_after; /* us since 1970 */
	struct str idem_key; /* REST: the Idempotency-Key header */
	const unsigned char *request; /* REST: 32 bytes of request hash, see
		submit_request_hash(); SMTP: NULL, made from the bytes */
	bool duplicate; /* REST: store it even if the same is held */
	struct uuid revises; /* all zero = none */
	struct str labels; /* joined by \n */
	struct str context; /* JSON text, capped by the caller */
	const char *tls; /* protocol for the Received line: "ESMTPSA",
		"HTTPS" */
};

struct submit_outcome {
	enum err_code code; /* 0 = stored */
	char text[200]; /* what was wrong with what was given; "" = none */
	const char *field; /* of the envelope; NULL = none, or not known */
	unsigned wait; /* seconds until it can work, 0 = unknown */

	/* when stored, or found stored before */
	struct uuid message, thread;
	unsigned char digest[32];
	int state; /* enum policy_state: held or approved; replay: any */
	int version, round;
	char reasons[64]; /* "mode,paused" */
	int64_t hold_until; /* us since 1970 */
	bool replay; /* the same Idempotency-Key was answered before */
	bool already_held; /* the same request waits already */
	int64_t size; /* of the frozen bytes */

	/* the tightest limit after this message, for RateLimit headers */
	const char *limit_name; /* "hour", "day", ...; NULL = not asked */
	int64_t limit, limit_left;
	unsigned limit_reset; /* seconds */
};

typedef void submit_done_fn(void *arg, const struct submit_outcome *out);
typedef void submit_room_fn(void *arg);

/*
 * The credential may be freed while the submission runs. `room` may be NULL
 * when the caller never stops.
 */
struct submit *submit_begin(const struct store_cred *cred,
    const struct submit_envelope *env, submit_done_fn *done,
    submit_room_fn *room, void *arg);

/*
 * Give the next bytes; all are taken. False: enough for now, wait for
 * `room`. After a failure the rest is swallowed and true returned.
 */
bool submit_feed(struct submit *sub, const void *p, size_t n);

/* Known by now to fail? The code then, for a door that can stop early. */
enum err_code submit_failed(const struct submit *sub);

/*
 * REST with a body that streams: the request hash, known only at its end.
 * Before submit_finish(), instead of `request` in the envelope.
 */
void submit_set_request(struct submit *sub, const unsigned char request[32]);

/* All bytes are in. `done` will run; the handle dies with it. */
void submit_finish(struct submit *sub);

/*
 * Never call `done`, forget the handle. Before submit_finish() nothing is
 * stored; after it the message is ours and goes on to its COMMIT.
 */
void submit_cancel(struct submit *sub);

/* The id the message will have. */
struct uuid submit_id(const struct submit *sub);

/* The key of repetition that `idem_key` is in the store. */
void submit_key_hash(unsigned char out[32], struct str idem_key);

/*
 * Hash of a REST request for replay checks, keyed with the credential's
 * idem key: BLAKE2b-256 over method, path, type and body, piecewise.
 */
struct submit_hash;
struct submit_hash *submit_hash_new(const struct store_cred *cred,
    const char *method, const char *path, const char *type);
void submit_hash_add(struct submit_hash *h, const void *p, size_t n);
/* Fills `out` and frees. `out` NULL: only free. */
void submit_hash_end(struct submit_hash *h, unsigned char out[32]);

#endif
