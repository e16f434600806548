/* SPDX-License-Identifier: ISC */
/* messages.c - list, events, cancel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"
#include "store/message.h"

/* Query of a list, with room for what store_list points to. */
struct list_query {
	struct store_list list;
	char states[64];
	struct buf labels; /* joined by \n */
	struct buf filters; /* all of it, for the page token */
};

/* "held,sent" to "1,8". */
static void
take_status(struct list_query *q, const char *text, struct api_fault *fault)
{
	struct str rest = str_of(text), item;
	enum policy_state state;
	char name[24];
	size_t n = 0;

	while (rest.n > 0) {
		item = str_trim(str_split(&rest, ','));
		snprintf(name, sizeof(name), "%.*s", (int)item.n, item.p);
		if (item.n >= sizeof(name) ||
		    !policy_state_find(name, &state) || state == STATE_NEW ||
		    n + 4 > sizeof(q->states)) {
			api_fault_set(fault, E_VALIDATION_ERROR, "status",
			    "not a comma-separated list of states");
			return;
		}
		n += (size_t)snprintf(q->states + n, sizeof(q->states) - n,
		    "%s%d", n > 0 ? "," : "", (int)state);
	}
	q->list.states = n > 0 ? q->states : NULL;
}

void
api_time_query(const struct http_request *req, const char *name, int64_t *us,
    struct api_fault *fault)
{
	const char *text = http_request_query(req, name);

	if (text != NULL && !api_time_parse(str_of(text), us))
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "not a time like 2026-01-31T12:00:00Z");
}

/* One label, or a JSON array of those that a message must all have. */
static void
take_labels(const struct http_request *req, struct list_query *q,
    struct api_fault *fault)
{
	const char *text = http_request_query(req, "labels");
	json_t *list, *item;
	size_t i;

	if (text == NULL || text[0] != '[') {
		q->list.label = text;
		return;
	}
	list = json_loads(text, 0, NULL);
	if (!json_is_array(list))
		api_fault_set(fault, E_VALIDATION_ERROR, "labels",
		    "not a label, nor a JSON array of labels");
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			api_fault_set(fault, E_VALIDATION_ERROR, "labels",
			    "item %zu is not a string", i);
		else
			buf_printf(&q->labels, "%s%s", i > 0 ? "\n" : "",
			    json_string_value(item));
	}
	json_decref(list);
	q->list.label = q->labels.n > 0 ? buf_cstr(&q->labels) : NULL;
}

static void
take_query(const struct http_request *req, struct list_query *q,
    struct api_fault *fault)
{
	const char *direction = http_request_query(req, "direction");
	const char *status = http_request_query(req, "status");
	struct api_page page = { 0 };

	if (direction != NULL && strcmp(direction, "received") == 0)
		api_fault_set(fault, E_RECEIVING_NOT_ENABLED, "direction",
		    "no mail is received yet");
	else if (direction != NULL && strcmp(direction, "sent") != 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "direction",
		    "must be sent or received");
	if (status != NULL)
		take_status(q, status, fault);
	api_time_query(req, "after", &q->list.since, fault);
	api_time_query(req, "before", &q->list.until, fault);
	take_labels(req, q, fault);
	buf_printf(&q->filters, "%s|%lld|%lld|%s",
	    q->list.states != NULL ? q->list.states : "",
	    (long long)q->list.since, (long long)q->list.until,
	    q->list.label != NULL ? q->list.label : "");
	api_page_query(&page, req, buf_str(&q->filters),
	    "after before direction labels status", fault);
	q->list.limit = page.limit;
	q->list.after = page.after;
}

/* The filters of the list stay with the call, for its page token. */
static void
on_list(void *arg, enum err_code code, const struct store_message *messages,
    size_t count)
{
	struct api_call *call = arg;
	int limit = call->number;
	struct buf filters = { 0 };
	struct http_request *req;
	json_t *list;
	size_t i;

	buf_puts(&filters, json_string_value(call->doc));
	req = api_call_end(call);
	if (code != E_NONE) {
		buf_free(&filters);
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(
		    list, api_render_message(&messages[i], api_cred(req)));
	api_page_reply(req, "messages", list, limit, buf_str(&filters),
	    count > 0 ? &messages[count - 1].message : NULL);
	buf_free(&filters);
}

void
api_op_messages_list(struct http_request *req)
{
	struct list_query q = { 0 };
	struct api_fault fault = { 0 };
	struct api_call *call;

	take_query(req, &q, &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		call = api_call_new(req);
		call->number = q.list.limit;
		call->doc = json_string(buf_cstr(&q.filters));
		call->op =
		    store_message_list(api_cred(req), &q.list, on_list, call);
	}
	buf_free(&q.labels);
	buf_free(&q.filters);
}

static void
on_events(
    void *arg, enum err_code code, const struct store_event *e, size_t count)
{
	struct api_call *call = arg;
	struct uuid id = call->id;
	struct http_request *req = api_call_end(call);
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, api_render_event(&id, &e[i]));
	http_reply_json(req, 200,
	    json_pack(
		"{s:I, s:o}", "count", (json_int_t)count, "events", list));
}

void
api_op_messages_events(struct http_request *req)
{
	struct api_call *call;
	struct uuid id;

	if (!api_message_id(req, &id))
		return;
	call = api_call_new(req);
	call->id = id;
	call->op = store_message_events(api_cred(req), &id, on_events, call);
}

static void
on_cancel(void *arg, enum err_code code, int state)
{
	struct api_call *call = arg;
	struct uuid u = call->id;
	struct http_request *req = api_call_end(call);
	const char *name = policy_state_name(state);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &u);
	if (code == E_STATE_CONFLICT)
		http_fail_more(req, code, json_pack("{s:s}", "status", name),
		    "the message is %s", name);
	else if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:s}", "message_id", id, "status", name));
}

void
api_op_messages_cancel(struct http_request *req)
{
	struct api_call *call;
	struct uuid id;

	if (!api_message_id(req, &id))
		return;
	call = api_call_new(req);
	call->id = id;
	call->op = store_message_cancel(api_cred(req), &id, on_cancel, call);
}
