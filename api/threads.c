/* SPDX-License-Identifier: ISC */
/* threads.c - messages of the inbox that belong together. */
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/message.h"

#define FILTERS "threads"

/* Each line once, in order. */
static json_t *
distinct_lines(const char *text)
{
	json_t *all = api_json_lines(text, '\n'), *list = json_array();
	json_t *seen = json_object(), *v;
	size_t i;

	json_array_foreach(all, i, v)
	{
		const char *s = json_string_value(v);

		if (s[0] == '\0' || json_object_get(seen, s) != NULL)
			continue;
		json_object_set_new(seen, s, json_true());
		json_array_append(list, v);
	}
	json_decref(all);
	json_decref(seen);
	return list;
}

static json_t *
thread_json(const struct store_thread *t, const struct store_cred *cred)
{
	char id[UUID_ID_MAX], last[UUID_ID_MAX];

	uuid_to_id(id, "thr_", &t->thread);
	uuid_to_id(last, "msg_", &t->last);
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:[s], s:o, s:o, s:s, s:I, "
			 "s:I, s:o, s:o}",
	    "thread_id", id, "inbox_id", cred->address, "labels",
	    distinct_lines(t->labels), "timestamp",
	    api_json_time(t->updated_at), "sent_timestamp",
	    api_json_time(t->updated_at), "senders", cred->address,
	    "recipients", distinct_lines(t->rcpts), "subject",
	    api_json_strn(t->subject, strlen(t->subject)), "last_message_id",
	    last, "message_count", (json_int_t)t->messages, "size",
	    (json_int_t)t->size, "created_at", api_json_time(t->created_at),
	    "updated_at", api_json_time(t->updated_at));
}

static void
on_threads(void *arg, enum err_code code, const struct store_thread *threads,
    size_t count)
{
	struct api_call *call = arg;
	int limit = call->number;
	struct http_request *req = api_call_end(call);
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(
		    list, thread_json(&threads[i], api_cred(req)));
	api_page_reply(req, "threads", list, limit, str_lit(FILTERS),
	    count > 0 ? &threads[count - 1].last : NULL);
}

void
api_op_threads_list(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct api_call *call;

	api_page_query(&page, req, str_lit(FILTERS), "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = api_call_new(req);
	call->number = page.limit;
	call->op = store_threads(
	    api_cred(req), &page.after, page.limit, on_threads, call);
}

/* One thread is made of its messages, which are here. */
static void
fill_thread(struct store_thread *t, struct buf *rcpts, struct buf *labels,
    const struct store_message *m, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		buf_printf(rcpts, "%s\n", m[i].rcpts);
		buf_printf(labels, "%s\n", m[i].labels);
	}
	t->thread = m[0].thread;
	t->last = m[0].last;
	t->messages = m[0].total;
	t->size = m[0].total_size;
	t->subject = m[0].subject;
	t->rcpts = buf_cstr(rcpts);
	t->labels = buf_cstr(labels);
	t->created_at = m[0].created_at;
	t->updated_at = m[count - 1].created_at;
}

static void
on_thread(
    void *arg, enum err_code code, const struct store_message *m, size_t count)
{
	struct http_request *req = api_call_end(arg);
	struct buf rcpts = { 0 }, labels = { 0 };
	struct store_thread t = { 0 };
	json_t *doc, *list;
	size_t i;

	if (code != E_NONE || count == 0) {
		api_refuse(req, code != E_NONE ? code : E_NOT_FOUND);
		return;
	}
	fill_thread(&t, &rcpts, &labels, m, count);
	doc = thread_json(&t, api_cred(req));
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(
		    list, api_render_message(&m[i], api_cred(req)));
	json_object_set_new(doc, "messages", list);
	json_object_set_new(doc, "count", json_integer((json_int_t)count));
	buf_free(&rcpts);
	buf_free(&labels);
	http_reply_json(req, 200, doc);
}

void
api_op_threads_get(struct http_request *req)
{
	struct api_call *call;
	struct uuid id;

	if (!uuid_from_id(
		&id, "thr_", str_of(http_request_param(req, "thread_id")))) {
		http_fail(req, E_NOT_FOUND, "this is not the id of a thread");
		return;
	}
	call = api_call_new(req);
	call->op = store_thread_messages(api_cred(req), &id, on_thread, call);
}
