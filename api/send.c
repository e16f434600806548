/* SPDX-License-Identifier: ISC */
/*
 * send.c - POST .../messages/send: JSON, or raw MIME with its envelope.
 *
 * Both ways end in one submission (store/submit.h). Until submit_finish() a
 * client that goes away takes its submission with it; from then on it is
 * stored, and only the answer has nobody to go to. A repeated request gets
 * the first answer, so the hash covers method, path, type, envelope header
 * and body.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/draft.h"
#include "api/send.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"
#include "store/draft.h"

#define IDEM_MAX 256
#define SPOOL_WAIT 30 /* seconds */
/* Time to store what is in memory or spooled already. */
#define STORE_MS 60000
#define STORE_BYTES_A_MS 256

struct send {
	struct http_request *req;
	struct submit *sub;
	struct submit_hash *hash; /* raw: until the last byte */
	struct send_bytes bytes; /* JSON: the composed message */
	uint64_t start_ms;
	bool finished;

	struct send_draft draft; /* id all zero: none */
	struct store_draft_op *ending; /* of the draft */
	json_t *answer; /* meanwhile */
};

static void on_stored(void *arg, const struct submit_outcome *out);
static void on_json_room(void *arg);
static void on_raw_room(void *arg);
static void on_raw_data(
    struct http_request *req, const void *p, size_t n, bool last);

static void
send_free(struct send *s)
{
	json_decref(s->answer);
	submit_hash_end(s->hash, NULL);
	send_bytes_free(&s->bytes);
	free(s);
}

static void
on_client_gone(void *arg)
{
	struct send *s = arg;

	submit_cancel(s->sub);
	send_free(s);
}

static void
finish(struct send *s)
{
	if (s->finished)
		return;
	s->finished = true;
	http_request_on_cancel(s->req, NULL, NULL);
	submit_finish(s->sub);
}

static bool
is_idem_key(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= IDEM_MAX &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-._~") == n;
}

struct str
api_idem_key(const struct http_request *req, struct api_fault *fault)
{
	const char *key = http_request_header(req, "idempotency-key");

	if (key == NULL)
		return (struct str){ "", 0 };
	if (!is_idem_key(key))
		api_fault_set(fault, E_VALIDATION_ERROR, "Idempotency-Key",
		    "must be 1 to %d of A-Z a-z 0-9 - . _ ~", IDEM_MAX);
	return str_of(key);
}

/* A path by its inbox, so that aliases and `me` are the same request. */
struct submit_hash *
send_start_hash(const struct http_request *req, const char *path)
{
	const struct store_cred *cred = api_cred(req);
	const char *envelope = http_request_header(req, "x-postern-envelope");
	struct submit_hash *hash;

	hash = submit_hash_new(cred, "POST", path, http_request_type(req));
	if (envelope != NULL)
		submit_hash_add(hash, envelope, strlen(envelope) + 1);
	return hash;
}

static bool
check_rcpt_count(const struct http_request *req,
    const struct submit_envelope *env, struct api_fault *fault)
{
	size_t max = api_of(req)->setup.rcpt_max;
	int own = api_cred(req)->rcpt_max;

	if (own > 0 && (size_t)own < max)
		max = (size_t)own;
	if (env->rcpt_count > max)
		api_fault_set(fault, E_TOO_MANY_RECIPIENTS, "to",
		    "%zu recipients; at most %zu are allowed", env->rcpt_count,
		    max);
	return fault->code == E_NONE;
}

static struct send *
start_send(struct http_request *req, const struct submit_envelope *env,
    submit_room_fn *room)
{
	struct send *s = xcalloc(1, sizeof(*s));

	s->req = req;
	s->start_ms = clock_mono_ms();
	http_request_on_cancel(req, on_client_gone, s);
	s->sub = submit_begin(api_cred(req), env, on_stored, room, s);
	return s;
}

/* JSON. */

