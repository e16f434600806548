/* SPDX-License-Identifier: ISC */
/*
 * drafts.c - make, list, read, change and delete drafts.
 *
 * A draft is opened with the caller's own key for the one answer and sealed
 * again before it is stored. Sending one is draft_send.c.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "api/draft.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/compose.h"
#include "store/draft.h"
#include "store/submit.h"

#define FILTERS "drafts"

/* A call under way. */
struct draft_call {
	struct http_request *req;
	struct store_draft_op *op;
	json_t *doc; /* what is stored */
	bool made; /* by an earlier request */
	struct uuid id;
	int limit;
};

static void
free_call(struct draft_call *call)
{
	json_decref(call->doc);
	free(call);
}

static void
on_gone(void *arg)
{
	struct draft_call *call = arg;

	store_draft_cancel(call->op);
	free_call(call);
}

static struct draft_call *
new_call(struct http_request *req)
{
	struct draft_call *call = xcalloc(1, sizeof(*call));

	call->req = req;
	http_request_on_cancel(req, on_gone, call);
	return call;
}

static struct http_request *
end_call(struct draft_call *call)
{
	struct http_request *req = call->req;

	http_request_on_cancel(req, NULL, NULL);
	free_call(call);
	return req;
}

/* [ends the request] */
static void
refuse(struct http_request *req, enum err_code code)
{
	if (code == E_HELD_LIMIT)
		http_fail_retry(req, code, 60,
		    "the inbox has room for no more drafts; send or delete "
		    "some");
	else if (code == E_STATE_CONFLICT)
		http_fail(req, code,
		    "the draft was changed or sent meanwhile; read it again");
	else
		api_refuse(req, code);
}

static const char *const no_doc = "the inbox was reset since: what the draft "
				  "says opens with no key any more";

/* Reading. */

static json_t *
parse(struct str text)
{
	return json_loadb(text.p, text.n, 0, NULL);
}

static void
on_list(void *arg, enum err_code code, const struct store_draft *d, size_t n)
{
	struct draft_call *call = arg;
	int limit = call->limit;
	struct http_request *req = end_call(call);
	json_t *list, *doc;
	size_t i;

	if (code != E_NONE) {
		refuse(req, code);
		return;
	}
	list = json_array();
	for (i = 0; i < n; i++) {
		doc = d[i].opened ? parse(d[i].text) : NULL;
		json_array_append_new(
		    list, draft_render(&d[i], doc, api_cred(req)));
		json_decref(doc);
	}
	api_page_reply(req, "drafts", list, limit, str_lit(FILTERS),
	    n > 0 ? &d[n - 1].draft : NULL);
}

