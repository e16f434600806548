/* SPDX-License-Identifier: ISC */
/* keys.c - the keys of an inbox: see them, make a further one, end one. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/compose.h"
#include "store/message.h"
#include "store/newkey.h"

#define LABEL_MAX 200

const char *
api_kind_name(char kind)
{
	return kind == 's' ? "session" : kind == 't' ? "test" : "live";
}

const char *
api_scope_name(char scope)
{
	return scope == 'f' ? "full" : scope == 'r' ? "read" : "send";
}

json_t *
api_key_id(int64_t key)
{
	return json_sprintf("%lld", (long long)key);
}

static void
on_keys(void *arg, enum err_code code, const struct store_key *k, size_t count)
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
		json_array_append_new(
		    list, json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}",
			      "key_id", api_key_id(k[i].key), "kind",
			      api_kind_name(k[i].kind), "scope",
			      api_scope_name(k[i].scope), "label",
			      api_json_text(k[i].label), "created_at",
			      api_json_time(k[i].created_at), "expires_at",
			      api_json_time(k[i].expires_at), "revoked_at",
			      api_json_time(k[i].revoked_at), "last_used",
			      api_json_time(k[i].last_used)));
	http_reply_json(req, 200,
	    json_pack("{s:I, s:o}", "count", (json_int_t)count, "keys", list));
}

void
api_op_keys_list(struct http_request *req)
{
	struct api_call *call = api_call_new(req);

	call->op = store_keys(api_cred(req), on_keys, call);
}

static void
on_revoked(void *arg, enum err_code code, int state)
{
	struct http_request *req = api_call_end(arg);

	(void)state;
	if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:b}", "key_id",
			http_request_param(req, "key_id"), "revoked", 1));
}

void
api_op_keys_revoke(struct http_request *req)
{
	struct api_call *call;
	unsigned long long key;

	if (!str_to_u64(
		str_of(http_request_param(req, "key_id")), INT64_MAX, &key)) {
		http_fail(req, E_NOT_FOUND, "this is not the id of a key");
		return;
	}
	call = api_call_new(req);
	call->op =
	    store_key_revoke(api_cred(req), (int64_t)key, on_revoked, call);
}

/* A key being made. */
struct making {
	struct http_request *req;
	struct store_newkey *op;
	char scope;
	json_t *label;
};

static void
free_making(struct making *m)
{
	json_decref(m->label);
	free(m);
}

static void
on_making_gone(void *arg)
{
	struct making *m = arg;

	store_newkey_cancel(m->op);
	free_making(m);
}

static void
on_made(void *arg, enum err_code code, const struct store_newkey_made *made)
{
	struct making *m = arg;
	struct http_request *req = m->req;

	http_request_on_cancel(req, NULL, NULL);
	if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 201,
		    json_pack("{s:o, s:s, s:s, s:s, s:O, s:o, s:o}", "key_id",
			api_key_id(made->key), "key", made->text, "kind",
			api_kind_name(made->kind), "scope",
			api_scope_name(m->scope), "label", m->label,
			"created_at", api_json_time(made->created_at),
			"expires_at", api_json_time(made->expires_at)));
	free_making(m);
}

static char
take_scope(json_t *root, struct api_fault *fault)
{
	struct str name = api_json_str(root, "scope", 8, fault);

	if (str_eq(name, str_lit("send")))
		return 's';
	if (str_eq(name, str_lit("read")))
		return 'r';
	if (!str_eq(name, str_lit("full")))
		api_fault_set(fault, E_VALIDATION_ERROR, "scope",
		    "must be send, read or full");
	return 'f';
}

static int64_t
take_expiry(json_t *root, struct api_fault *fault)
{
	struct str text = api_json_str(root, "expires_at", 40, fault);
	int64_t us = 0;

	if (text.n > 0 && (!api_time_parse(text, &us) || us <= clock_real_us()))
		api_fault_set(fault, E_VALIDATION_ERROR, "expires_at",
		    "not a time (RFC 3339) that is still to come");
	return us;
}

static void
make(struct http_request *req, char scope, struct str label, int64_t expires)
{
	struct secret kek = { 0 };
	struct making *m;

	if (!store_token_kek(api_token(req), &kek)) {
		api_refuse(req, E_UNKNOWN_API_KEY);
		return;
	}
	m = xcalloc(1, sizeof(*m));
	m->req = req;
	m->scope = scope;
	m->label = label.n > 0 ? api_json_strn(label.p, label.n) : json_null();
	http_request_on_cancel(req, on_making_gone, m);
	m->op = store_newkey(
	    api_cred(req), &kek, scope, label, expires, on_made, m);
	secret_wipe(&kek);
}

void
api_op_keys_create(struct http_request *req)
{
	static const char *const names[] = { "scope", "label", "expires_at",
		NULL };
	struct api_fault fault = { 0 };
	struct str label = { "", 0 };
	int64_t expires = 0;
	char scope = 'f';
	const char *body;
	json_t *root;
	size_t n;

	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		scope = take_scope(root, &fault);
		expires = take_expiry(root, &fault);
		label = api_json_str(root, "label", LABEL_MAX, &fault);
		if (!compose_text_valid(label))
			api_fault_set(&fault, E_VALIDATION_ERROR, "label",
			    "holds a control character");
	}
	if (fault.code != E_NONE)
		api_fault_reply(req, &fault);
	else
		make(req, scope, label, expires);
	json_decref(root);
}
