/* SPDX-License-Identifier: ISC */
/* draft_doc.c - see draft.h. */
#include "api/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "http/error.h"
#include "http/request.h"
#include "mail/compose.h"
#include "store/draft.h"

#define CLIENT_ID_MAX 200
#define PREVIEW_MAX 160

/* Of a draft alone, and fixed when it is made. */
static const char *const fixed[] = { "client_id", "in_reply_to", "reply_all",
	"forward_of", NULL };

static bool
is_among(const char *name, const char *const *names)
{
	for (; *names != NULL; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

const char *
draft_answers(json_t *doc)
{
	const char *id = json_string_value(json_object_get(doc, "in_reply_to"));

	return id != NULL && strncmp(id, "msg_", 4) == 0 ? id : NULL;
}

const char *
draft_forwards(json_t *doc)
{
	return json_string_value(json_object_get(doc, "forward_of"));
}

json_t *
draft_to_send(json_t *doc)
{
	json_t *copy = json_copy(doc), *list, *item, *plain;
	size_t i;

	json_object_del(copy, "client_id");
	json_object_del(copy, "forward_of");
	if (draft_answers(doc) != NULL) {
		json_object_del(copy, "in_reply_to");
		json_object_del(copy, "reply_all");
	}
	list = json_object_get(doc, "attachments");
	if (!json_is_array(list))
		return copy;
	plain = json_array();
	json_array_foreach(list, i, item)
	{
		item = json_copy(item);
		if (json_is_object(item))
			json_object_del(item, "attachment_id");
		json_array_append_new(plain, item);
	}
	json_object_set_new(copy, "attachments", plain);
	return copy;
}

/* What is sent on brings its texts and attachments when it is sent. */
static void
check_forward(json_t *doc, struct api_fault *fault)
{
	static const char *const not_with[] = { "in_reply_to", "references",
		"markdown", NULL };
	json_t *v = json_object_get(doc, "forward_of");
	const char *id = json_string_value(v);
	struct uuid u;
	size_t i;

	if (v == NULL || json_is_null(v))
		return;
	if (id == NULL || !uuid_from_id(&u, "msg_", str_of(id)))
		api_fault_set(fault, E_VALIDATION_ERROR, "forward_of",
		    "not the id of a message");
	for (i = 0; not_with[i] != NULL; i++)
		if (json_object_get(doc, not_with[i]) != NULL)
			api_fault_set(fault, E_VALIDATION_ERROR, not_with[i],
			    "does not go with forward_of");
}

static void
check_own(json_t *doc, struct api_fault *fault)
{
	struct str client =
	    api_json_str(doc, "client_id", CLIENT_ID_MAX, fault);
	const char *answers = draft_answers(doc);
	struct uuid id;
	size_t i;

	for (i = 0; i < client.n; i++)
		if ((unsigned char)client.p[i] < 0x20 || client.p[i] == 0x7f)
			api_fault_set(fault, E_VALIDATION_ERROR, "client_id",
			    "holds a control character");
	api_json_bool(doc, "reply_all", fault);
	check_forward(doc, fault);
	if (answers != NULL && !uuid_from_id(&id, "msg_", str_of(answers)))
		api_fault_set(fault, E_VALIDATION_ERROR, "in_reply_to",
		    "not the id of a message");
	if (answers != NULL && json_object_get(doc, "references") != NULL)
		api_fault_set(fault, E_VALIDATION_ERROR, "references",
		    "a reply sets its threading itself");
}

static void
check(json_t *doc, const struct store_cred *cred, struct api_fault *fault)
{
	json_t *plain;

	check_own(doc, fault);
	plain = draft_to_send(doc);
	send_check_json(plain, cred, fault);
	json_decref(plain);
}

static void
name_attachments(json_t *list)
{
	struct uuid u;
	char id[UUID_ID_MAX];
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (!json_is_object(item))
			continue;
		u = uuid_v7_new();
		uuid_to_id(id, "att_", &u);
		json_object_set_new(item, "attachment_id", json_string(id));
	}
}

/* Of a request nothing is taken but its own ids. */
static void
refuse_ids(json_t *list, const char *field, struct api_fault *fault)
{
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (json_object_get(item, "attachment_id") != NULL)
			api_fault_set(fault, E_VALIDATION_ERROR, field,
			    "attachment_id is given here, not taken");
	}
}

void
draft_take(json_t *doc, const struct store_cred *cred, struct api_fault *fault)
{
	json_t *list, *value;
	const char *name;
	void *next;

	/* Null is as if it were not there. */
	json_object_foreach_safe(doc, next, name, value)
	{
		if (json_is_null(value))
			json_object_del(doc, name);
	}
	list = json_object_get(doc, "attachments");
	refuse_ids(list, "attachments", fault);
	name_attachments(list);
	check(doc, cred, fault);
}

