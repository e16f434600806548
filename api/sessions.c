/* SPDX-License-Identifier: ISC */
/*
 * sessions.c - session keys: start, extend, end, and the record of a run.
 *
 * What a policy does not name, it does not allow: no recipients, no doors, no
 * messages, no attachments. The database holds to it at every door.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/address.h"
#include "mail/compose.h"
#include "policy/vocabulary.h"
#include "store/session.h"

#define SECONDS_DEFAULT 3600
#define SECONDS_MAX 86400
#define LIST_MAX 100
#define TEXT_MAX 1000
#define FILTERS "sessions" /* what a page token is bound to */
_Static_assert(API_LIMIT_MAX <= STORE_SESSION_LIST_MAX, "a page is full");

static const struct {
	char letter;
	const char *name;
} doors[] = { { 's', "smtp" }, { 'r', "rest" }, { 'm', "mcp" } };

#define DOORS (sizeof(doors) / sizeof(doors[0]))

/* A call under way. */
struct session_call {
	struct http_request *req;
	struct store_session_op *op;
	json_t *policy; /* as it was given */
	int limit; /* of a list; 0: one is asked for */
};

static void
on_gone(void *arg)
{
	struct session_call *call = arg;

	store_session_cancel(call->op);
	json_decref(call->policy);
	free(call);
}

static struct session_call *
new_call(struct http_request *req)
{
	struct session_call *call = xcalloc(1, sizeof(*call));

	call->req = req;
	http_request_on_cancel(req, on_gone, call);
	return call;
}

static struct http_request *
end_call(struct session_call *call)
{
	struct http_request *req = call->req;

	http_request_on_cancel(req, NULL, NULL);
	json_decref(call->policy);
	free(call);
	return req;
}

static json_t *
session_id(int64_t id)
{
	return json_sprintf("%lld", (long long)id);
}

/* False: answered. `me` is the session whose key asks. */
static bool
take_id(struct http_request *req, int64_t *id)
{
	const char *text = http_request_param(req, "session_id");
	unsigned long long v;

	if (strcmp(text, "me") == 0) {
		*id = api_cred(req)->key;
		return true;
	}
	if (str_to_u64(str_of(text), INT64_MAX, &v) && v > 0) {
		*id = (int64_t)v;
		return true;
	}
	http_fail(req, E_NOT_FOUND, "this is not the id of a session");
	return false;
}

/* Reading a policy. */

static int
take_number(json_t *root, const char *name, int least, int most, int none,
    struct api_fault *fault)
{
	json_t *v = json_object_get(root, name);

	if (v == NULL || json_is_null(v))
		return none;
	if (!json_is_integer(v) || json_integer_value(v) < least ||
	    json_integer_value(v) > most) {
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "not a number from %d to %d", least, most);
		return none;
	}
	return (int)json_integer_value(v);
}

/* As the database compares them. */
static void
take_recipients(
    struct send_list *list, struct arena *mem, struct api_fault *fault)
{
	struct address a;
	size_t i;

	for (i = 0; i < list->n; i++)
		if (address_parse(&a, list->v[i]) == ADDRESS_OK)
			list->v[i] = str_of(arena_strdup(mem, a.canonical));
		else
			api_fault_set(fault, E_INVALID_ADDRESS, "recipients",
			    "item %zu is no address", i);
}

static void
take_domains(struct send_list *list, struct arena *mem, struct api_fault *fault)
{
	char domain[256];
	size_t i;

	for (i = 0; i < list->n; i++)
		if (address_domain_canonical(domain, list->v[i]))
			list->v[i] = str_of(arena_strdup(mem, domain));
		else
			api_fault_set(fault, E_VALIDATION_ERROR, "domains",
			    "item %zu is no domain", i);
}

static void
take_doors(char out[DOORS + 1], json_t *policy, struct arena *mem,
    struct api_fault *fault)
{
	struct send_list list = { 0 };
	size_t i, k, n = 0;

	send_take_list(&list, mem, policy, "doors", DOORS, fault);
	for (i = 0; i < list.n; i++) {
		for (k = 0; k < DOORS; k++)
			if (str_eq(list.v[i], str_of(doors[k].name)))
				break;
		if (k == DOORS)
			api_fault_set(fault, E_VALIDATION_ERROR, "doors",
			    "must be of smtp, rest, mcp");
		else if (memchr(out, doors[k].letter, n) == NULL && n < DOORS)
			out[n++] = doors[k].letter;
	}
	out[n] = '\0';
}

static void
take_policy(struct store_session_new *s, char out[DOORS + 1], json_t *root,
    struct arena *mem, struct api_fault *fault)
{
	static const char *const names[] = { "recipients", "domains",
		"max_messages", "attachments", "doors", NULL };
	json_t *policy = json_object_get(root, "policy");
	struct send_list to = { 0 }, domains = { 0 };
	struct api_fault inner = { 0 };