/* What was spooled is gone: nothing is stored. */
static void
lose(struct send *s)
{
	struct http_request *req = s->req;

	http_request_on_cancel(req, NULL, NULL);
	submit_cancel(s->sub);
	send_free(s);
	http_fail_retry(req, E_STORAGE_FULL, SPOOL_WAIT,
	    "the attachments cannot be read again");
}

static void
feed_json(struct send *s)
{
	struct str piece;
	bool room = true;

	while (room && submit_failed(s->sub) == E_NONE) {
		if (!send_bytes_next(&s->bytes, &piece)) {
			lose(s);
			return;
		}
		if (piece.n == 0)
			break;
		room = submit_feed(s->sub, piece.p, piece.n);
	}
	if (room)
		finish(s);
}

static void
on_json_room(void *arg)
{
	struct send *s = arg;

	if (!s->finished)
		feed_json(s);
}

static enum submit_door
door_of(const struct http_request *req)
{
	const char *caller = http_request_caller(req);

	return caller != NULL && strcmp(caller, "mcp") == 0 ? SUBMIT_MCP
							    : SUBMIT_REST;
}

static const unsigned char *
request_hash(struct http_request *req, const char *path,
    const struct send_body *spooled, unsigned char made[32])
{
	struct submit_hash *hash;
	const char *body;
	size_t n;

	if (spooled != NULL)
		return send_body_hash(spooled);
	body = http_request_body(req, &n);
	hash = send_start_hash(req, path);
	submit_hash_add(hash, body, n);
	submit_hash_end(hash, made);
	return made;
}

/* [ends the request] */
static void
refuse_root(struct http_request *req, const struct send_draft *draft,
    const struct api_fault *fault)
{
	if (draft != NULL)
		draft_stays_faulty(req, draft, fault);
	else
		api_fault_reply(req, fault);
}

/* With a draft its own key of repetition, whatever the request has. */
static void
send_root(struct http_request *req, json_t *root, const char *path,
    const struct send_draft *draft, const char *own_key)
{
	struct submit_envelope env = {
		.door = door_of(req),
		.tls = "HTTPS",
	};
	struct api_fault fault = { 0 };
	unsigned char made[32];
	struct arena mem = { 0 };
	struct send_bytes bytes = { .body = send_body_of(req) };
	struct send *s;

	env.idem_key = api_idem_key(req, &fault);
	if (own_key != NULL)
		env.idem_key = str_of(own_key);
	send_take_json(&env, &mem, &bytes, root, api_cred(req), &fault);
	if (fault.code == E_NONE && check_rcpt_count(req, &env, &fault)) {
		env.request = request_hash(req, path, bytes.body, made);
		env.size = (int64_t)send_bytes_size(&bytes);
		if (bytes.body != NULL)
			http_request_extend(req,
			    STORE_MS + (unsigned)(env.size / STORE_BYTES_A_MS));
		s = start_send(req, &env, on_json_room);
		s->bytes = bytes;
		if (draft != NULL)
			s->draft = *draft;
		feed_json(s);
	} else {
		send_bytes_free(&bytes);
		refuse_root(req, draft, &fault);
	}
	arena_free(&mem);
}

void
send_document(struct http_request *req, json_t *root, const char *path)
{
	send_root(req, root, path, NULL, NULL);
}

void
send_going(struct http_request *req, json_t *root, const char *path,
    const struct send_draft *draft, const char *key)
{
	send_root(req, root, path, draft, key);
}

static void
send_json(struct http_request *req)
{
	struct api_fault fault = { 0 };
	json_t *root = send_read_json(req, &fault);

	if (root != NULL)
		send_document(req, root, SEND_PATH);
	else
		api_fault_reply(req, &fault);
	json_decref(root);
}

/* Raw. */

static void
on_raw_room(void *arg)
{
	struct send *s = arg;

	if (!s->finished)
		http_request_resume(s->req);
}