/* The list under `name` of the patch; NULL: none, or no list of strings. */
static json_t *
strings_of(json_t *patch, const char *name, struct api_fault *fault)
{
	json_t *list = json_object_get(patch, name), *item;
	size_t i;

	if (list == NULL || json_is_null(list))
		return NULL;
	if (!json_is_array(list)) {
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "must be an array of strings");
		return NULL;
	}
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item) ||
		    !compose_text_valid(str_of(json_string_value(item)))) {
			api_fault_set(fault, E_VALIDATION_ERROR, name,
			    "item %zu is not a string without controls", i);
			return NULL;
		}
	}
	return list;
}

/* Take out of `list` what equals `text`, or holds it as `member`. */
static bool
remove_text(json_t *list, json_t *text, const char *member)
{
	json_t *item;
	size_t i = 0, before = json_array_size(list);

	while (i < json_array_size(list)) {
		item = json_array_get(list, i);
		if (member != NULL)
			item = json_object_get(item, member);
		if (json_equal(item, text))
			json_array_remove(list, i);
		else
			i++;
	}
	return json_array_size(list) < before;
}

/* The list `name` of the draft, made when it is not there. */
static json_t *
list_of(json_t *doc, const char *name)
{
	json_t *list = json_object_get(doc, name);

	if (!json_is_array(list)) {
		list = json_array();
		json_object_set_new(doc, name, list);
	}
	return list;
}

void
draft_change_labels(json_t *doc, json_t *patch, struct api_fault *fault)
{
	json_t *add = strings_of(patch, "add_labels", fault);
	json_t *away = strings_of(patch, "remove_labels", fault);
	json_t *labels = list_of(doc, "labels"), *item;
	size_t i;

	json_array_foreach(away, i, item)
	{
		remove_text(labels, item, NULL);
	}
	json_array_foreach(add, i, item)
	{
		remove_text(labels, item, NULL);
		json_array_append(labels, item);
	}
}

static void
change_attachments(json_t *doc, json_t *patch, struct api_fault *fault)
{
	json_t *away = strings_of(patch, "remove_attachments", fault);
	json_t *add = json_object_get(patch, "add_attachments");
	json_t *list = list_of(doc, "attachments"), *item;
	size_t i;

	json_array_foreach(away, i, item)
	{
		if (!remove_text(list, item, "attachment_id"))
			api_fault_set(fault, E_VALIDATION_ERROR,
			    "remove_attachments",
			    "item %zu is no attachment of this draft", i);
	}
	if (add == NULL || json_is_null(add))
		return;
	if (!json_is_array(add))
		api_fault_set(fault, E_VALIDATION_ERROR, "add_attachments",
		    "must be an array");
	refuse_ids(add, "add_attachments", fault);
	name_attachments(add);
	json_array_extend(list, add);
}

void
draft_change(json_t *doc, json_t *patch, const struct store_cred *cred,
    struct api_fault *fault)
{
	static const char *const lists[] = { "add_labels", "remove_labels",
		"add_attachments", "remove_attachments", NULL };
	const char *name;
	json_t *value;

	json_object_foreach(patch, name, value)
	{
		if (is_among(name, lists))
			continue;
		if (is_among(name, fixed))
			api_fault_set(fault, E_VALIDATION_ERROR, name,
			    "what a draft answers is fixed when it is made");
		if (strcmp(name, "attachments") == 0) {
			refuse_ids(value, name, fault);
			name_attachments(value);
		}
		if (json_is_null(value))
			json_object_del(doc, name);
		else
			json_object_set(doc, name, value);
	}
	draft_change_labels(doc, patch, fault);
	change_attachments(doc, patch, fault);
	check(doc, cred, fault);
}