	if (!json_is_object(policy)) {
		api_fault_set(fault, E_VALIDATION_ERROR, "policy",
		    "must be an object: what it does not name is not "
		    "allowed");
		return;
	}
	api_json_known(policy, names, &inner);
	send_take_list(&to, mem, policy, "recipients", LIST_MAX, &inner);
	send_take_list(&domains, mem, policy, "domains", LIST_MAX, &inner);
	take_recipients(&to, mem, &inner);
	take_domains(&domains, mem, &inner);
	take_doors(out, policy, mem, &inner);
	s->recipients = to.v;
	s->recipient_count = to.n;
	s->domains = domains.v;
	s->domain_count = domains.n;
	s->doors = out;
	s->max_messages =
	    take_number(policy, "max_messages", 0, 100000, 0, &inner);
	s->attachments = api_json_bool(policy, "attachments", &inner);
	api_fault_within(fault, "policy", &inner);
}

static struct str
take_text(json_t *root, const char *name, struct api_fault *fault)
{
	struct str s = api_json_str(root, name, TEXT_MAX, fault);

	if (!compose_text_valid(s))
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "holds a control character");
	return s;
}

/* What it says, without what it leaves out by null; texts are in lists. */
static json_t *
policy_said(json_t *root)
{
	json_t *said = json_object(), *v;
	const char *name;

	json_object_foreach(json_object_get(root, "policy"), name, v)
	{
		if (json_is_string(v))
			json_object_set_new(said, name, json_pack("[O]", v));
		else if (!json_is_null(v))
			json_object_set(said, name, v);
	}
	return said;
}

static void
on_created(void *arg, enum err_code code, int64_t id, const char *key,
    int64_t expires_at)
{
	struct session_call *call = arg;
	json_t *policy = json_incref(call->policy);
	struct http_request *req = end_call(call);

	if (code != E_NONE) {
		json_decref(policy);
		api_refuse(req, code);
		return;
	}
	http_reply_json(req, 201,
	    json_pack("{s:o, s:s, s:o, s:o}", "session_id", session_id(id),
		"key", key, "expires_at", api_json_time(expires_at), "policy",
		policy));
}

void
api_op_sessions_create(struct http_request *req)
{
	static const char *const names[] = { "policy", "expires_in", "run",
		"sandbox_id", "template", "purpose", NULL };
	struct store_session_new s = { 0 };
	struct api_fault fault = { 0 };
	struct arena mem = { 0 };
	struct session_call *call;
	char letters[DOORS + 1];
	const char *body;
	json_t *root;
	size_t n;

	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		s.seconds = take_number(root, "expires_in", 1, SECONDS_MAX,
		    SECONDS_DEFAULT, &fault);
		s.run = take_text(root, "run", &fault);
		s.sandbox_id = take_text(root, "sandbox_id", &fault);
		s.template_name = take_text(root, "template", &fault);
		s.purpose = take_text(root, "purpose", &fault);
		take_policy(&s, letters, root, &mem, &fault);
	}
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		call = new_call(req);
		call->policy = policy_said(root);
		call->op =
		    store_session_create(api_cred(req), &s, on_created, call);
	}
	json_decref(root);
	arena_free(&mem);
}

static void
on_extended(void *arg, enum err_code code, int64_t until)
{
	struct http_request *req = end_call(arg);

	if (code == E_STATE_CONFLICT)
		http_fail_more(req, code, json_pack("{s:s}", "status", "ended"),
		    "the session is over; its key works no more");
	else if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:o}", "session_id",
			http_request_param(req, "session_id"), "expires_at",
			api_json_time(until)));
}

void
api_op_sessions_extend(struct http_request *req)
{
	static const char *const names[] = { "expires_in", NULL };
	struct api_fault fault = { 0 };
	struct session_call *call;
	const char *body;
	int seconds = 0;
	int64_t id;
	json_t *root;
	size_t n;

	if (!take_id(req, &id))
		return;
	body = http_request_body(req, &n);
	root = api_json_object(body, n, &fault);
	if (root != NULL) {
		api_json_known(root, names, &fault);
		seconds =
		    take_number(root, "expires_in", 1, SECONDS_MAX, 0, &fault);
		if (seconds == 0)
			api_fault_set(&fault, E_VALIDATION_ERROR, "expires_in",
			    "is missing");
	}
	json_decref(root);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = new_call(req);
	call->op =
	    store_session_extend(api_cred(req), id, seconds, on_extended, call);
}

static void
on_ended(void *arg, enum err_code code, int64_t canceled)
{
	struct http_request *req = end_call(arg);

	if (code != E_NONE)
		api_refuse(req, code);
	else
		http_reply_json(req, 200,
		    json_pack("{s:s, s:b, s:I}", "session_id",
			http_request_param(req, "session_id"), "torn_down", 1,
			"canceled", (json_int_t)canceled));
}

