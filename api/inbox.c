/* SPDX-License-Identifier: ISC */
/*
 * inbox.c - the inbox: what it is called, its labels, and how much mail of
 * which state it has.
 */
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/clock.h"
#include "base/secret.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/compose.h"
#include "policy/vocabulary.h"
#include "store/inbox.h"

#define METADATA_MEMBERS 50
#define METADATA_NAME_MAX 64
#define METADATA_VALUE_MAX 500
#define NAME_MAX_BYTES 200
#define DAY_US ((int64_t)86400 * 1000000)
#define USAGE_DAYS 30
#define USAGE_DAYS_MAX 92

static json_t *
inbox_json(const struct store_cred *cred, const struct store_inbox *inbox)
{
	json_t *doc = api_render_inbox(cred);
	/* The database writes 1e20 with all its digits. */
	json_t *metadata = json_loads(inbox->metadata, 0, NULL);

	if (metadata == NULL)
		metadata =
		    json_loads(inbox->metadata, JSON_DECODE_INT_AS_REAL, NULL);

	json_object_set_new(doc, "display_name",
	    api_json_strn(inbox->display_name, strlen(inbox->display_name)));
	json_object_set_new(
	    doc, "metadata", metadata != NULL ? metadata : json_object());
	json_object_set_new(doc, "one_click", json_boolean(inbox->one_click));
	json_object_set_new(
	    doc, "created_at", api_json_time(inbox->created_at));
	json_object_set_new(
	    doc, "updated_at", api_json_time(inbox->created_at));
	return doc;
}

/* The list has one, as a key has one inbox. */
static void
on_inbox(void *arg, enum err_code code, const struct store_inbox *inbox)
{
	struct api_call *call = arg;
	bool list = call->number != 0;
	struct http_request *req = api_call_end(call);
	json_t *doc;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	doc = inbox_json(api_cred(req), inbox);
	if (list)
		doc = json_pack("{s:i, s:i, s:n, s:[o]}", "count", 1, "limit",
		    API_LIMIT_MAX, "next_page_token", "inboxes", doc);
	http_reply_json(req, 200, doc);
}

static void
ask_inbox(struct http_request *req, int list)
{
	struct api_call *call = api_call_new(req);

	call->number = list;
	call->op = store_inbox_get(api_cred(req), on_inbox, call);
}

void
api_op_inboxes_list(struct http_request *req)
{
	if (api_prov(req) != NULL)
		api_prov_list(req);
	else
		ask_inbox(req, 1);
}

void
api_op_inboxes_get(struct http_request *req)
{
	ask_inbox(req, 0);
}

static void
on_changed(void *arg, enum err_code code, const struct store_inbox *inbox)
{
	struct http_request *req = api_call_end(arg);
	struct store_cred now;

	if (code == E_STATE_CONFLICT || code == E_MISSING_PERMISSION) {
		http_fail(req, E_MISSING_PERMISSION,
		    "a full key makes the mode stricter, at most to "
		    "gated_all, and names the inbox; an operator can do more");
		return;
	}
	if (code == E_VALIDATION_ERROR) {
		http_fail_field(req, code, "metadata",
		    "all of it together is more than 8 KiB or %d members",
		    METADATA_MEMBERS);
		return;
	}
	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	now = *api_cred(req);
	now.mode = inbox->mode;
	http_reply_json(req, 200, inbox_json(&now, inbox));
	secret_wipe(&now.proof);
	secret_wipe(&now.idem);
}

static int
take_mode(json_t *root, struct api_fault *fault)
{
	struct str name = api_json_str(root, "oversight_mode", 20, fault);
	enum policy_mode mode = MODE_READ_ONLY;

	if (json_object_get(root, "oversight_mode") == NULL)
		return -1;
	if (!policy_mode_find(name.p, &mode) || mode == MODE_READ_ONLY)
		api_fault_set(fault, E_VALIDATION_ERROR, "oversight_mode",
		    "must be gated_all, gated_send or monitored");
	return (int)mode;
}

static const char *
take_name(json_t *root, const char *address, struct api_fault *fault)
{
	struct str name =
	    api_json_str(root, "display_name", NAME_MAX_BYTES, fault);

	if (json_object_get(root, "display_name") == NULL)
		return NULL;
	if (!compose_name_valid(name, str_of(address)))
		api_fault_set(fault, E_VALIDATION_ERROR, "display_name",
		    "holds a control character, hides text, or looks like "
		    "another address");
	return name.p;
}

/* New text; NULL: nothing is said of it. */
static char *
take_metadata(json_t *root, struct api_fault *fault)
{
	json_t *map = json_object_get(root, "metadata"), *v;
	const char *key;

	if (map == NULL)
		return NULL;
	if (json_is_null(map))
		return json_dumps(map, JSON_ENCODE_ANY);
	if (!json_is_object(map) || json_object_size(map) == 0 ||
	    json_object_size(map) > METADATA_MEMBERS) {
		api_fault_set(fault, E_VALIDATION_ERROR, "metadata",
		    "must be null or an object with 1 to %d members",
		    METADATA_MEMBERS);
		return NULL;
	}
	json_object_foreach(map, key, v)
	{
		if (key[0] == '\0' || strlen(key) > METADATA_NAME_MAX ||
		    !compose_text_valid(str_of(key)) || json_is_object(v) ||
		    json_is_array(v) ||
		    json_string_length(v) > METADATA_VALUE_MAX)
			api_fault_set(fault, E_VALIDATION_ERROR, "metadata",
			    "names have 1 to %d bytes, values are texts of at "
			    "most %d bytes, numbers, true, false or null",
			    METADATA_NAME_MAX, METADATA_VALUE_MAX);
	}
	return json_dumps(map, JSON_COMPACT);
}

