/* SPDX-License-Identifier: ISC */
/*
 * v0.c - where the public AgentMail API differs in more than extra fields.
 *
 * Its clients fetch bytes from a URL that needs no key. Ours never leave
 * without one, since only the key opens them: so the URL holds the bytes
 * themselves (data:), which every fetch() reads, or, for what is too long for
 * that, the place of the /v1 route. Its validation errors are 400.
 */
#include <stdlib.h>
#include <string.h>

#include "api/draft.h"
#include "api/internal.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/inner.h"
#include "http/reply.h"
#include "http/request.h"

struct v0 {
	struct http_request *req;
	struct http_inner *inner;
	char *target; /* of the bytes */
	json_t *doc;
};

static void
free_v0(struct v0 *v)
{
	free(v->target);
	json_decref(v->doc);
	free(v);
}

static void
on_gone(void *arg)
{
	struct v0 *v = arg;

	http_inner_cancel(v->inner);
	free_v0(v);
}

static struct http_request *
end_v0(struct v0 *v)
{
	struct http_request *req = v->req;

	http_request_on_cancel(req, NULL, NULL);
	free_v0(v);
	return req;
}

/* [ends the request] The other route's refusal, as that of this one. */
static void
pass_on(struct v0 *v, const struct http_inner_reply *reply)
{
	struct http_request *req = end_v0(v);
	json_t *doc = json_loadb(reply->body, reply->n, 0, NULL);

	BUG_ON(doc == NULL);
	http_fail_as(req, reply->status, doc);
}

static void
ask(struct v0 *v, const char *target, http_inner_fn *done)
{
	struct http_inner_call call = { .method = "GET", .target = target };

	v->inner = http_inner_start(v->req, &call, done, v);
}

static void
on_bytes(void *arg, const struct http_inner_reply *reply)
{
	struct v0 *v = arg;
	json_t *doc, *url;
	struct buf text = { 0 };
	size_t n;

	if (reply->status >= 300) {
		pass_on(v, reply);
		return;
	}
	if (reply->whole) {
		buf_printf(&text, "data:%s;base64,", reply->type);
		n = BASE64_LEN(reply->n);
		base64_encode(
		    (char *)buf_reserve(&text, n + 1), reply->body, reply->n);
		text.n += n;
	} else {
		buf_puts(&text, v->target);
	}
	url = json_stringn((const char *)text.p, text.n);
	buf_free(&text);
	doc = json_incref(v->doc);
	json_object_set_new(doc, "download_url", url);
	json_object_set_new(doc, "expires_at",
	    api_json_time(clock_real_us() + (int64_t)3600 * 1000000));
	http_reply_json(end_v0(v), 200, doc);
}

/* Of a message or of a draft. False: answered. */
static bool
put_place(struct buf *target, struct http_request *req)
{
	const char *draft = http_request_param(req, "draft_id");
	struct uuid id;

	if (draft != NULL) {
		if (!draft_id_of(req, &id))
			return false;
		buf_printf(target, "/v1/drafts/%s", draft);
		return true;
	}
	if (!api_message_id(req, &id))
		return false;
	buf_printf(
	    target, "/v1/messages/%s", http_request_param(req, "message_id"));
	return true;
}

static struct v0 *
new_v0(struct http_request *req, const char *route, const char *tail)
{
	struct buf target = { 0 };
	struct v0 *v;

	if (!put_place(&target, req))
		return NULL;
	buf_printf(&target, "%s%s", route, tail);
	v = xcalloc(1, sizeof(*v));
	v->req = req;
	v->target = xstrdup(buf_cstr(&target));
	buf_free(&target);
	http_request_on_cancel(req, on_gone, v);
	return v;
}

void
api_op_v0_raw(struct http_request *req)
{
	struct v0 *v = new_v0(req, "/raw", "");

	if (v == NULL)
		return;
	v->doc = json_pack(
	    "{s:s}", "message_id", http_request_param(req, "message_id"));
	ask(v, v->target, on_bytes);
}

/* The attachment's row in its message, then its bytes. */
static void
on_message(void *arg, const struct http_inner_reply *reply)
{
	struct v0 *v = arg;
	const char *id = http_request_param(v->req, "attachment_id");
	json_t *doc, *item;
	size_t i;

	if (reply->status >= 300) {
		pass_on(v, reply);
		return;
	}
	doc = json_loadb(reply->body, reply->n, 0, NULL);
	json_array_foreach(json_object_get(doc, "attachments"), i, item)
	{
		if (strcmp(json_string_value(
			       json_object_get(item, "attachment_id")),
			id) == 0)
			v->doc = json_incref(item);
	}
	json_decref(doc);
	v->inner = NULL;
	if (v->doc == NULL)
		api_refuse(end_v0(v), E_NOT_FOUND);
	else
		ask(v, v->target, on_bytes);
}

void
api_op_v0_attachment(struct http_request *req)
{
	const char *id = http_request_param(req, "attachment_id");
	struct buf message = { 0 };
	struct uuid u;
	struct v0 *v;

	if (!uuid_from_id(&u, "att_", str_of(id))) {
		api_refuse(req, E_NOT_FOUND);
		return;
	}
	v = new_v0(req, "/attachments/", id);
	if (v == NULL)
		return;
	(void)put_place(&message, req);
	ask(v, buf_cstr(&message), on_message);
	buf_free(&message);
}

void
api_op_v0_draft_attachment(struct http_request *req)
{
	api_op_v0_attachment(req);
}

void
api_v0_dress(const struct http_request *req, int *status, struct json_t *doc)
{
	json_t *field;

	if (*status != 422 || strncmp(http_request_path(req), "/v0/", 4) != 0)
		return;
	*status = 400;
	field = json_object_get(doc, "field");
	json_object_set_new(doc, "name", json_string("ValidationError"));
	json_object_set_new(doc, "errors",
	    json_pack("[{s:[O], s:O, s:O}]", "path", field, "code",
		json_object_get(doc, "code"), "message",
		json_object_get(doc, "message")));
}
