/* SPDX-License-Identifier: ISC */
/*
 * grants.c - views into other inboxes: which there are, saying yes or no to
 * one, and what a live one shows. An operator offers, the inbox's own key
 * accepts; every look is in the audit log.
 */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/digest.h"
#include "policy/vocabulary.h"
#include "store/grant.h"
#include "store/message.h"

#define GRANTS_MAX 100

/* Saying yes or no. */
struct answer {
	struct http_request *req;
	struct store_grant_op *op;
	const char *status;
};

static void
on_gone(void *arg)
{
	struct answer *a = arg;

	store_grant_cancel(a->op);
	free(a);
}

static const char *
status_of(const struct store_grant *g, int64_t now)
{
	if (g->ended_at != 0)
		return "ended";
	if (g->expires_at <= now)
		return "expired";
	return g->accepted_at != 0 ? "active" : "offered";
}

static json_t *
render(const struct store_grant *g, const struct store_cred *cred, int64_t now)
{
	return json_pack("{s:o, s:s, s:s, s:s, s:b, s:s, s:o, s:o, s:o, s:o, "
			 "s:i}",
	    "grant_id", json_sprintf("%lld", (long long)g->id), "inbox_id",
	    g->given ? cred->address : g->other, "reader",
	    g->given ? g->other : cred->address, "what",
	    g->messages ? "messages" : "states", "given", (int)g->given,
	    "status", status_of(g, now), "offered_at",
	    api_json_time(g->offered_at), "accepted_at",
	    api_json_time(g->accepted_at), "expires_at",
	    api_json_time(g->expires_at), "ended_at",
	    api_json_time(g->ended_at), "reads", g->reads);
}

static void
on_grants(
    void *arg, enum err_code code, const struct store_grant *g, size_t count)
{
	struct http_request *req = api_call_end(arg);
	int64_t now = clock_real_us();
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, render(&g[i], api_cred(req), now));
	http_reply_json(req, 200,
	    json_pack(
		"{s:I, s:o}", "count", (json_int_t)count, "grants", list));
}

void
api_op_grants_list(struct http_request *req)
{
	struct api_call *call = api_call_new(req);

	call->op = store_grants(api_cred(req), GRANTS_MAX, on_grants, call);
}

/* False: answered. */
static bool
take_id(struct http_request *req, int64_t *id)
{
	unsigned long long n;

	if (str_to_u64(
		str_of(http_request_param(req, "grant_id")), INT64_MAX, &n) &&
	    n > 0) {
		*id = (int64_t)n;
		return true;
	}
	http_fail(req, E_NOT_FOUND, "this is not the id of a grant");
	return false;
}

static void
refuse(struct http_request *req, enum err_code code)
{
	if (code == E_NOT_FOUND)
		http_fail(req, code, "there is no such grant, or it is over");
	else if (code == E_MISSING_PERMISSION)
		http_fail(req, code,
		    "this grant shows states, and no mail; or this key may "
		    "not use it");
	else if (code == E_STATE_CONFLICT)
		http_fail(req, code,
		    "it was accepted before, or the other inbox has no owner");
	else
		api_refuse(req, code);
}

static void
on_answered(void *arg, enum err_code code)
{
	struct answer *a = arg;
	struct http_request *req = a->req;
	const char *status = a->status;

	http_request_on_cancel(req, NULL, NULL);
	free(a);
	if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:s}", "grant_id",
			http_request_param(req, "grant_id"), "status", status));
}

static struct answer *
new_answer(struct http_request *req, const char *status)
{
	struct answer *a = xcalloc(1, sizeof(*a));

	a->req = req;
	a->status = status;
	http_request_on_cancel(req, on_gone, a);
	return a;
}

void
api_op_grants_accept(struct http_request *req)
{
	struct secret kek = { 0 };
	struct answer *a;
	int64_t id;

	if (!take_id(req, &id))
		return;
	if (!store_token_kek(api_token(req), &kek)) {
		api_refuse(req, E_UNKNOWN_API_KEY);
		return;
	}
	a = new_answer(req, "active");
	a->op = store_grant_accept(api_cred(req), id, &kek, on_answered, a);
	secret_wipe(&kek);
}

void
api_op_grants_end(struct http_request *req)
{
	struct answer *a;
	int64_t id;

	if (!take_id(req, &id))
		return;
	a = new_answer(req, "ended");
	a->op = store_grant_leave(api_cred(req), id, on_answered, a);
}

static json_t *
render_message(const struct store_granted *m)
{
	char id[UUID_ID_MAX], thread[UUID_ID_MAX], digest[DIGEST_TEXT_MAX];
	json_t *doc;

	uuid_to_id(id, "msg_", &m->message);
	doc = json_pack("{s:s, s:s, s:o, s:o, s:b}", "message_id", id, "status",
	    policy_state_name(m->state), "created_at",
	    api_json_time(m->created_at), "updated_at",
	    api_json_time(m->updated_at), "untrusted", 1);
	if (m->digest.n != DIGEST_LEN)
		return doc;
	uuid_to_id(thread, "thr_", &m->thread);
	digest_format(digest, (const unsigned char *)m->digest.p);
	json_object_update_new(
	    doc, json_pack("{s:s, s:s, s:o, s:o, s:I, s:s}", "thread_id",
		     thread, "from", m->mail_from, "recipients",
		     api_json_lines(m->rcpts, '\n'), "subject",
		     api_json_strn(m->subject, strlen(m->subject)), "size",
		     (json_int_t)m->size, "digest", digest));
	return doc;
}

static struct str
filters_of(const struct http_request *req)
{
	return str_of(http_request_param(req, "grant_id"));
}

static void
on_messages(
    void *arg, enum err_code code, const struct store_granted *m, size_t count)
{
	struct api_call *call = arg;
	int limit = call->number;
	struct http_request *req = api_call_end(call);
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, render_message(&m[i]));
	api_page_reply(req, "messages", list, limit, filters_of(req),
	    count > 0 ? &m[count - 1].message : NULL);
}

void
api_op_grants_messages(struct http_request *req)
{
	static const struct uuid none;
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct api_call *call;
	int64_t id;

	if (!take_id(req, &id))
		return;
	api_page_query(&page, req, filters_of(req), "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = api_call_new(req);
	call->number = page.limit;
	call->op = store_granted(api_cred(req), id, NULL,
	    memcmp(&page.after, &none, sizeof(none)) != 0 ? &page.after : NULL,
	    page.limit, on_messages, call);
}

static void
on_message(
    void *arg, enum err_code code, const struct store_granted *m, size_t count)
{
	struct http_request *req = api_call_end(arg);

	if (code != E_NONE)
		refuse(req, code);
	else if (count != 1)
		refuse(req, E_NOT_FOUND);
	else
		http_reply_json(req, 200, render_message(&m[0]));
}

void
api_op_grants_message(struct http_request *req)
{
	struct api_call *call;
	struct uuid message;
	int64_t id;

	if (!take_id(req, &id) || !api_message_id(req, &message))
		return;
	call = api_call_new(req);
	call->op = store_granted(
	    api_cred(req), id, &message, NULL, 1, on_message, call);
}

void
api_op_grants_raw(struct http_request *req)
{
	struct uuid message;
	int64_t id;

	if (take_id(req, &id) && api_message_id(req, &message))
		api_raw_send(req, &message, id, (struct str){ "", 0 });
}
