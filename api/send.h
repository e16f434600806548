/* SPDX-License-Identifier: ISC */
/*
 * send.h - parts of POST .../messages/send.
 */
#ifndef API_SEND_H
#define API_SEND_H

#include <jansson.h>

#include "api/internal.h"
#include "base/arena.h"
#include "base/buf.h"
#include "mail/compose.h"
#include "store/submit.h"

struct http_cut_part;

#define SEND_LABELS_MAX 20
#define SEND_LABEL_MAX 64
#define SEND_CONTEXT_MAX 1000
#define SEND_ADDRESS_MAX 1000 /* with a display name */

/* A list of texts, views into the request's JSON. */
struct send_list {
	struct str *v;
	size_t n;
};

/* "a@b" or ["a@b", ...]. */
void send_take_list(struct send_list *list, struct arena *mem, json_t *root,
    const char *name, size_t max, struct api_fault *fault);

/* Labels as SEND_LABEL_MAX has them. */
void send_take_labels(struct send_list *list, struct arena *mem, json_t *root,
    const char *name, struct api_fault *fault);

/* Members that JSON requests and X-Postern-Envelope have in common. */
void send_take_common(struct submit_envelope *env, struct arena *mem,
    json_t *root, struct api_fault *fault);

/* Append `list` to the recipients as `kind`, as they go on the wire. */
void send_take_rcpts(struct submit_envelope *env, struct arena *mem,
    const struct send_list *list, char kind, const char *name,
    struct api_fault *fault);

/* X-Postern-Envelope: fills recipients and options of `env`. */
void send_take_envelope(struct submit_envelope *env, struct arena *mem,
    const char *text, const struct store_cred *cred, struct api_fault *fault);

/*
 * send_body.c: a JSON body of any size. What is larger than json_max streams:
 * the contents of its attachments go to a spool, the rest is parsed.
 */

/*
 * [may end the request] Take the body in and call `done`. `path` names what
 * the request asks for, whatever alias it came by.
 */
void send_read(
    struct http_request *req, const char *path, http_handler_fn *done);
#define SEND_PATH_MAX 80
/* "/v1/messages/ID" and `end`, "/reply" for one. */
void send_message_path(
    char out[SEND_PATH_MAX], const struct uuid *id, const char *end);
/* send_read() of JSON that is about the message of the path. */
void send_read_about(
    struct http_request *req, const char *end, http_handler_fn *done);
/* A hash of the request without its body; aliases of a path are one. */
struct submit_hash *send_start_hash(
    const struct http_request *req, const char *path);
/* The document, or NULL and `fault`. */
json_t *send_read_json(struct http_request *req, struct api_fault *fault);

/*
 * Raw MIME as it comes. `envelope` is the JSON of X-Postern-Envelope, `size`
 * what is announced (0: unknown). NULL and `fault`: it cannot be.
 */
struct send;
struct send *send_raw_start(struct http_request *req, const char *envelope,
    int64_t size, struct api_fault *fault);
/* [may pause the request] False: it is refused, its answer is on the way. */
bool send_raw_feed(struct send *s, const void *p, size_t n);
/* All is there. [ends the request] */
void send_raw_finish(struct send *s, const unsigned char request[32]);
/* Nothing is stored, and the caller answers. */
void send_raw_drop(struct send *s);

#define SEND_PATH "/v1/messages/send"
/* send_form.c: [ends the request] multipart/form-data. `done` is for JSON. */
void send_form(struct http_request *req, http_handler_fn *done);

struct send_body;
/* What was spooled; NULL: nothing. Lives as long as the request. */
struct send_body *send_body_of(const struct http_request *req);
/* The hash of the request, made while it came. */
const unsigned char *send_body_hash(const struct send_body *body);
/* The spooled content that `text` stands for; NULL: it is itself. */
const struct http_cut_part *send_body_part(
    const struct send_body *body, struct str text);

/* A composed message, piece by piece. */
struct send_bytes {
	struct buf buf; /* what was composed in memory */
	struct send_body *body; /* the rest; NULL: there is none */
	struct compose_hole *hole; /* owned, in their order */
	size_t hole_count;
	const struct http_cut_part **part; /* owned: of each attachment */
	struct buf lines; /* work */
	size_t at, hole_at;
	uint64_t inside; /* bytes of the part at `hole_at` that were had */
};
uint64_t send_bytes_size(const struct send_bytes *b);
/* The next bytes, empty at the end. False: they cannot be read again. */
bool send_bytes_next(struct send_bytes *b, struct str *piece);
void send_bytes_free(struct send_bytes *b);

/* A JSON request: fills `env` and composes the message. */
void send_take_json(struct submit_envelope *env, struct arena *mem,
    struct send_bytes *out, json_t *root, const struct store_cred *cred,
    struct api_fault *fault);

/*
 * [ends the request] Submit `root` in answer to `req`, whose body it was made
 * from; `path` names what the request asks for, whatever alias it came by.
 */
void send_document(struct http_request *req, json_t *root, const char *path);
/*
 * forward.c: send the message `id` on, with what `root` (taken over) says. As
 * `draft` in this version, or of the route itself (NULL).
 */
void forward_begin(struct http_request *req, json_t *root,
    const struct uuid *id, const struct uuid *draft, int version);

/*
 * draft_go.c: the same as send_document() for version `version` of a draft,
 * which ends when it is stored.
 */
void send_draft(struct http_request *req, json_t *root,
    const struct uuid *draft, int version);

/* A draft that is being sent, see store_draft_go(). */
struct send_draft {
	struct uuid id;
	int64_t at;
};
/* [ends the request] `key`: the key of repetition, whatever `req` has. */
void send_going(struct http_request *req, json_t *root, const char *path,
    const struct send_draft *draft, const char *key);
/* [ends the request] Say why nothing was stored. */
void send_refuse(struct http_request *req, const struct submit_outcome *out);

/* Would `root` be taken? It may be without recipients. */
void send_check_json(
    json_t *root, const struct store_cred *cred, struct api_fault *fault);

/* reply.c: recipients, subject and threading of an answer to `m`. */
void reply_fill(json_t *root, const struct store_message *m, bool all);

#endif