/* The beginning of the text, on one line. */
static json_t *
preview_of(json_t *doc)
{
	const char *text = json_string_value(json_object_get(doc, "text"));
	char line[PREVIEW_MAX + 1];
	size_t n = 0;

	if (text == NULL)
		return json_null();
	for (; *text != '\0' && n < PREVIEW_MAX; text++)
		line[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
	/* not within a character */
	while (n > 0 && *text != '\0' && ((unsigned char)line[n - 1] & 0x80))
		n--;
	return api_json_strn(line, n);
}

static size_t
size_of(json_t *doc)
{
	return json_dumpb(doc, NULL, 0, JSON_COMPACT);
}

json_t *
draft_head(json_t *doc)
{
	static const char *const shown[] = { "to", "cc", "bcc", "reply_to",
		"subject", "labels", "in_reply_to", "forward_of", "client_id",
		"send_at", "not_after", NULL };
	/* the longest goes first, until the rest is short enough */
	static const char *const heavy[] = { "bcc", "cc", "to", "reply_to",
		"labels", "in_reply_to", NULL };
	json_t *head = json_object(), *v;
	size_t i;

	for (i = 0; shown[i] != NULL; i++) {
		v = json_object_get(doc, shown[i]);
		if (v != NULL)
			json_object_set(head, shown[i], v);
	}
	json_object_set_new(head, "preview", preview_of(doc));
	for (i = 0; heavy[i] != NULL && size_of(head) > STORE_DRAFT_HEAD_MAX;
	     i++) {
		json_object_del(head, heavy[i]);
		json_object_set_new(head, "truncated", json_true());
	}
	return head;
}

/* "a" or ["a"] as a list. */
static json_t *
as_list(json_t *doc, const char *name)
{
	json_t *v = json_object_get(doc, name);

	if (json_is_array(v))
		return json_incref(v);
	return json_is_string(v) ? json_pack("[O]", v) : json_array();
}

static json_t *
as_is(json_t *doc, const char *name)
{
	json_t *v = json_object_get(doc, name);

	return v != NULL ? json_incref(v) : json_null();
}

json_t *
draft_attachment(json_t *doc, const char *id)
{
	json_t *item;
	const char *own;
	size_t i;

	json_array_foreach(json_object_get(doc, "attachments"), i, item)
	{
		own = json_string_value(json_object_get(item, "attachment_id"));
		if (own != NULL && strcmp(own, id) == 0)
			return item;
	}
	return NULL;
}

static json_t *
attachments_of(json_t *doc)
{
	json_t *list = json_object_get(doc, "attachments"), *out = json_array();
	json_t *item, *one, *disposition;
	struct str content;
	size_t i, pad;

	json_array_foreach(list, i, item)
	{
		struct api_fault none = { 0 };

		content = api_json_str(item, "content", SIZE_MAX, &none);
		for (pad = 0; pad < 2 && content.n > pad &&
			      content.p[content.n - pad - 1] == '=';)
			pad++;
		disposition = json_object_get(item, "content_disposition");
		one = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}",
		    "attachment_id", as_is(item, "attachment_id"), "filename",
		    as_is(item, "filename"), "content_type",
		    as_is(item, "content_type"), "content_id",
		    as_is(item, "content_id"), "content_disposition",
		    disposition != NULL ? json_incref(disposition)
					: json_string("attachment"),
		    "size", (json_int_t)((content.n - pad) * 3 / 4));
		json_array_append_new(out, one);
	}
	return out;
}

json_t *
draft_render(
    const struct store_draft *d, json_t *doc, const struct store_cred *cred)
{
	static const char *const lists[] = { "to", "cc", "bcc", "reply_to",
		"labels", NULL };
	static const char *const plain[] = { "client_id", "subject",
		"in_reply_to", "forward_of", "send_at", "not_after", NULL };
	static const char *const content[] = { "text", "html", "markdown",
		"headers", "references", "context", "reply_all", "duplicate",
		"revises", "preview", "truncated", NULL };
	json_t *out = json_object();
	char id[UUID_ID_MAX];
	size_t i;

	uuid_to_id(id, "dft_", &d->draft);
	json_object_set_new(out, "draft_id", json_string(id));
	json_object_set_new(out, "inbox_id", json_string(cred->address));
	json_object_set_new(out, "version", json_integer(d->version));
	for (i = 0; lists[i] != NULL; i++)
		json_object_set_new(out, lists[i], as_list(doc, lists[i]));
	for (i = 0; plain[i] != NULL; i++)
		json_object_set_new(out, plain[i], as_is(doc, plain[i]));
	for (i = 0; content[i] != NULL; i++)
		if (json_object_get(doc, content[i]) != NULL)
			json_object_set_new(
			    out, content[i], as_is(doc, content[i]));
	if (json_object_get(doc, "attachments") != NULL)
		json_object_set_new(out, "attachments", attachments_of(doc));
	json_object_set_new(out, "content",
	    json_string(doc != NULL ? "complete" : "unreadable"));
	json_object_set_new(out, "created_at", api_json_time(d->created_at));
	json_object_set_new(out, "updated_at", api_json_time(d->updated_at));
	return out;
}

bool
draft_id_of(struct http_request *req, struct uuid *id)
{
	const char *given = http_request_param(req, "draft_id");

	if (uuid_from_id(id, "dft_", str_of(given)))
		return true;
	http_fail(req, E_NOT_FOUND, "this is not the id of a draft");
	return false;
}
