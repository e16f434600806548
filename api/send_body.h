/* SPDX-License-Identifier: ISC */
/*
 * send_body.h - the body of a send while it streams, shared by send_body.c
 * (JSON) and send_form.c (multipart/form-data).
 */
#ifndef API_SEND_BODY_H
#define API_SEND_BODY_H

#include "api/send.h"
#include "http/cut.h"
#include "mail/transfer.h"
#include "seal/spool.h"

#define SEND_BODY_PIECE (TRANSFER_LINE_BYTES * 1024)

struct send_body {
	TAILQ_ENTRY(send_body) link;
	struct api *api;
	int64_t tenant, inbox;
	struct spool *spool;
	struct submit_hash *hash;
	unsigned char request[32];
	http_handler_fn *done;
	bool over; /* answered */
	struct http_cut cut;
	struct send_form *form; /* NULL: it is JSON */
	json_t *files; /* a form's: more `attachments` of the document */
	unsigned char work[SEND_BODY_PIECE];
};

/* The request keeps it. NULL: [ended the request]. */
struct send_body *send_body_new(
    struct http_request *req, const char *path, http_handler_fn *done);
/* [ends the request] The cut took no more of it. */
void send_body_refuse(struct http_request *req, struct send_body *b);

/* send_form.c; NULL is fine. */
void send_form_free(struct send_form *form);

#endif
