/* SPDX-License-Identifier: ISC */
/*
 * draft_send.c - POST .../drafts/{draft_id}/send: the draft is submitted like
 * any mail, and from then on is only a name for its message.
 *
 * Who asks twice gets the same: while the row is still a draft by its key of
 * repetition, and later by the row itself.
 */
#include <stdlib.h>
#include <string.h>

#include "api/draft.h"
#include "api/send.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"
#include "store/draft.h"
#include "store/message.h"

struct sending {
	struct http_request *req;
	struct store_draft_op *opening;
	struct store_op *looking;
	json_t *patch; /* of the labels */
	json_t *root; /* what is sent, while its original is looked for */
	struct uuid id;
	int version;
	bool all; /* reply to all */
};

static const struct uuid none;

static void
free_sending(struct sending *s)
{
	json_decref(s->patch);
	json_decref(s->root);
	free(s);
}

static void
on_gone(void *arg)
{
	struct sending *s = arg;

	store_draft_cancel(s->opening);
	store_op_cancel(s->looking);
	free_sending(s);
}

static struct http_request *
end_sending(struct sending *s)
{
	struct http_request *req = s->req;

	http_request_on_cancel(req, NULL, NULL);
	free_sending(s);
	return req;
}

static void
submit_root(struct sending *s)
{
	struct uuid id = s->id;
	int version = s->version;
	json_t *root = json_incref(s->root);

	send_draft(end_sending(s), root, &id, version);
	json_decref(root);
}

static void
on_original(void *arg, enum err_code code, const struct store_message *m)
{
	struct sending *s = arg;

	s->looking = NULL;
	if (code != E_NONE) {
		if (code == E_NOT_FOUND)
			http_fail_field(end_sending(s), E_VALIDATION_ERROR,
			    "in_reply_to", "this message is not there");
		else
			api_refuse(end_sending(s), code);
		return;
	}
	reply_fill(s->root, m, s->all);
	submit_root(s);
}

static void
forward_root(struct sending *s, const char *original)
{
	struct uuid draft = s->id, id;
	int version = s->version;
	json_t *root = json_incref(s->root);
	struct http_request *req = end_sending(s);

	/* As it was when the draft was made. */
	BUG_ON(!uuid_from_id(&id, "msg_", str_of(original)));
	forward_begin(req, root, &id, &draft, version);
}

static void
send_doc(struct sending *s, json_t *doc)
{
	struct api_fault fault = { 0 };
	const char *original = draft_answers(doc);
	struct uuid id;

	s->all = json_is_true(json_object_get(doc, "reply_all"));
	draft_change_labels(doc, s->patch, &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(end_sending(s), &fault);
		return;
	}
	s->root = draft_to_send(doc);
	if (draft_forwards(doc) != NULL) {
		forward_root(s, draft_forwards(doc));
		return;
	}
	if (original != NULL && uuid_from_id(&id, "msg_", str_of(original)))
		s->looking =
		    store_message_get(api_cred(s->req), &id, on_original, s);
	else
		submit_root(s);
}

static void
on_draft(void *arg, enum err_code code, const struct store_draft *d, size_t n)
{
	struct sending *s = arg;
	json_t *doc = NULL;

	s->opening = NULL;
	if (code != E_NONE || n != 1) {
		api_refuse(end_sending(s), code != E_NONE ? code : E_NOT_FOUND);
		return;
	}
	if (!uuid_eq(&d->message, &none)) {
		draft_reply_sent(end_sending(s), &d->message);
		return;
	}
	s->version = d->version;
	if (d->opened)
		doc = json_loadb(d->text.p, d->text.n, 0, NULL);
	if (doc != NULL)
		send_doc(s, doc);
	else
		http_fail(end_sending(s), E_MISSING_PERMISSION,
		    "the inbox was reset since: what the draft says opens "
		    "with no key any more");
	json_decref(doc);
}

void
api_op_drafts_send(struct http_request *req)
{
	static const char *const names[] = { "add_labels", "remove_labels",
		NULL };
	struct api_fault fault = { 0 };
	struct secret kek = { 0 };
	struct sending *s;
	struct uuid id;
	json_t *patch;
	const char *body;
	size_t n;

	if (!draft_id_of(req, &id))
		return;
	body = http_request_body(req, &n);
	patch = n > 0 ? api_json_object(body, n, &fault) : json_object();
	if (patch != NULL)
		api_json_known(patch, names, &fault);
	if (fault.code != E_NONE) {
		json_decref(patch);
		api_fault_reply(req, &fault);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->req = req;
	s->id = id;
	s->patch = patch;
	http_request_on_cancel(req, on_gone, s);
	BUG_ON(!store_token_kek(api_token(req), &kek));
	s->opening = store_draft_get(api_cred(req), &id, &kek, on_draft, s);
	secret_wipe(&kek);
}
