/* SPDX-License-Identifier: ISC */
/*
 * send_body.c - JSON with attachments, of any size, in bounded memory.
 *
 * The header of a mail comes before its attachments, the members of JSON in
 * any order: so the decoded contents wait in an encrypted spool until the rest
 * of the document is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/send_body.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/request.h"

#define RETRY 30 /* seconds */

static void
body_free(void *arg)
{
	struct send_body *b = arg;

	TAILQ_REMOVE(&b->api->bodies, b, link);
	submit_hash_end(b->hash, NULL);
	spool_free(b->spool);
	send_form_free(b->form);
	json_decref(b->files);
	http_cut_free(&b->cut);
	free(b);
}

/* May `n` more bytes wait on the disk? */
static bool
is_room(const struct send_body *mine, size_t n)
{
	uint64_t all = n, own = n, max = mine->api->setup.spool_max;
	const struct send_body *b;

	TAILQ_FOREACH(b, &mine->api->bodies, link) {
		all += spool_size(b->spool);
		if (b->tenant == mine->tenant && b->inbox == mine->inbox)
			own += spool_size(b->spool);
	}
	return all <= max && own <= max / 2;
}

static bool
on_content(void *arg, const void *p, size_t n)
{
	struct send_body *b = arg;
	struct err err = { 0 };

	if (!is_room(b, n)) {
		log_warn("limit.reached", KV("why", "spool_max"));
		return false;
	}
	if (spool_put(b->spool, p, n, &err))
		return true;
	log_error("daemon.failed", KV("why", err.text));
	return false;
}

static void
on_data(struct http_request *req, const void *p, size_t n, bool last)
{
	struct send_body *b = http_request_mine(req);

	if (b->over)
		return;
	submit_hash_add(b->hash, p, n);
	if (http_cut_feed(&b->cut, p, n)) {
		if (last) {
			submit_hash_end(b->hash, b->request);
			b->hash = NULL;
			b->done(req);
		}
		return;
	}
	send_body_refuse(req, b);
}

void
send_body_refuse(struct http_request *req, struct send_body *b)
{
	b->over = true;
	if (b->cut.too_large)
		http_fail(req, E_PAYLOAD_TOO_LARGE,
		    "without the contents of attachments the body is larger "
		    "than %zu bytes",
		    b->api->setup.json_max);
	else
		http_fail_retry(req, E_STORAGE_FULL, RETRY,
		    "there is no room for the attachments now");
}

struct send_body *
send_body_new(struct http_request *req, const char *path, http_handler_fn *done)
{
	struct api *api = api_of(req);
	char token[HTTP_CUT_TOKEN + 1];
	struct err err = { 0 };
	struct secret random;
	struct spool *spool;
	struct send_body *b;

	spool = spool_new(api->setup.spool_dir, &err);
	if (spool == NULL) {
		log_error("daemon.failed", KV("why", err.text));
		http_fail_retry(req, E_STORAGE_FULL, RETRY,
		    "there is no room for attachments now");
		return NULL;
	}
	b = xcalloc(1, sizeof(*b));
	b->api = api;
	b->tenant = api_cred(req)->tenant;
	b->inbox = api_cred(req)->inbox;
	b->spool = spool;
	b->hash = send_start_hash(req, path);
	b->done = done;
	secret_random(&random, HTTP_CUT_TOKEN / 2);
	hex_encode(token, random.b, HTTP_CUT_TOKEN / 2);
	secret_wipe(&random);
	http_cut_init(&b->cut, token, api->setup.json_max, on_content, b);
	TAILQ_INSERT_TAIL(&api->bodies, b, link);
	http_request_keep(req, b, body_free);
	return b;
}

static void
stream(struct http_request *req, const char *path, http_handler_fn *done)
{
	if (send_body_new(req, path, done) != NULL)
		http_request_stream(req, api_of(req)->setup.size_max, on_data);
}

void
send_read(struct http_request *req, const char *path, http_handler_fn *done)
{
	size_t small = api_of(req)->setup.json_max;
	long long n = http_request_length(req);

	if (n >= 0 && (unsigned long long)n <= small)
		http_request_read(req, small, done);
	else
		stream(req, path, done);
}

