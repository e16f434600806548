/* SPDX-License-Identifier: ISC */
/* account.c - claiming, who am I, the inbox. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"
#include "store/message.h"

static const char *
mode_in_words(int mode)
{
	switch ((enum policy_mode)mode) {
	case MODE_READ_ONLY:
		return "This inbox may not send.";
	case MODE_GATED_ALL:
		return "Every outgoing and incoming mail waits for a person.";
	case MODE_GATED_SEND:
		return "Every outgoing mail waits for a person.";
	case MODE_MONITORED:
		return "Mail is sent at once; people see it afterwards.";
	case MODE_AUTONOMOUS:
		return "Mail is sent at once, within limits.";
	case MODE_COUNT:
		break;
	}
	return "";
}

json_t *
api_render_inbox(const struct store_cred *cred)
{
	return json_pack(
	    "{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:b, s:b, s:b, s:i, s:o, s:o}",
	    "inbox_id", cred->address, "email", cred->address, "pod_id",
	    cred->tenant_slug, "display_name",
	    api_json_strn(cred->display_name, strlen(cred->display_name)),
	    "tenant", cred->tenant_slug, "oversight_mode",
	    policy_mode_name(cred->mode), "mode_in_words",
	    mode_in_words(cred->mode), "paused", (int)cred->paused,
	    "domain_verified", (int)cred->domain_verified, "test",
	    (int)cred->test, "epoch", cred->inbox_epoch, "reset_at",
	    api_json_time(cred->reset_at), "reset_by",
	    api_json_text(cred->reset_by));
}

static json_t *
permissions(const struct store_cred *cred)
{
	static const char *const full[] = { "drafts", "labels", "block",
		"sessions", "keys", "grants", "tighten_mode" };
	json_t *list = json_array();
	size_t i;

	if (cred->scope != 'r' && cred->mode != MODE_READ_ONLY)
		json_array_append_new(list, json_string("send"));
	if (cred->scope != 'r')
		json_array_append_new(list, json_string("cancel"));
	if (cred->scope == 's') {
		json_array_append_new(list, json_string("status_of_own"));
	} else {
		json_array_append_new(list, json_string("list"));
		json_array_append_new(list, json_string("raw"));
	}
	if (cred->scope == 'f' && cred->kind != 's')
		for (i = 0; i < sizeof(full) / sizeof(full[0]); i++)
			json_array_append_new(list, json_string(full[i]));
	return list;
}

static json_t *
me(const struct store_cred *cred)
{
	json_t *doc = api_render_inbox(cred), *limits, *used;

	limits = json_pack("{s:i, s:i, s:i, s:i, s:I, s:i, s:I}",
	    "messages_hour", cred->lim_hour, "messages_day", cred->lim_day,
	    "messages_month", cred->lim_month, "held", cred->lim_held,
	    "bytes_open", (json_int_t)cred->lim_bytes, "recipients",
	    cred->rcpt_max, "size", (json_int_t)cred->size_max);
	used = json_pack("{s:i, s:i, s:i}", "messages_day", cred->used_day,
	    "messages_month", cred->used_month, "held", cred->held);
	/* as AgentMail's clients name them */
	json_object_set_new(doc, "scope_type", json_string("inbox"));
	json_object_set_new(doc, "scope_id", json_string(cred->address));
	json_object_set_new(
	    doc, "organization_id", json_string(cred->tenant_slug));
	json_object_set_new(doc, "api_key_id", api_key_id(cred->key));
	json_object_set_new(doc, "principal",
	    json_string(cred->kind == 's'   ? "session_key"
			: cred->kind == 't' ? "test_key"
					    : "inbox_key"));
	json_object_set_new(doc, "key",
	    json_pack("{s:o, s:s, s:s, s:o}", "key_id", api_key_id(cred->key),
		"kind", api_kind_name(cred->kind), "scope",
		api_scope_name(cred->scope), "expires_at",
		api_json_time(cred->key_expires)));
	json_object_set_new(doc, "permissions", permissions(cred));
	json_object_set_new(doc, "limits", limits);
	json_object_set_new(doc, "used", used);
	return doc;
}

/* Windows are told when the limiter answers; without it the rest is. */
static void
on_limits(
    void *arg, enum err_code code, const struct store_limit *l, size_t count)
{
	struct http_request *req = api_call_end(arg);
	json_t *doc = me(api_cred(req)), *list = json_array();
	size_t i;

	for (i = 0; code == E_NONE && i < count; i++)
		json_array_append_new(
		    list, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name",
			      l[i].name, "seconds", (json_int_t)l[i].seconds,
			      "limit", (json_int_t)l[i].limit, "remaining",
			      (json_int_t)l[i].left, "reset",
			      (json_int_t)l[i].reset));
	json_object_set_new(doc, "windows", list);
	http_reply_json(req, 200, doc);
}

void
api_op_auth_me(struct http_request *req)
{
	struct api_call *call;

	if (api_prov(req) != NULL) {
		api_prov_me(req);
		return;
	}
	call = api_call_new(req);
	call->op = store_limits(api_cred(req), on_limits, call);
}

/* A claim under way. */
struct claim {
	struct http_request *req;
	struct store_claim *op;
};

static void
on_claim_cancel(void *arg)
{
	struct claim *c = arg;

	store_claim_cancel(c->op);
	free(c);
}

static void
on_claimed(void *arg, enum err_code code, const struct store_claimed *result)
{
	struct claim *c = arg;
	struct http_request *req = c->req;

	http_request_on_cancel(req, NULL, NULL);
	free(c);
	if (code == E_CLAIM_INVALID)
		api_refuse_secret(req, code);
	else if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 201,
		    json_pack("{s:s, s:s, s:s, s:i, s:b}", "inbox_id",
			result->inbox, "key", result->key, "smtp_key",
			result->smtp_key, "epoch", result->epoch, "test",
			(int)result->test));
}

void
api_op_claim(struct http_request *req)
{
	static const char *const names[] = { "code", NULL };
	struct api_fault fault = { 0 };
	struct str code = { "", 0 };
	struct claim *c;
	const char *body;
	json_t *root;
	size_t n;

	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		code = api_json_str(root, "code", 64, &fault);
		if (code.n == 0)
			api_fault_set(&fault, E_VALIDATION_ERROR, "code",
			    "the claim code is missing");
	}
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		c = xcalloc(1, sizeof(*c));
		c->req = req;
		http_request_on_cancel(req, on_claim_cancel, c);
		c->op = store_claim(api_of(req)->store, code, on_claimed, c);
	}
	json_decref(root);
}