struct send *
send_raw_start(struct http_request *req, const char *envelope, int64_t size,
    struct api_fault *fault)
{
	struct submit_envelope env = {
		.door = SUBMIT_REST, .tls = "HTTPS", .size = size
	};
	struct arena mem = { 0 };
	struct send *s = NULL;

	env.idem_key = api_idem_key(req, fault);
	send_take_envelope(&env, &mem, envelope, api_cred(req), fault);
	if (fault->code == E_NONE && check_rcpt_count(req, &env, fault))
		s = start_send(req, &env, on_raw_room);
	arena_free(&mem);
	return s;
}

bool
send_raw_feed(struct send *s, const void *p, size_t n)
{
	if (!submit_feed(s->sub, p, n))
		http_request_pause(s->req);
	if (submit_failed(s->sub) != E_NONE)
		finish(s); /* its outcome says why */
	return !s->finished;
}

void
send_raw_finish(struct send *s, const unsigned char request[32])
{
	submit_set_request(s->sub, request);
	finish(s);
}

void
send_raw_drop(struct send *s)
{
	http_request_on_cancel(s->req, NULL, NULL);
	on_client_gone(s);
}

static void
on_raw_data(struct http_request *req, const void *p, size_t n, bool last)
{
	struct send *s = http_request_mine(req);
	unsigned char request[32];

	if (s->finished)
		return; /* refused already; the answer is on its way */
	if (n > 0) {
		submit_hash_add(s->hash, p, n);
		if (!send_raw_feed(s, p, n))
			return;
	}
	if (last) {
		submit_hash_end(s->hash, request);
		s->hash = NULL;
		send_raw_finish(s, request);
	}
}

static void
send_raw(struct http_request *req)
{
	long long n = http_request_length(req);
	struct api_fault fault = { 0 };
	struct send *s =
	    send_raw_start(req, http_request_header(req, "x-postern-envelope"),
		n > 0 ? n : 0, &fault);

	if (s == NULL) {
		api_fault_reply(req, &fault);
		return;
	}
	s->hash = send_start_hash(req, SEND_PATH);
	http_request_keep(req, s, NULL);
	http_request_stream(req, api_of(req)->setup.size_max, on_raw_data);
}

void
api_op_messages_send(struct http_request *req)
{
	const char *type = http_request_type(req);

	if (http_request_header(req, "content-encoding") != NULL)
		http_fail(req, E_UNSUPPORTED_MEDIA_TYPE,
		    "the body must not be compressed");
	else if (strcmp(type, "application/json") == 0)
		send_read(req, SEND_PATH, send_json);
	else if (strcmp(type, "message/rfc822") == 0)
		send_raw(req);
	else if (strcmp(type, "multipart/form-data") == 0)
		send_form(req, send_json);
	else
		http_fail(req, E_UNSUPPORTED_MEDIA_TYPE, "Content-Type is %s",
		    type[0] != '\0' ? type : "missing");
}

/* The outcome. */

static unsigned
window_seconds(const char *name)
{
	static const struct {
		const char *name;
		unsigned seconds;
	} windows[] = { { "second", 1 }, { "minute", 60 }, { "hour", 3600 },
		{ "day", 86400 }, { "bytes", 86400 }, { "month", 2592000 } };
	size_t i;

	for (i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
		if (strcmp(windows[i].name, name) == 0)
			return windows[i].seconds;
	return 0;
}

void
api_rate_limit(struct http_request *req, const char *window, int64_t limit,
    int64_t left, unsigned reset)
{
	char text[128];

	if (window == NULL)
		return;
	snprintf(text, sizeof(text), "\"%s\";q=%lld;w=%u", window,
	    (long long)limit, window_seconds(window));
	http_reply_header(req, "RateLimit-Policy", text);
	snprintf(text, sizeof(text), "\"%s\";r=%lld;t=%u", window,
	    (long long)left, reset);
	http_reply_header(req, "RateLimit", text);
}

static json_t *
submitted(const struct submit_outcome *out)
{
	char id[UUID_ID_MAX], thread[UUID_ID_MAX], digest[72];
	json_t *doc;

	uuid_to_id(id, "msg_", &out->message);
	uuid_to_id(thread, "thr_", &out->thread);
	api_render_digest(digest, out->digest);
	doc = json_pack("{s:s, s:s, s:s, s:i, s:o, s:s}", "message_id", id,
	    "thread_id", thread, "status", policy_state_name(out->state),
	    "version", out->version, "hold",
	    api_render_hold(out->state, out->reasons, out->hold_until),
	    "digest", digest);
	if (out->already_held)
		json_object_set_new(doc, "already_held", json_true());
	return doc;
}

static void
log_stored(const struct send *s, const struct submit_outcome *out)
{
	const struct store_cred *cred = api_cred(s->req);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &out->message);
	log_info("api.stored", KV("request", http_request_id(s->req)),
	    KV("tenant", cred->tenant), KV("inbox", cred->inbox),
	    KV("message", id), KV("size", out->size),
	    KV("ms", clock_mono_ms() - s->start_ms),
	    KV("replay", out->replay || out->already_held));
}