void
api_op_drafts_list(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct draft_call *call;
	struct secret kek = { 0 };

	api_page_query(&page, req, str_lit(FILTERS), "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	BUG_ON(!store_token_kek(api_token(req), &kek));
	call = new_call(req);
	call->limit = page.limit;
	call->op = store_draft_list(
	    api_cred(req), &page.after, page.limit, &kek, on_list, call);
	secret_wipe(&kek);
}

/* Read one; `done` has it. */
static void
open_draft(struct draft_call *call, store_drafts_fn *done)
{
	struct secret kek = { 0 };

	BUG_ON(!store_token_kek(api_token(call->req), &kek));
	call->op =
	    store_draft_get(api_cred(call->req), &call->id, &kek, done, call);
	secret_wipe(&kek);
}

static const struct uuid none;

/* False: answered, and the call is over. */
static bool
is_there(struct draft_call *call, enum err_code code,
    const struct store_draft *d, size_t n)
{
	char id[UUID_ID_MAX];

	call->op = NULL;
	if (code == E_NONE && n == 1 && uuid_eq(&d->message, &none))
		return true;
	if (code == E_NONE && n == 1) {
		uuid_to_id(id, "msg_", &d->message);
		http_fail(end_call(call),
		    call->made ? E_STATE_CONFLICT : E_NOT_FOUND,
		    "this draft was sent as %s", id);
		return false;
	}
	refuse(end_call(call), code != E_NONE ? code : E_NOT_FOUND);
	return false;
}

static void
on_get(void *arg, enum err_code code, const struct store_draft *d, size_t n)
{
	struct draft_call *call = arg;
	struct http_request *req = call->req;
	json_t *doc;

	if (!is_there(call, code, d, n))
		return;
	end_call(call);
	doc = d->opened ? parse(d->text) : NULL;
	http_reply_json(req, 200, draft_render(d, doc, api_cred(req)));
	json_decref(doc);
}

/* [ends the request] */
static void
reply_attachment(struct http_request *req, json_t *item)
{
	const char *text, *type;
	struct buf data = { 0 };
	size_t n = 0;

	text = json_string_value(json_object_get(item, "content"));
	type = json_string_value(json_object_get(item, "content_type"));
	if (text == NULL || !base64_decode(buf_reserve(&data, strlen(text)), &n,
				text, strlen(text))) {
		http_fail(req, E_NOT_FOUND, "this attachment has no content");
	} else {
		http_reply_header(req, "Content-Disposition", "attachment");
		http_reply_bytes(req, 200,
		    type != NULL && compose_text_valid(str_of(type))
			? type
			: "application/octet-stream",
		    data.p, n);
	}
	buf_free(&data);
}

static void
on_attachment(
    void *arg, enum err_code code, const struct store_draft *d, size_t n)
{
	struct draft_call *call = arg;
	struct http_request *req = call->req;
	json_t *doc, *item;

	if (!is_there(call, code, d, n))
		return;
	end_call(call);
	doc = d->opened ? parse(d->text) : NULL;
	item = draft_attachment(doc, http_request_param(req, "attachment_id"));
	if (item != NULL)
		reply_attachment(req, item);
	else
		http_fail(req, E_NOT_FOUND,
		    "the draft has no attachment with this id");
	json_decref(doc);
}

void
api_op_drafts_attachment(struct http_request *req)
{
	struct draft_call *call;
	struct uuid id;

	if (!draft_id_of(req, &id))
		return;
	call = new_call(req);
	call->id = id;
	open_draft(call, on_attachment);
}

void
api_op_drafts_get(struct http_request *req)
{
	struct draft_call *call;
	struct uuid id;

	if (!draft_id_of(req, &id))
		return;
	call = new_call(req);
	call->id = id;
	open_draft(call, on_get);
}

/* Writing. */

static void
refuse_limit(struct http_request *req, const struct limit_answer *charge)
{
	unsigned wait = (unsigned)((charge->wait_ms + 999) / 1000);

	api_rate_limit(req, charge->window, charge->limit, charge->left, wait);
	http_fail_retry(req, E_RATE_LIMITED, wait,
	    "the limit of %lld in window %s is reached; a draft counts as %d "
	    "bytes at least",
	    (long long)charge->limit, charge->window, STORE_DRAFT_COST_MIN);
}

static void
on_put(void *arg, enum err_code code, const struct store_draft *d, bool replay,
    const struct limit_answer *charge)
{
	struct draft_call *call = arg;
	struct http_request *req = call->req;
	int status = d->version == 1 ? 201 : 200;
	json_t *doc;

	if (code == E_NONE && replay) {
		/* as it is by now */
		http_reply_header(req, "Idempotent-Replay", "true");
		call->id = d->draft;
		call->made = true;
		open_draft(call, on_get);
		return;
	}
	doc = json_incref(call->doc);
	end_call(call);
	if (code == E_RATE_LIMITED && charge != NULL)
		refuse_limit(req, charge);
	else if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(
		    req, status, draft_render(d, doc, api_cred(req)));
	json_decref(doc);
}

/* Seal and store call->doc as what follows version `version`. */
static void
put(struct draft_call *call, int version, const unsigned char *idem,
    const unsigned char request[32])
{
	struct store_draft_put p = {
		.draft = call->id,
		.version = version,
		.idem = idem,
	};
	json_t *head = draft_head(call->doc);
	char *h = json_dumps(head, JSON_COMPACT);
	char *b = json_dumps(call->doc, JSON_COMPACT);

	json_decref(head);
	p.head = str_of(h);
	p.body = str_of(b);
	memcpy(p.request, request, sizeof(p.request));
	if (p.body.n > STORE_DRAFT_BODY_MAX)
		http_fail(end_call(call), E_PAYLOAD_TOO_LARGE,
		    "a draft may have %d bytes; attach less, or send it",
		    STORE_DRAFT_BODY_MAX);
	else
		call->op =
		    store_draft_put(api_cred(call->req), &p, on_put, call);
	free(h);
	free(b);
}

/* False: none was given. */
static bool
take_key(unsigned char out[32], struct http_request *req, json_t *doc,
    struct api_fault *fault)
{
	struct api_fault other = { 0 };
	struct str key = api_json_str(doc, "client_id", SIZE_MAX, &other);
	struct str given = api_idem_key(req, fault);
	struct buf b = { 0 };

	if (given.n == 0 && key.n == 0)
		return false;
	buf_puts(&b, given.n > 0 ? "h:" : "c:");
	buf_add_str(&b, given.n > 0 ? given : key);
	BUG_ON(!EVP_Digest(b.p, b.n, out, NULL, EVP_sha256(), NULL));
	buf_free(&b);
	return true;
}

static void
hash_request(unsigned char out[32], struct http_request *req)
{
	struct submit_hash *hash = submit_hash_new(
	    api_cred(req), "POST", "/v1/drafts", http_request_type(req));
	const char *body;
	size_t n;

	body = http_request_body(req, &n);
	submit_hash_add(hash, body, n);
	submit_hash_end(hash, out);
}

static json_t *
read_body(struct http_request *req, struct api_fault *fault)
{
	const char *body;
	size_t n;

	body = http_request_body(req, &n);
	return api_json_object(body, n, fault);
}

void
api_op_drafts_create(struct http_request *req)
{
	unsigned char idem[32], request[32];
	struct api_fault fault = { 0 };
	struct draft_call *call;
	bool has_key = false;
	json_t *doc = read_body(req, &fault);

	if (doc != NULL) {
		draft_take(doc, api_cred(req), &fault);
		has_key = take_key(idem, req, doc, &fault);
	}
	if (fault.code != E_NONE) {
		json_decref(doc);
		api_fault_reply(req, &fault);
		return;
	}
	hash_request(request, req);
	call = new_call(req);
	call->id = uuid_v7_new();
	call->doc = doc;
	put(call, 0, has_key ? idem : NULL, request);
}

static void
on_patch(void *arg, enum err_code code, const struct store_draft *d, size_t n)
{
	static const unsigned char zero[32];
	struct draft_call *call = arg;
	struct http_request *req = call->req;
	struct api_fault fault = { 0 };
	json_t *patch = call->doc;

	if (!is_there(call, code, d, n))
		return;
	call->doc = d->opened ? parse(d->text) : NULL;
	if (call->doc == NULL)
		api_fault_set(&fault, E_MISSING_PERMISSION, NULL, "%s", no_doc);
	else
		draft_change(call->doc, patch, api_cred(req), &fault);
	json_decref(patch);
	if (fault.code != E_NONE)
		api_fault_reply(end_call(call), &fault);
	else
		put(call, d->version, NULL, zero);
}

void
api_op_drafts_patch(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct draft_call *call;
	struct uuid id;
	json_t *patch;

	if (!draft_id_of(req, &id))
		return;
	patch = read_body(req, &fault);
	if (patch == NULL) {
		api_fault_reply(req, &fault);
		return;
	}
	call = new_call(req);
	call->id = id;
	call->doc = patch;
	open_draft(call, on_patch);
}

static void
on_deleted(void *arg, enum err_code code)
{
	struct draft_call *call = arg;
	struct uuid u = call->id;
	struct http_request *req = end_call(call);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "dft_", &u);
	if (code != E_NONE)
		refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:b}", "draft_id", id, "deleted", 1));
}

void
api_op_drafts_delete(struct http_request *req)
{
	struct draft_call *call;
	struct uuid id;

	if (!draft_id_of(req, &id))
		return;
	call = new_call(req);
	call->id = id;
	call->op = store_draft_end(api_cred(req), &id, NULL, on_deleted, call);
}
