/* SPDX-License-Identifier: ISC */
/*
 * captures.c - what mail of a test inbox would have been on the wire: the
 * envelope of each delivery, and its bytes with the signatures in front.
 */
#include "api/internal.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/message.h"

#define CAPTURES_MAX 1000 /* of one message: api.my_captures_1 */

static json_t *
render(const struct store_capture *c)
{
	return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o}", "capture_id",
	    json_sprintf("%d", c->n), "domain", c->domain, "mail_from",
	    c->mail_from, "recipients", api_json_lines(c->rcpts, '\n'), "at",
	    api_json_time(c->at), "fields",
	    api_json_strn(c->fields.p, c->fields.n));
}

static void
on_list(
    void *arg, enum err_code code, const struct store_capture *c, size_t count)
{
	struct http_request *req = api_call_end(arg);
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, render(&c[i]));
	http_reply_json(req, 200,
	    json_pack(
		"{s:I, s:o}", "count", (json_int_t)count, "captures", list));
}

static void
on_one(
    void *arg, enum err_code code, const struct store_capture *c, size_t count)
{
	struct api_call *call = arg;
	struct uuid id = call->id;
	int number = call->number;
	struct http_request *req = api_call_end(call);
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	for (i = 0; i < count && c[i].n != number; i++)
		;
	if (i == count)
		http_fail(
		    req, E_NOT_FOUND, "nothing was captured with this id");
	else
		api_raw_send(req, &id, 0, c[i].fields);
}

static void
begin(struct http_request *req, int number, store_captures_fn *done)
{
	struct secret kek = { 0 };
	struct api_call *call;
	struct uuid id;

	if (!api_message_id(req, &id))
		return;
	if (!store_token_kek(api_token(req), &kek)) {
		api_refuse(req, E_UNKNOWN_API_KEY);
		return;
	}
	call = api_call_new(req);
	call->id = id;
	call->number = number;
	call->op = store_message_captures(api_cred(req), &id, &kek, done, call);
	secret_wipe(&kek);
}

void
api_op_messages_captures(struct http_request *req)
{
	begin(req, 0, on_list);
}

void
api_op_messages_capture(struct http_request *req)
{
	unsigned long long n;

	if (str_to_u64(str_of(http_request_param(req, "capture_id")),
		CAPTURES_MAX, &n) &&
	    n > 0)
		begin(req, (int)n, on_one);
	else
		http_fail(req, E_NOT_FOUND, "this is not the id of a capture");
}