static void
count(const struct send *s, const struct submit_outcome *out)
{
	if (out->code == E_NONE)
		metrics_observe(M_SUBMIT_SECONDS,
		    (int64_t)(clock_mono_ms() - s->start_ms) * 1000);
}

void
send_refuse(struct http_request *req, const struct submit_outcome *out)
{
	enum err_code code = out->code;
	const char *text = out->text;

	/* What only SMTP has a word for is a message not to be had here. */
	if (error_get(code)->http == 0)
		code = E_MESSAGE_MALFORMED;
	if (text[0] == '\0')
		text = error_get(out->code)->what;
	if (code == E_SENDER_MISMATCH)
		store_denied(api_cred(req), "sender_mismatch", text);
	if (out->wait > 0)
		http_fail_retry(req, code, out->wait, "%s", text);
	else if (out->field != NULL)
		http_fail_field(req, code, out->field, "%s", text);
	else
		http_fail(req, code, "%s", text);
}

static bool
is_draft(const struct send *s)
{
	static const struct uuid none;

	return !uuid_eq(&s->draft.id, &none);
}

/* Where it is not known whether it was stored, a draft goes on being sent. */
static void
refuse_send(struct send *s, const struct submit_outcome *out)
{
	struct http_request *req = s->req;
	struct send_draft draft = s->draft;
	bool stays = is_draft(s) && out->code != E_STORE_UNAVAILABLE;

	send_free(s);
	if (stays)
		draft_stays_after(req, &draft, out);
	else
		send_refuse(req, out);
}

static void
answer(struct send *s)
{
	struct http_request *req = s->req;
	json_t *doc = json_incref(s->answer);

	http_request_on_cancel(req, NULL, NULL);
	send_free(s);
	http_reply_json(req, 202, doc);
}

/* The mail is stored, whatever became of its draft. */
static void
on_draft_ended(void *arg, enum err_code code)
{
	(void)code;
	answer(arg);
}

static void
on_gone_stored(void *arg)
{
	struct send *s = arg;

	store_draft_cancel(s->ending);
	send_free(s);
}

static void
on_stored(void *arg, const struct submit_outcome *out)
{
	struct send *s = arg;

	http_request_on_cancel(s->req, NULL, NULL);
	count(s, out);
	api_rate_limit(s->req, out->limit_name, out->limit, out->limit_left,
	    out->limit_reset);
	if (out->code != E_NONE) {
		refuse_send(s, out);
		return;
	}
	log_stored(s, out);
	if (out->replay)
		http_reply_header(s->req, "Idempotent-Replay", "true");
	s->answer = submitted(out);
	if (!is_draft(s)) {
		answer(s);
		return;
	}
	http_request_on_cancel(s->req, on_gone_stored, s);
	s->ending = store_draft_end(
	    api_cred(s->req), &s->draft.id, &out->message, on_draft_ended, s);
}