void
send_message_path(
    char out[SEND_PATH_MAX], const struct uuid *id, const char *end)
{
	char name[UUID_ID_MAX];

	uuid_to_id(name, "msg_", id);
	snprintf(out, SEND_PATH_MAX, "/v1/messages/%s%s", name, end);
}

void
send_read_about(
    struct http_request *req, const char *end, http_handler_fn *done)
{
	char path[SEND_PATH_MAX];
	struct uuid id;

	if (strcmp(http_request_type(req), "application/json") != 0) {
		http_fail(req, E_UNSUPPORTED_MEDIA_TYPE, "Content-Type is %s",
		    http_request_type(req));
	} else if (api_message_id(req, &id)) {
		send_message_path(path, &id, end);
		send_read(req, path, done);
	}
}

struct send_body *
send_body_of(const struct http_request *req)
{
	return http_request_mine(req);
}

/* What came as parts of a form belongs to the document's attachments. */
static void
add_files(json_t *root, const struct send_body *b, struct api_fault *fault)
{
	json_t *list = json_object_get(root, "attachments");

	if (json_array_size(b->files) == 0)
		return;
	if (list == NULL || json_is_null(list))
		json_object_set(root, "attachments", b->files);
	else if (json_array_extend(list, b->files) != 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "attachments",
		    "must be an array");
}

json_t *
send_read_json(struct http_request *req, struct api_fault *fault)
{
	const struct send_body *b = send_body_of(req);
	const char *body;
	json_t *root;
	size_t n;

	if (b != NULL) {
		root = api_json_object(
		    (const char *)b->cut.rest.p, b->cut.rest.n, fault);
		if (root != NULL)
			add_files(root, b, fault);
		return root;
	}
	body = http_request_body(req, &n);
	return api_json_object(body, n, fault);
}

const unsigned char *
send_body_hash(const struct send_body *body)
{
	return body->request;
}

const struct http_cut_part *
send_body_part(const struct send_body *body, struct str text)
{
	return http_cut_find(&body->cut, text);
}

/* The composed message. */

uint64_t
send_bytes_size(const struct send_bytes *b)
{
	uint64_t n = b->buf.n;
	size_t i;

	for (i = 0; i < b->hole_count; i++)
		n += compose_lines_size(b->part[b->hole[i].attachment]->n);
	return n;
}

/* From the part at `hole_at`; false when it has no more, or cannot. */
static bool
from_part(struct send_bytes *b, struct str *piece, bool *failed)
{
	const struct http_cut_part *part =
	    b->part[b->hole[b->hole_at].attachment];
	uint64_t left = part->n - b->inside;
	size_t n = left < SEND_BODY_PIECE ? (size_t)left : SEND_BODY_PIECE;
	struct err err = { 0 };

	if (n == 0)
		return false;
	if (!spool_get(
		b->body->spool, part->at + b->inside, b->body->work, n, &err)) {
		log_error("daemon.failed", KV("why", err.text));
		*failed = true;
		return false;
	}
	buf_clear(&b->lines);
	transfer_base64_lines(
	    &b->lines, (struct str){ (const char *)b->body->work, n });
	b->inside += n;
	*piece = buf_str(&b->lines);
	return true;
}

bool
send_bytes_next(struct send_bytes *b, struct str *piece)
{
	size_t until, n;
	bool failed = false;

	for (;;) {
		until = b->hole_at < b->hole_count ? b->hole[b->hole_at].at
						   : b->buf.n;
		n = until - b->at;
		if (n > SEND_BODY_PIECE)
			n = SEND_BODY_PIECE;
		if (n > 0 || b->hole_at == b->hole_count) {
			*piece =
			    (struct str){ (const char *)b->buf.p + b->at, n };
			b->at += n;
			return true;
		}
		if (from_part(b, piece, &failed))
			return true;
		if (failed)
			return false;
		b->hole_at++;
		b->inside = 0;
	}
}

void
send_bytes_free(struct send_bytes *b)
{
	buf_wipe(&b->buf);
	buf_free(&b->buf);
	buf_wipe(&b->lines);
	buf_free(&b->lines);
	free(b->hole);
	free(b->part);
}
