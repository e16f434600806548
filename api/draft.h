/* SPDX-License-Identifier: ISC */
/*
 * draft.h - a draft as a document: what a send would say, and client_id,
 * in_reply_to of one's own message, reply_all; each attachment has an id.
 */
#ifndef API_DRAFT_H
#define API_DRAFT_H

#include <jansson.h>

#include "api/internal.h"
#include "base/buf.h"

struct send_draft;
struct store_draft;
struct submit_outcome;

/* Attachments get ids; then all of it is checked as if it were sent. */
void draft_take(
    json_t *doc, const struct store_cred *cred, struct api_fault *fault);
/* PATCH: null takes a member away; add_ and remove_ change a list. */
void draft_change(json_t *doc, json_t *patch, const struct store_cred *cred,
    struct api_fault *fault);
/* POST .../send: only add_labels and remove_labels. */
void draft_change_labels(json_t *doc, json_t *patch, struct api_fault *fault);

/* The same as a request to send; new. */
json_t *draft_to_send(json_t *doc);
/* The message that it answers: "msg_..." or NULL. */
const char *draft_answers(json_t *doc);

/* The message that it sends on: "msg_..." or NULL. */
const char *draft_forwards(json_t *doc);
/* The attachment with this id; borrowed, or NULL. */
json_t *draft_attachment(json_t *doc, const char *id);

/* What a list shows of it; at most STORE_DRAFT_HEAD_MAX bytes as text. */
json_t *draft_head(json_t *doc);
/* `doc`: head or body, NULL if it does not open. New. */
json_t *draft_render(
    const struct store_draft *d, json_t *doc, const struct store_cred *cred);

/* draft_go.c: [ends the request] What a draft was sent as. */
void draft_reply_sent(struct http_request *req, const struct uuid *message);
/* [ends the request] It was refused, and may be changed and sent again. */
void draft_stays_after(struct http_request *req, const struct send_draft *draft,
    const struct submit_outcome *out);
void draft_stays_faulty(struct http_request *req,
    const struct send_draft *draft, const struct api_fault *fault);

/* {draft_id} of the path. False: answered with 404. */
bool draft_id_of(struct http_request *req, struct uuid *id);

#endif