static void
take_end(struct store_session_end *end, json_t *root, struct api_fault *fault)
{
	static const char *const names[] = { "held", "exit_error",
		"stdout_lines", "stderr_lines", "payload_length", NULL };
	struct str held;

	api_json_known(root, names, fault);
	held = api_json_str(root, "held", 10, fault);
	end->keep = str_eq(held, str_lit("keep"));
	if (held.n > 0 && !end->keep && !str_eq(held, str_lit("cancel")))
		api_fault_set(fault, E_VALIDATION_ERROR, "held",
		    "must be cancel or keep");
	/* of many lines, as programs end */
	end->exit_error = api_json_str(root, "exit_error", TEXT_MAX, fault);
	if (memchr(end->exit_error.p, '\0', end->exit_error.n) != NULL)
		api_fault_set(
		    fault, E_VALIDATION_ERROR, "exit_error", "holds a NUL");
	end->stdout_lines =
	    take_number(root, "stdout_lines", 0, INT32_MAX, -1, fault);
	end->stderr_lines =
	    take_number(root, "stderr_lines", 0, INT32_MAX, -1, fault);
	end->payload_length =
	    take_number(root, "payload_length", 0, INT32_MAX, -1, fault);
}

void
api_op_sessions_end(struct http_request *req)
{
	struct store_session_end end = { 0 };
	struct api_fault fault = { 0 };
	struct session_call *call;
	const char *body;
	int64_t id;
	json_t *root;
	size_t n;

	if (!take_id(req, &id))
		return;
	body = http_request_body(req, &n);
	root = n > 0 ? api_json_object(body, n, &fault) : json_object();
	if (root != NULL)
		take_end(&end, root, &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
	} else {
		call = new_call(req);
		call->op =
		    store_session_end(api_cred(req), id, &end, on_ended, call);
	}
	json_decref(root);
}

/* The record. */

static json_t *
counts_json(const char *counts)
{
	struct str rest = str_of(counts), item, state;
	unsigned long long s, n;
	json_t *doc = json_object();

	while (rest.n > 0) {
		item = str_split(&rest, ',');
		state = str_split(&item, ':');
		if (str_to_u64(state, STATE_COUNT, &s) &&
		    str_to_u64(item, INT64_MAX, &n))
			json_object_set_new(doc, policy_state_name((int)s),
			    json_integer((json_int_t)n));
	}
	return doc;
}

static json_t *
number_json(int64_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *
policy_json(const struct store_session *s)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < DOORS; i++)
		if (strchr(s->doors, doors[i].letter) != NULL)
			json_array_append_new(list, json_string(doors[i].name));
	return json_pack("{s:o, s:o, s:i, s:b, s:o}", "recipients",
	    api_json_lines(s->recipients, '\n'), "domains",
	    api_json_lines(s->domains, '\n'), "max_messages", s->max_messages,
	    "attachments", (int)s->attachments, "doors", list);
}

static json_t *
session_json(const struct store_session *s)
{
	json_t *doc = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "session_id",
	    session_id(s->id), "run", api_json_text(s->run), "sandbox_id",
	    api_json_text(s->sandbox_id), "template",
	    api_json_text(s->template_name), "purpose",
	    api_json_text(s->purpose), "policy", policy_json(s));

	json_object_update_new(
	    doc, json_pack("{s:o, s:o, s:o, s:b, s:i, s:i, s:o}", "started_at",
		     api_json_time(s->started_at), "expires_at",
		     api_json_time(s->expires_at), "ended_at",
		     api_json_time(s->ended_at), "torn_down", (int)s->dead,
		     "sent", s->sent, "refused", s->refused, "counts",
		     counts_json(s->counts)));
	json_object_update_new(
	    doc, json_pack("{s:o, s:o, s:o, s:o}", "exit_error",
		     api_json_text(s->exit_error), "stdout_lines",
		     number_json(s->stdout_lines), "stderr_lines",
		     number_json(s->stderr_lines), "payload_length",
		     number_json(s->payload_length)));
	return doc;
}

static void
on_sessions(
    void *arg, enum err_code code, const struct store_session *s, size_t count)
{
	struct session_call *call = arg;
	int limit = call->limit;
	struct http_request *req = end_call(call);
	struct uuid last;
	json_t *all;
	size_t i;

	if (code == E_NONE && limit == 0 && count == 0)
		code = E_NOT_FOUND;
	if (code != E_NONE) {
		api_refuse(req, code);
	} else if (limit == 0) {
		http_reply_json(req, 200, session_json(&s[0]));
	} else {
		all = json_array();
		for (i = 0; i < count; i++)
			json_array_append_new(all, session_json(&s[i]));
		if (count > 0)
			api_place_of(&last, s[count - 1].id);
		api_page_reply(req, "sessions", all, limit, str_lit(FILTERS),
		    count > 0 ? &last : NULL);
	}
}

void
api_op_sessions_list(struct http_request *req)
{
	struct api_fault fault = { 0 };
	struct api_page page = { 0 };
	struct session_call *call;

	api_page_query(&page, req, str_lit(FILTERS), "", &fault);
	if (fault.code != E_NONE) {
		api_fault_reply(req, &fault);
		return;
	}
	call = new_call(req);
	call->limit = page.limit;
	call->op = store_sessions(api_cred(req), 0, api_place_id(&page.after),
	    page.limit, on_sessions, call);
}

void
api_op_sessions_get(struct http_request *req)
{
	struct session_call *call;
	int64_t id;

	if (!take_id(req, &id))
		return;
	call = new_call(req);
	call->op = store_sessions(api_cred(req), id, 0, 1, on_sessions, call);
}
