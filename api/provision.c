/* SPDX-License-Identifier: ISC */
/*
 * provision.c - what a provisioning token does: make inboxes, see which there
 * are, pause and delete them. It never sees a key nor a mail: who gets the
 * claim code makes the keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/address.h"
#include "mail/compose.h"
#include "policy/vocabulary.h"
#include "store/provision.h"

#define DISPLAY_NAME_MAX 200
#define CLIENT_ID_MAX 200
#define RANDOM_BYTES 10 /* of a name nobody chose */

/* A call under way. */
struct prov_call {
	struct http_request *req;
	struct store_prov_op *op;
	int limit;
};

static void
on_gone(void *arg)
{
	struct prov_call *call = arg;

	store_prov_cancel(call->op);
	free(call);
}

static struct prov_call *
new_call(struct http_request *req)
{
	struct prov_call *call = xcalloc(1, sizeof(*call));

	call->req = req;
	http_request_on_cancel(req, on_gone, call);
	return call;
}

static struct http_request *
end_call(struct prov_call *call)
{
	struct http_request *req = call->req;

	http_request_on_cancel(req, NULL, NULL);
	free(call);
	return req;
}

static void
refuse(struct http_request *req, enum err_code code)
{
	if (code == E_NOT_FOUND)
		http_fail(
		    req, code, "this token made no inbox with this address");
	else if (code == E_MISSING_PERMISSION)
		http_fail(req, code, "this token has no right to %s",
		    http_request_route(req)->operation);
	else
		api_refuse(req, code);
}

static json_t *
rights_of(const struct store_prov *prov)
{
	static const struct {
		char letter;
		const char *name;
	} words[] = { { 'c', "create" }, { 'l', "list" }, { 'p', "pause" },
		{ 'd', "delete" } };
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strchr(prov->rights, words[i].letter) != NULL)
			json_array_append_new(list, json_string(words[i].name));
	}
	return list;
}

void
api_prov_me(struct http_request *req)
{
	const struct store_prov *prov = api_prov(req);

	http_reply_json(req, 200,
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:i, s:i, "
		      "s:b, s:o}",
		"principal", "provisioning_token", "scope_type", "pod",
		"scope_id", prov->tenant_slug, "organization_id",
		prov->tenant_slug, "tenant", prov->tenant_slug, "name",
		prov->name, "permissions", rights_of(prov), "domains",
		api_json_lines(prov->domains, '\n'), "plan", prov->plan,
		"max_inboxes", prov->max_inboxes, "inboxes", prov->inboxes,
		"test_only", (int)prov->test, "expires_at",
		api_json_time(prov->expires_at)));
}

static json_t *
render(const struct http_request *req, const struct store_prov_box *b)
{
	const char *slug = api_prov(req)->tenant_slug;

	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:b, s:b, "
			 "s:s, s:b, s:o, s:o}",
	    "inbox_id", b->address, "email", b->address, "pod_id", slug,
	    "tenant", slug, "display_name",
	    api_json_strn(b->display_name, strlen(b->display_name)),
	    "client_id", api_json_text(b->client_id), "test", (int)b->test,
	    "claimed", (int)b->claimed, "paused", (int)b->paused, "suspended",
	    (int)b->suspended, "oversight_mode", policy_mode_name(b->mode),
	    "one_click", (int)b->one_click, "created_at",
	    api_json_time(b->created_at), "updated_at",
	    api_json_time(b->created_at));
}

static const struct str inboxes_filter = { "inboxes", 7 };

static void
on_list(
    void *arg, enum err_code code, const struct store_prov_box *v, size_t count)
{
	struct prov_call *call = arg;
	int limit = call->limit;
	struct http_request *req = end_call(call);
	struct uuid last;
	json_t *list;
	size_t i;

	if (code != E_NONE) {
		refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < count; i++)
		json_array_append_new(list, render(req, &v[i]));
	if (count > 0)
		api_place_of(&last, v[count - 1].id);
	api_page_reply(req, "inboxes", list, limit, inboxes_filter,
	    count > 0 ? &last : NULL);
}

void
api_prov_list(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct prov_call *call;

	api_page_query(&page, req, inboxes_filter, "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = new_call(req);
	call->limit = page.limit;
	call->op = store_prov_list(api_prov(req), api_place_id(&page.after),
	    page.limit, on_list, call);
}

static void
on_made(void *arg, enum err_code code, const struct store_prov_made *made)
{
	struct http_request *req = end_call(arg);
	const char *slug = api_prov(req)->tenant_slug;

	if (code == E_INVALID_ADDRESS)
		http_fail_field(req, code, "address",
		    "not an address that an inbox may have");
	else if (code == E_STATE_CONFLICT)
		http_fail(req, code,
		    "there is, or was until lately, an inbox "
		    "with this address");
	else if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, made->fresh ? 201 : 200,
		    json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o}",
			"inbox_id", made->address, "email", made->address,
			"pod_id", slug, "tenant", slug, "test", (int)made->test,
			"claim_code",
			made->claim_code != NULL ? json_string(made->claim_code)
						 : json_null(),
			"claim_until", api_json_time(made->claim_until),
			"created_at", api_json_time(made->created_at),
			"updated_at", api_json_time(made->created_at)));
}

