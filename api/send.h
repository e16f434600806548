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
#include "store/submit.h"

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

/* A JSON request: fills `env` and appends the message's bytes to `out`. */
void send_take_json(struct submit_envelope *env, struct arena *mem,
    struct buf *out, json_t *root, const struct store_cred *cred,
    struct api_fault *fault);

/*
 * [ends the request] Submit `root` in answer to `req`, whose body it was made
 * from; `path` names what the request asks for, whatever alias it came by.
 */
void send_document(struct http_request *req, json_t *root, const char *path);
/* The same for version `version` of a draft, which ends when it is stored. */
void send_draft(struct http_request *req, json_t *root,
    const struct uuid *draft, int version);

/* Would `root` be taken? It may be without recipients. */
void send_check_json(
    json_t *root, const struct store_cred *cred, struct api_fault *fault);

/* reply.c: recipients, subject and threading of an answer to `m`. */
void reply_fill(json_t *root, const struct store_message *m, bool all);

#endif
