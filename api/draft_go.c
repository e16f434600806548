/* SPDX-License-Identifier: ISC */
/*
 * draft_go.c - from a draft to its submission, and back when it is refused.
 *
 * One draft is one message, whichever keys send it and whoever changes it
 * meanwhile: the row says that it is being sent before the message can be
 * stored, and until it says otherwise nobody changes, deletes or sends it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/draft.h"
#include "api/send.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/draft.h"
#include "store/message.h"

/* Sent before. */

static void
on_message(void *arg, enum err_code code, const struct store_message *m)
{
	struct http_request *req = api_call_end(arg);

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	http_reply_header(req, "Idempotent-Replay", "true");
	http_reply_json(req, 202, api_render_submitted(m));
}

void
draft_reply_sent(struct http_request *req, const struct uuid *message)
{
	struct api_call *call = api_call_new(req);

	call->op = store_message_get(api_cred(req), message, on_message, call);
}

/* Going. */

struct going {
	struct http_request *req; /* NULL: the client is gone */
	struct store_cred *cred; /* then */
	json_t *root;
	struct uuid id;
	int version;
};

static void
free_going(struct going *g)
{
	store_cred_free(g->cred);
	json_decref(g->root);
	free(g);
}

/* The call goes on: it is not known whether the row says so already. */
static void
on_gone(void *arg)
{
	struct going *g = arg;

	g->cred = api_take_cred(g->req);
	g->req = NULL;
}

static void
on_left(void *arg, enum err_code code)
{
	(void)code;
	free_going(arg);
}

/* Its own key has a colon, which no client's has. */
static void
key_of(char out[UUID_ID_MAX + 8], const struct uuid *draft)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "dft_", draft);
	snprintf(out, UUID_ID_MAX + 8, "draft:%s", id);
}

static void
submit(struct going *g, int64_t at)
{
	struct http_request *req = g->req;
	struct send_draft draft = { g->id, at };
	char id[UUID_ID_MAX], path[80], key[UUID_ID_MAX + 8];

	uuid_to_id(id, "dft_", &g->id);
	snprintf(path, sizeof(path), "/v1/drafts/%s/send?%d", id, g->version);
	key_of(key, &g->id);
	send_going(req, g->root, path, &draft, key);
}

static void
on_go(void *arg, enum err_code code, const struct uuid *message, int64_t at)
{
	struct going *g = arg;
	struct http_request *req = g->req;

	if (req == NULL && code == E_NONE && message == NULL) {
		store_draft_stay(g->cred, &g->id, at, on_left, g);
		return;
	}
	if (req == NULL) {
		free_going(g);
		return;
	}
	http_request_on_cancel(req, NULL, NULL);
	if (code == E_STATE_CONFLICT)
		http_fail_retry(req, code, 1,
		    "the draft was changed meanwhile, or is being sent by "
		    "another key; ask again");
	else if (code != E_NONE)
		api_refuse(req, code);
	else if (message != NULL)
		draft_reply_sent(req, message);
	else
		submit(g, at);
	free_going(g);
}

void
send_draft(struct http_request *req, json_t *root, const struct uuid *draft,
    int version)
{
	struct going *g = xcalloc(1, sizeof(*g));
	unsigned char hash[32];
	char key[UUID_ID_MAX + 8];

	g->req = req;
	g->root = json_incref(root);
	g->id = *draft;
	g->version = version;
	http_request_on_cancel(req, on_gone, g);
	key_of(key, draft);
	submit_key_hash(hash, str_of(key));
	store_draft_go(api_cred(req), draft, version, hash, on_go, g);
}

/* Staying. */

struct staying {
	struct http_request *req; /* NULL: the client is gone */
	struct submit_outcome out;
	struct api_fault fault; /* instead, when it has a code */
};

/* The call goes on, so that the draft is free. */
static void
on_nobody(void *arg)
{
	((struct staying *)arg)->req = NULL;
}

/* Whatever became of the call: in time the draft is free anyway. */
static void
on_stays(void *arg, enum err_code code)
{
	struct staying *st = arg;
	struct http_request *req = st->req;

	(void)code;
	if (req != NULL) {
		http_request_on_cancel(req, NULL, NULL);
		if (st->fault.code != E_NONE)
			api_fault_reply(req, &st->fault);
		else
			send_refuse(req, &st->out);
	}
	free(st);
}

static void
stay(struct staying *st, const struct send_draft *draft)
{
	http_request_on_cancel(st->req, on_nobody, st);
	store_draft_stay(
	    api_cred(st->req), &draft->id, draft->at, on_stays, st);
}

void
draft_stays_after(struct http_request *req, const struct send_draft *draft,
    const struct submit_outcome *out)
{
	struct staying *st = xcalloc(1, sizeof(*st));

	st->req = req;
	st->out = *out;
	stay(st, draft);
}

void
draft_stays_faulty(struct http_request *req, const struct send_draft *draft,
    const struct api_fault *fault)
{
	struct staying *st = xcalloc(1, sizeof(*st));

	st->req = req;
	st->fault = *fault;
	stay(st, draft);
}