/* `address`, or `username` and `domain`: what is missing is filled in. */
static void
take_address(struct buf *out, json_t *root, const struct store_prov *prov,
    struct api_fault *fault)
{
	struct str whole = api_json_str(root, "address", ADDRESS_MAX, fault);
	struct str user = api_json_str(root, "username", ADDRESS_MAX, fault);
	struct str domain = api_json_str(root, "domain", ADDRESS_MAX, fault);
	char name[BASE32_LEN(RANDOM_BYTES) + 1];
	struct secret random = { 0 };

	if (whole.n > 0) {
		if (user.n > 0 || domain.n > 0)
			api_fault_set(fault, E_VALIDATION_ERROR, "address",
			    "goes without username and domain");
		buf_add_str(out, whole);
		return;
	}
	if (domain.n == 0 && strchr(prov->domains, '\n') == NULL)
		domain = str_of(prov->domains);
	if (domain.n == 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "domain",
		    "is needed: this token has more than one");
	if (user.n == 0) {
		secret_random(&random, RANDOM_BYTES);
		base32_encode(name, random.b, RANDOM_BYTES);
		secret_wipe(&random);
		user = str_of(name);
	}
	buf_add_str(out, user);
	buf_puts(out, "@");
	buf_add_str(out, domain);
}

static const char *
take_text(json_t *root, const char *name, size_t max, struct api_fault *fault)
{
	struct str s = api_json_str(root, name, max, fault);

	if (!compose_text_valid(s))
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "holds a control character");
	return s.n > 0 ? s.p : NULL;
}

static void
create(struct http_request *req, json_t *root, struct api_fault *fault)
{
	static const char *const names[] = { "address", "username", "domain",
		"display_name", "client_id", "test", NULL };
	const char *display, *client;
	struct buf text = { 0 };
	struct address a;
	struct prov_call *call;
	bool test;

	api_json_known(root, names, fault);
	take_address(&text, root, api_prov(req), fault);
	display = take_text(root, "display_name", DISPLAY_NAME_MAX, fault);
	client = take_text(root, "client_id", CLIENT_ID_MAX, fault);
	test = api_json_bool(root, "test", fault);
	if (address_parse(&a, buf_str(&text)) != ADDRESS_OK)
		api_fault_set(fault, E_INVALID_ADDRESS, "address",
		    "not an address that an inbox may have");
	else if (display != NULL &&
		 !compose_name_valid(str_of(display), str_of(a.wire)))
		api_fault_set(fault, E_VALIDATION_ERROR, "display_name",
		    "hides text, or looks like another address");
	buf_free(&text);
	if (fault->code != E_NONE) {
		api_fault_reply(req, fault);
		return;
	}
	call = new_call(req);
	call->op = store_prov_create(
	    api_prov(req), a.canonical, display, client, test, on_made, call);
}

void
api_op_inboxes_create(struct http_request *req)
{
	struct api_fault fault = { 0 };
	const char *body;
	json_t *root;
	size_t n;

	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL)
		create(req, root, &fault);
	else
		api_fault_reply(req, &fault);
	json_decref(root);
}

static void
on_code(void *arg, enum err_code code, const struct store_prov_made *made)
{
	struct http_request *req = end_call(arg);

	if (code == E_STATE_CONFLICT)
		http_fail(
		    req, code, "it has an owner; an operator can reset it");
	else if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:s, s:o}", "inbox_id",
			http_request_param(req, "inbox_id"), "claim_code",
			made->claim_code, "claim_until",
			api_json_time(made->claim_until)));
}

void
api_op_inboxes_code(struct http_request *req)
{
	struct prov_call *call = new_call(req);

	call->op = store_prov_code(
	    api_prov(req), http_request_param(req, "inbox_id"), on_code, call);
}

static void
on_paused(void *arg, enum err_code code, int64_t n)
{
	struct http_request *req = end_call(arg);

	(void)n;
	if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:b}", "inbox_id",
			http_request_param(req, "inbox_id"), "paused", 1));
}

void
api_op_inboxes_pause(struct http_request *req)
{
	struct prov_call *call = new_call(req);

	call->op = store_prov_pause(api_prov(req),
	    http_request_param(req, "inbox_id"), on_paused, call);
}

static void
on_deleted(void *arg, enum err_code code, int64_t n)
{
	struct http_request *req = end_call(arg);

	if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:b, s:I}", "inbox_id",
			http_request_param(req, "inbox_id"), "deleted", 1,
			"messages_ended", (json_int_t)n));
}

void
api_op_inboxes_delete(struct http_request *req)
{
	struct prov_call *call = new_call(req);

	call->op = store_prov_delete(api_prov(req),
	    http_request_param(req, "inbox_id"), on_deleted, call);
}
