/* SPDX-License-Identifier: ISC */
/*
 * reports.c - GET .../messages/{m}/reports: what next hops and the worker said
 * of a message's delivery, as RFC 3464 has it, opened with the caller's key.
 */
#include "api/internal.h"
#include "base/buf.h"
#include "base/secret.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/header.h"
#include "store/message.h"

/* Bytes that are not UTF-8 are shown as such: the next hop's words never
 * are, the message's header may be. */
static json_t *
content(struct str text)
{
	struct buf clean = { 0 };
	json_t *out;

	if (text.p == NULL)
		return json_null();
	out = json_stringn(text.p, text.n);
	if (out != NULL)
		return out;
	while (text.n > 0) {
		utf8_clean(&clean, str_trim(str_split(&text, '\n')));
		buf_puts(&clean, "\r\n");
	}
	out = json_stringn((char *)clean.p, clean.n);
	buf_free(&clean);
	return out;
}

static json_t *
render(const struct store_report *r)
{
	json_t *ix = json_array();
	struct str rest = str_of(r->ix);
	unsigned long long n;

	while (rest.n > 0 && str_to_u64(str_split(&rest, ','), 1000, &n))
		json_array_append_new(ix, json_integer((json_int_t)n));
	return json_pack("{s:s, s:o, s:o, s:b, s:o}", "kind", r->kind, "at",
	    api_json_time(r->at), "recipients", ix, "untrusted", 1, "content",
	    content(r->content));
}

static void
on_reports(
    void *arg, enum err_code code, const struct store_report *r, size_t count)
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
		json_array_append_new(list, render(&r[i]));
	http_reply_json(req, 200,
	    json_pack(
		"{s:I, s:o}", "count", (json_int_t)count, "reports", list));
}

void
api_op_messages_reports(struct http_request *req)
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
	call->op =
	    store_message_reports(api_cred(req), &id, &kek, on_reports, call);
	secret_wipe(&kek);
}
