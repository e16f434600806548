/* SPDX-License-Identifier: ISC */
/*
 * reply.c - POST .../messages/{message_id}/reply and /reply-all.
 *
 * A reply to one's own mail goes where that went: to its To, and with
 * reply-all to its Cc. Subject and threading come from the message; what the
 * request says itself wins, but for the threading. The rest is a send.
 */
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/message.h"

#define REFERENCES_KEPT 20

/* Those of one kind, unless the request names its own. */
static void
set_rcpts(
    json_t *root, const char *name, const struct store_message *m, char kind)
{
	json_t *list;
	struct str rest = str_of(m->rcpts), item;
	const char *k = m->rcpt_kind;

	if (json_object_get(root, name) != NULL)
		return;
	list = json_array();
	while (rest.n > 0 && *k != '\0') {
		item = str_split(&rest, '\n');
		if (*k++ == kind)
			json_array_append_new(
			    list, api_json_strn(item.p, item.n));
	}
	json_object_set_new(root, name, list);
}

static void
set_threading(json_t *root, const struct store_message *m)
{
	json_t *refs = api_json_lines(m->references, '\n');

	/* The first names the thread; of the others the last count. */
	while (json_array_size(refs) > REFERENCES_KEPT)
		json_array_remove(refs, 1);
	json_array_append_new(
	    refs, api_json_strn(m->rfc_message_id, strlen(m->rfc_message_id)));
	json_object_set_new(root, "in_reply_to",
	    api_json_strn(m->rfc_message_id, strlen(m->rfc_message_id)));
	json_object_set_new(root, "references", refs);
}

static void
set_subject(json_t *root, const struct store_message *m)
{
	struct buf subject = { 0 };

	if (json_object_get(root, "subject") != NULL)
		return;
	if (!str_istarts(str_of(m->subject), str_lit("Re:")))
		buf_puts(&subject, "Re: ");
	buf_puts(&subject, m->subject);
	json_object_set_new(
	    root, "subject", api_json_strn((const char *)subject.p, subject.n));
	buf_free(&subject);
}

void
reply_fill(json_t *root, const struct store_message *m, bool all)
{
	set_rcpts(root, "to", m, 't');
	if (all)
		set_rcpts(root, "cc", m, 'c');
	set_subject(root, m);
	set_threading(root, m);
}

static bool
wants_all(const struct http_request *req, json_t *root)
{
	const char *path = http_request_path(req);
	const char *end = strrchr(path, '/');

	return strcmp(end, "/reply-all") == 0 ||
	       json_is_true(json_object_get(root, "reply_all"));
}

static void
on_original(void *arg, enum err_code code, const struct store_message *m)
{
	struct api_call *call = arg;
	json_t *root = json_incref(call->doc);
	struct uuid id = call->id;
	struct http_request *req = api_call_end(call);
	char path[SEND_PATH_MAX];

	if (code == E_NONE && m->rfc_message_id[0] == '\0')
		code = E_NOT_FOUND;
	if (code != E_NONE) {
		json_decref(root);
		api_refuse(req, code);
		return;
	}
	reply_fill(root, m, wants_all(req, root));
	json_object_del(root, "reply_all");
	send_message_path(path, &id, strrchr(http_request_path(req), '/'));
	send_document(req, root, path);
	json_decref(root);
}

static void
on_body(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_call *call;
	struct uuid id;
	json_t *root;

	if (!api_message_id(req, &id))
		return;
	root = send_read_json(req, &fault);
	if (root != NULL) {
		api_json_bool(root, "reply_all", &fault);
		if (json_object_get(root, "in_reply_to") != NULL ||
		    json_object_get(root, "references") != NULL)
			api_fault_set(&fault, E_VALIDATION_ERROR, "in_reply_to",
			    "a reply sets its threading itself");
	}
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		json_decref(root);
		return;
	}
	call = api_call_new(req);
	call->id = id;
	call->doc = root;
	call->op = store_message_get(api_cred(req), &id, on_original, call);
}

void
api_op_messages_reply(struct http_request *req)
{
	send_read_about(req, strrchr(http_request_path(req), '/'), on_body);
}
