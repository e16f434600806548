/* SPDX-License-Identifier: ISC */
/*
 * forward.c - POST .../messages/{message_id}/forward: a message of the inbox
 * goes on to others, with its texts and attachments.
 *
 * It is read by the routes that read it for anybody (http/inner.h), so a key
 * that may not read it cannot send it on either. What goes on is small enough
 * to be one JSON request; more than that is sent as message/rfc822.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/inner.h"
#include "http/reply.h"
#include "http/request.h"

#define CARRIED_MAX (700 * 1024) /* bytes of attachments */

struct forward {
	struct http_request *req;
	struct http_inner *inner;
	json_t *root; /* the request, on its way to a send */
	json_t *original;
	size_t at; /* attachment that is fetched */
	struct uuid id, draft;
	int version; /* of the draft; 0: there is none */
};

static void
free_forward(struct forward *f)
{
	json_decref(f->root);
	json_decref(f->original);
	free(f);
}

static void
on_gone(void *arg)
{
	struct forward *f = arg;

	http_inner_cancel(f->inner);
	free_forward(f);
}

static struct http_request *
end_forward(struct forward *f)
{
	struct http_request *req = f->req;

	http_request_on_cancel(req, NULL, NULL);
	free_forward(f);
	return req;
}

/* [ends the request] What the reading route refused, this one refuses. */
static void
pass_on(struct forward *f, const struct http_inner_reply *reply)
{
	struct http_request *req = end_forward(f);
	json_t *doc = json_loadb(reply->body, reply->n, 0, NULL);

	BUG_ON(doc == NULL);
	http_fail_as(req, reply->status, doc);
}

static void
ask(struct forward *f, const char *attachment, http_inner_fn *done)
{
	struct buf target = { 0 };
	char id[UUID_ID_MAX];
	struct http_inner_call call = { .method = "GET" };

	uuid_to_id(id, "msg_", &f->id);
	buf_printf(&target, "/v1/messages/%s", id);
	if (attachment != NULL)
		buf_printf(&target, "/attachments/%s", attachment);
	call.target = buf_cstr(&target);
	f->inner = http_inner_start(f->req, &call, done, f);
	buf_free(&target);
}

static const char *
text_of(json_t *doc, const char *name)
{
	const char *text = json_string_value(json_object_get(doc, name));

	return text != NULL ? text : "";
}

static void
put_html(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '&')
			buf_puts(out, "&amp;");
		else if (*text == '<')
			buf_puts(out, "&lt;");
		else if (*text == '>')
			buf_puts(out, "&gt;");
		else if (*text == '\n')
			buf_puts(out, "<br>\n");
		else
			buf_putc(out, *text);
	}
}

static void
put_list(struct buf *out, const char *name, json_t *list)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		buf_printf(
		    out, "%s%s", i == 0 ? name : ", ", json_string_value(item));
	}
	if (json_array_size(list) > 0)
		buf_putc(out, '\n');
}

/* Whose mail it was; Bcc stays where it was. */
static void
put_head(struct buf *out, json_t *m)
{
	buf_puts(out, "---------- Forwarded message ----------\n");
	buf_printf(out, "From: %s\nDate: %s\nSubject: %s\n", text_of(m, "from"),
	    text_of(m, "created_at"), text_of(m, "subject"));
	put_list(out, "To: ", json_object_get(m, "to"));
	put_list(out, "Cc: ", json_object_get(m, "cc"));
}

static void
set_text(struct forward *f, const char *name, struct buf *text)
{
	json_object_set_new(
	    f->root, name, api_json_strn((const char *)text->p, text->n));
	buf_free(text);
}

/* HTML is there when either has some. */
static void
set_html(struct forward *f, struct buf *head, const char *own)
{
	const char *html = text_of(f->root, "html");
	const char *old = text_of(f->original, "html");
	struct buf out = { 0 };

	if (html[0] == '\0' && old[0] == '\0')
		return;
	if (html[0] != '\0')
		buf_puts(&out, html);
	else
		put_html(&out, own);
	buf_puts(&out, "\n<hr>\n<p>");
	put_html(&out, buf_cstr(head));
	buf_puts(&out, "</p>\n");
	if (old[0] != '\0')
		buf_puts(&out, old);
	else
		put_html(&out, text_of(f->original, "text"));
	set_text(f, "html", &out);
}

static void
set_texts(struct forward *f)
{
	char *own = xstrdup(text_of(f->root, "text"));
	struct buf head = { 0 }, out = { 0 };

	put_head(&head, f->original);
	set_html(f, &head, own);
	if (own[0] != '\0')
		buf_printf(&out, "%s\n\n", own);
	buf_puts(&out, buf_cstr(&head));
	buf_printf(&out, "\n%s", text_of(f->original, "text"));
	set_text(f, "text", &out);
	buf_free(&head);
	free(own);
	if (json_object_get(f->root, "subject") != NULL)
		return;
	if (!str_istarts(
		str_of(text_of(f->original, "subject")), str_lit("Fwd:")))
		buf_puts(&out, "Fwd: ");
	buf_puts(&out, text_of(f->original, "subject"));
	set_text(f, "subject", &out);
}

