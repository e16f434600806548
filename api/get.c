/* SPDX-License-Identifier: ISC */
/*
 * get.c - one message with all it says (decision D13).
 *
 * A key that may read opens the body for this one answer; its bytes pass
 * through mail/content.h and are not kept. A send key has nothing to open
 * it with and gets what is known without.
 */
#include <stdlib.h>

#include "api/content.h"
#include "api/internal.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/content.h"
#include "store/message.h"

struct reading {
	struct http_request *req;
	struct store_raw *raw;
	struct content *content;
	json_t *doc; /* once the message is known */
	struct uuid id;
	int version;
	bool well; /* what came so far is a message */
};

static void
free_reading(struct reading *r)
{
	content_free(r->content);
	json_decref(r->doc);
	free(r);
}

static void
on_gone(void *arg)
{
	struct reading *r = arg;

	store_raw_cancel(r->raw);
	free_reading(r);
}

static void
on_recipients(void *arg, enum err_code code, const struct store_recipient *r,
    size_t count)
{
	struct api_call *call = arg;
	json_t *doc = json_incref(call->doc), *list = json_array();
	struct http_request *req = api_call_end(call);
	size_t i;

	for (i = 0; i < count; i++)
		json_array_append_new(list, api_render_recipient(&r[i]));
	json_object_set_new(doc, "recipients", list);
	if (code == E_NONE) {
		http_reply_json(req, 200, doc);
	} else {
		json_decref(doc);
		api_refuse(req, code);
	}
}

/* What is left to ask. */
static void
ask_recipients(struct api_call *call)
{
	call->op = store_message_recipients(
	    api_cred(call->req), &call->id, on_recipients, call);
}

static void
on_get(void *arg, enum err_code code, const struct store_message *m)
{
	struct api_call *call = arg;
	const struct store_cred *cred = api_cred(call->req);

	call->op = NULL;
	if (code != E_NONE) {
		api_refuse(api_call_end(call), code);
		return;
	}
	call->doc = api_render_message(m, cred);
	json_object_set_new(call->doc, "content",
	    json_string(
		cred->scope == 's' ? "not_with_this_key" : "unreadable"));
	ask_recipients(call);
}

static void
get_without_body(struct http_request *req, const struct uuid *id)
{
	struct api_call *call = api_call_new(req);

	call->id = *id;
	call->op = store_message_get(api_cred(req), id, on_get, call);
}

static void
on_head(void *arg, const struct store_message *m)
{
	struct reading *r = arg;

	r->doc = api_render_message(m, api_cred(r->req));
	r->version = m->version;
}

static bool
on_data(void *arg, const void *p, size_t n)
{
	struct reading *r = arg;

	r->well = r->well && content_feed(r->content, p, n);
	return true;
}

static void
on_end(void *arg, enum err_code code)
{
	struct reading *r = arg;
	struct http_request *req = r->req;
	struct uuid id = r->id;
	struct api_call *call;

	http_request_on_cancel(req, NULL, NULL);
	if (code == E_NONE) {
		if (r->well && content_finish(r->content))
			api_content_render(
			    r->doc, r->content, &r->id, r->version);
		else
			json_object_set_new(
			    r->doc, "content", json_string("unreadable"));
		call = api_call_new(req);
		call->id = id;
		call->doc = json_incref(r->doc);
		ask_recipients(call);
	} else if (code == E_MISSING_PERMISSION && r->doc == NULL) {
		/* The inbox was reset: the key that opens it is gone. */
		get_without_body(req, &id);
	} else {
		api_refuse(req, code);
	}
	free_reading(r);
}

static const struct store_raw_fns raw_fns = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
};

void
api_op_messages_get(struct http_request *req)
{
	const struct store_cred *cred = api_cred(req);
	struct secret kek = { 0 };
	struct uuid id;
	struct reading *r;

	if (!api_message_id(req, &id))
		return;
	if (cred->scope == 's' || !store_token_kek(api_token(req), &kek)) {
		get_without_body(req, &id);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->req = req;
	r->id = id;
	r->well = true;
	r->content = content_new();
	http_request_on_cancel(req, on_gone, r);
	r->raw = store_message_raw(cred, &id, 0, &kek, &raw_fns, r);
	secret_wipe(&kek);
}
