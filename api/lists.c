/* SPDX-License-Identifier: ISC */
/*
 * lists.c - .../lists/{direction}/{list_type}: whom the inbox may not write
 * to, and whose mail needs no decision. An agent adds to its own block list
 * and does nothing else: the rest is its operators'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/address.h"
#include "mail/compose.h"
#include "store/entry.h"
#include "store/message.h"

#define ENTRY_MAX 320
#define REASON_MAX 1000
/* AgentMail's name of a member; it is not the mode. */
#define FIXED                                                                  \
	"read"                                                                 \
	"_only"
#define REASON_NONE "added by the inbox's agent"

/* 'b', 'a'; 0: answered. */
static char
which_list(struct http_request *req)
{
	const char *direction = http_request_param(req, "direction");
	const char *type = http_request_param(req, "list_type");
	bool is_block = strcmp(type, "block") == 0;

	if (!is_block && strcmp(type, "allow") != 0) {
		http_fail(req, E_NOT_FOUND, "a list is `allow` or `block`");
	} else if (strcmp(direction, "send") == 0) {
		return is_block ? 'b' : 'a';
	} else if (strcmp(direction, "receive") == 0 ||
		   strcmp(direction, "reply") == 0) {
		http_fail(req, E_RECEIVING_NOT_ENABLED,
		    "no mail is received here, so there is no such list yet");
	} else {
		http_fail(req, E_NOT_FOUND,
		    "a direction is `send`, `receive` or `reply`");
	}
	return 0;
}

static json_t *
render(const struct http_request *req, const struct store_entry *e)
{
	const struct store_cred *cred = api_cred(req);
	bool is_domain = e->entry[0] == '@';
	json_t *doc = json_pack(
	    "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b}", "entry",
	    e->entry + is_domain, "entry_type", is_domain ? "domain" : "email",
	    "direction", http_request_param(req, "direction"), "list_type",
	    http_request_param(req, "list_type"), "organization_id",
	    cred->tenant_slug, "pod_id", cred->tenant_slug, "inbox_id",
	    cred->address, "created_at", api_json_time(e->created_at),
	    "expires_at", api_json_time(e->expires_at), FIXED, 1);

	if (e->reason[0] != '\0')
		json_object_set_new(
		    doc, "reason", api_json_strn(e->reason, strlen(e->reason)));
	return doc;
}

static struct str
filters_of(const struct http_request *req)
{
	return str_of(strcmp(http_request_param(req, "list_type"), "block") == 0
			  ? "list:block"
			  : "list:allow");
}

static void
on_list(
    void *arg, enum err_code code, const struct store_entry *e, size_t count)
{
	struct api_call *call = arg;
	int limit = call->number;
	struct http_request *req = api_call_end(call);
	struct uuid last;
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		api_refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, render(req, &e[i]));
	if (count > 0)
		api_place_of(&last, e[count - 1].id);
	api_page_reply(req, "entries", list, limit, filters_of(req),
	    count > 0 ? &last : NULL);
}

void
api_op_lists_list(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct api_call *call;
	char what = which_list(req);

	if (what == 0)
		return;
	api_page_query(&page, req, filters_of(req), "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = api_call_new(req);
	call->number = page.limit;
	call->op = store_entries(api_cred(req), what, NULL,
	    api_place_id(&page.after), page.limit, on_list, call);
}

static void
on_one(void *arg, enum err_code code, const struct store_entry *e, size_t count)
{
	struct http_request *req = api_call_end(arg);

	if (code != E_NONE)
		api_refuse(req, code);
	else if (count == 0)
		http_fail(req, E_NOT_FOUND, "this is not on the inbox's list");
	else
		http_reply_json(req, 200, render(req, &e[0]));
}

void
api_op_lists_get(struct http_request *req)
{
	char what = which_list(req), entry[ADDRESS_MAX + 1];
	struct api_call *call;

	if (what == 0)
		return;
	const char *given = http_request_param(req, "entry");

	if (!address_entry_canonical(entry, str_of(given))) {
		http_fail(req, E_NOT_FOUND, "an entry is an address or domain");
		return;
	}
	call = api_call_new(req);
	call->op =
	    store_entries(api_cred(req), what, entry, 0, 1, on_one, call);
}

void
api_op_lists_delete(struct http_request *req)
{
	if (which_list(req) != 0)
		http_fail(req, E_MISSING_PERMISSION,
		    "taking an entry off a list is an operator's; an agent "
		    "may only add to its own block list");
}

static void
on_added(void *arg, enum err_code code, int64_t created_at, bool fresh)
{
	struct api_call *call = arg;
	json_t *doc = json_incref(call->doc);
	struct http_request *req = api_call_end(call);
	struct store_entry e = { .created_at = created_at };

	e.entry = json_string_value(json_object_get(doc, "entry"));
	e.reason = json_string_value(json_object_get(doc, "reason"));
	if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, fresh ? 201 : 200, render(req, &e));
	json_decref(doc);
}

void
api_op_lists_create(struct http_request *req)
{
	static const char *const names[] = { "entry", "reason", NULL };
	char what = which_list(req), entry[ADDRESS_MAX + 1] = "";
	struct api_fault fault = { 0 };
	struct str reason = { "", 0 };
	struct api_call *call;
	const char *body;
	json_t *root;
	size_t n;

	if (what == 0)
		return;
	if (what == 'a') {
		http_fail(req, E_MISSING_PERMISSION,
		    "whose mail needs no decision, operators decide");
		return;
	}
	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		if (!address_entry_canonical(
			entry, api_json_str(root, "entry", ENTRY_MAX, &fault)))
			api_fault_set(&fault, E_VALIDATION_ERROR, "entry",
			    "must be an address, or a domain without *");
		reason = api_json_str(root, "reason", REASON_MAX, &fault);
		if (!compose_text_valid(reason))
			api_fault_set(&fault, E_VALIDATION_ERROR, "reason",
			    "holds a control character");
		if (str_trim(reason).n == 0)
			reason = str_lit(REASON_NONE);
	}
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		call = api_call_new(req);
		call->doc = json_pack("{s:s, s:s%}", "entry", entry, "reason",
		    reason.p, reason.n);
		call->op =
		    store_block(api_cred(req), entry, reason, on_added, call);
	}
	json_decref(root);
}