static void
send_it(struct forward *f)
{
	char path[SEND_PATH_MAX];
	json_t *root = json_incref(f->root);
	struct uuid draft = f->draft;
	int version = f->version;

	send_message_path(path, &f->id, "/forward");
	if (version > 0)
		send_draft(end_forward(f), root, &draft, version);
	else
		send_document(end_forward(f), root, path);
	json_decref(root);
}

static void fetch(struct forward *f);

static void
on_attachment(void *arg, const struct http_inner_reply *reply)
{
	struct forward *f = arg;
	json_t *list = json_object_get(f->original, "attachments");
	json_t *from = json_array_get(list, f->at), *mine;
	char *text;

	f->inner = NULL;
	if (reply->status >= 300 || !reply->whole) {
		if (reply->status >= 300)
			pass_on(f, reply);
		else
			http_fail(end_forward(f), E_INTERNAL_ERROR,
			    "an attachment could not be read");
		return;
	}
	text = xmalloc(BASE64_LEN(reply->n) + 1);
	base64_encode(text, reply->body, reply->n);
	mine =
	    json_pack("{s:s, s:s, s:s}", "filename", text_of(from, "filename"),
		"content_type", text_of(from, "content_type"), "content", text);
	free(text);
	if (json_is_true(json_object_get(from, "inline")))
		json_object_set_new(
		    mine, "content_disposition", json_string("inline"));
	if (json_is_string(json_object_get(from, "content_id")))
		json_object_set(
		    mine, "content_id", json_object_get(from, "content_id"));
	json_array_append_new(json_object_get(f->root, "attachments"), mine);
	f->at++;
	fetch(f);
}

/* The next attachment; after the last the mail goes. */
static void
fetch(struct forward *f)
{
	json_t *list = json_object_get(f->original, "attachments");

	if (f->at < json_array_size(list))
		ask(f, text_of(json_array_get(list, f->at), "attachment_id"),
		    on_attachment);
	else
		send_it(f);
}

/* False: answered. */
static bool
is_small(struct forward *f)
{
	json_t *list = json_object_get(f->original, "attachments"), *item;
	json_int_t sum = 0;
	size_t i;

	json_array_foreach(list, i, item)
	{
		sum += json_integer_value(json_object_get(item, "size"));
	}
	if (sum <= CARRIED_MAX)
		return true;
	http_fail(end_forward(f), E_PAYLOAD_TOO_LARGE,
	    "its attachments have %lld bytes, %d can be forwarded here; send "
	    "it on as message/rfc822",
	    (long long)sum, CARRIED_MAX);
	return false;
}

/* [ends the request] Why it is not whole is told before that is freed. */
static void
refuse_part(struct forward *f, const char *content)
{
	bool is_long = strcmp(content, "truncated") == 0;
	char why[32];

	(void)snprintf(why, sizeof(why), "%s", content);
	http_fail(end_forward(f),
	    is_long ? E_PAYLOAD_TOO_LARGE : E_MISSING_PERMISSION,
	    "the message cannot be read as a whole: %s", why);
}

static void
on_message(void *arg, const struct http_inner_reply *reply)
{
	struct forward *f = arg;
	const char *content;

	f->inner = NULL;
	if (reply->status >= 300) {
		pass_on(f, reply);
		return;
	}
	f->original = json_loadb(reply->body, reply->n, 0, NULL);
	content = text_of(f->original, "content");
	if (strcmp(content, "complete") != 0) {
		refuse_part(f, content);
		return;
	}
	if (!is_small(f))
		return;
	set_texts(f);
	if (!json_is_array(json_object_get(f->root, "attachments")))
		json_object_set_new(f->root, "attachments", json_array());
	fetch(f);
}

/* What is put together here is looked at first; the rest by the send. */
static void
check(json_t *root, struct api_fault *fault)
{
	json_t *list = json_object_get(root, "attachments");

	api_json_str(root, "text", SIZE_MAX, fault);
	api_json_str(root, "html", SIZE_MAX, fault);
	if (json_object_get(root, "markdown") != NULL)
		api_fault_set(fault, E_VALIDATION_ERROR, "markdown",
		    "a forwarded mail takes text and html");
	if (list != NULL && !json_is_null(list) && !json_is_array(list))
		api_fault_set(fault, E_VALIDATION_ERROR, "attachments",
		    "must be an array");
}

void
forward_begin(struct http_request *req, json_t *root, const struct uuid *id,
    const struct uuid *draft, int version)
{
	struct forward *f = xcalloc(1, sizeof(*f));

	f->req = req;
	f->root = root;
	f->id = *id;
	if (draft != NULL) {
		f->draft = *draft;
		f->version = version;
	}
	http_request_on_cancel(req, on_gone, f);
	ask(f, NULL, on_message);
}

static void
on_body(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct uuid id;
	json_t *root;

	if (!api_message_id(req, &id))
		return;
	root = send_read_json(req, &fault);
	if (root != NULL)
		check(root, &fault);
	if (fault.code != E_NONE) {
		json_decref(root);
		api_fault_reply(req, &fault);
		return;
	}
	forward_begin(req, root, &id, NULL, 0);
}

void
api_op_messages_forward(struct http_request *req)
{
	send_read_about(req, "/forward", on_body);
}