void
api_op_inboxes_patch(struct http_request *req)
{
	static const char *const names[] = { "oversight_mode", "display_name",
		"metadata", NULL };
	struct store_inbox_set set = { .mode = -1 };
	struct api_fault fault = { 0 };
	char *metadata = NULL;
	struct api_call *call;
	const char *body;
	json_t *root;
	size_t n;

	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		if (json_object_size(root) == 0)
			api_fault_set(&fault, E_VALIDATION_ERROR,
			    "oversight_mode", "nothing is to be changed");
		set.mode = take_mode(root, &fault);
		set.display_name =
		    take_name(root, api_cred(req)->address, &fault);
		set.metadata = metadata = take_metadata(root, &fault);
	}
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		call = api_call_new(req);
		call->op =
		    store_inbox_set(api_cred(req), &set, on_changed, call);
	}
	json_decref(root);
	free(metadata);
}

/* Labels. */

static void
on_labels(void *arg, enum err_code code, const char *labels)
{
	struct api_call *call = arg;
	struct uuid u = call->id;
	struct http_request *req = api_call_end(call);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &u);
	if (code == E_VALIDATION_ERROR)
		http_fail_field(req, code, "add_labels",
		    "a message has at most %d labels", SEND_LABELS_MAX);
	else if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:o}", "message_id", id, "labels",
			api_json_lines(labels, '\n')));
}

static void
label(struct http_request *req, const struct uuid *id, json_t *root,
    struct api_fault *fault)
{
	static const char *const names[] = { "add_labels", "remove_labels",
		NULL };
	struct send_list add = { 0 }, away = { 0 };
	struct arena mem = { 0 };
	struct api_call *call;

	api_json_known(root, names, fault);
	send_take_labels(&add, &mem, root, "add_labels", fault);
	send_take_labels(&away, &mem, root, "remove_labels", fault);
	if (fault->code != E_NONE) {
		api_fault_reply(req, fault);
	} else {
		call = api_call_new(req);
		call->id = *id;
		call->op = store_message_label(api_cred(req), id, add.v, add.n,
		    away.v, away.n, on_labels, call);
	}
	arena_free(&mem);
}

void
api_op_messages_patch(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct uuid id;
	const char *body;
	json_t *root;
	size_t n;

	if (!api_message_id(req, &id))
		return;
	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL)
		label(req, &id, root, &fault);
	else
		api_fault_reply(req, &fault);
	json_decref(root);
}

/* Usage. */

static void
add_count(json_t *map, const char *name, int64_t n)
{
	json_int_t old = json_integer_value(json_object_get(map, name));

	json_object_set_new(map, name, json_integer(old + n));
}

static json_t *
usage_json(const struct store_usage *u, size_t count, json_t *total)
{
	json_t *days = json_array(), *day = NULL;
	const char *last = "";
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(last, u[i].day) != 0) {
			day = json_pack("{s:s, s:i, s:{}}", "date", u[i].day,
			    "messages", 0, "by_status");
			json_array_append_new(days, day);
			last = u[i].day;
		}
		add_count(day, "messages", u[i].messages);
		add_count(json_object_get(day, "by_status"),
		    policy_state_name(u[i].state), u[i].messages);
		add_count(json_object_get(total, "by_status"),
		    policy_state_name(u[i].state), u[i].messages);
		add_count(total, "messages", u[i].messages);
		add_count(total, "recipients", u[i].recipients);
		add_count(total, "bytes", u[i].bytes);
	}
	return days;
}

static void
on_usage(
    void *arg, enum err_code code, const struct store_usage *u, size_t count)
{
	struct api_call *call = arg;
	json_t *doc = json_incref(call->doc), *days;
	struct http_request *req = api_call_end(call);

	if (code != E_NONE) {
		json_decref(doc);
		api_refuse(req, code);
		return;
	}
	/* Of a very busy inbox the newest are counted. */
	json_object_set_new(
	    doc, "truncated", json_boolean(count > 0 && u[0].cut != 0));
	if (count > 0 && u[0].cut != 0)
		json_object_set_new(doc, "after", api_json_time(u[0].cut));
	days = usage_json(u, count, doc);
	json_object_set_new(doc, "days", days);
	http_reply_json(req, 200, doc);
}

void
api_op_usage(struct http_request *req)
{
	int64_t until = clock_real_us() + 1000000, since;
	struct api_fault fault = { 0 };
	struct api_call *call;

	api_time_query(req, "before", &until, &fault);
	since = until - USAGE_DAYS * DAY_US;
	api_time_query(req, "after", &since, &fault);
	if (since > until || until - since > USAGE_DAYS_MAX * DAY_US)
		api_fault_set(&fault, E_VALIDATION_ERROR, "after",
		    "must lie before `before`, at most %d days",
		    USAGE_DAYS_MAX);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = api_call_new(req);
	call->doc = json_pack("{s:o, s:o, s:i, s:i, s:i, s:{}}", "after",
	    api_json_time(since), "before", api_json_time(until), "messages", 0,
	    "recipients", 0, "bytes", 0, "by_status");
	call->op = store_usage(api_cred(req), since, until, on_usage, call);
}
