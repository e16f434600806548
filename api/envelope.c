/* SPDX-License-Identifier: ISC */
/* envelope.c - recipients and options, common to both ways of sending. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "base/clock.h"
#include "mail/address.h"
#include "mail/compose.h"

#define AHEAD_MAX_DAYS 30
#define AHEAD_MAX_US ((int64_t)AHEAD_MAX_DAYS * 24 * 3600 * 1000000)

void
send_take_list(struct send_list *list, struct arena *mem, json_t *root,
    const char *name, size_t max, struct api_fault *fault)
{
	json_t *v = json_object_get(root, name), *item;
	size_t i;

	list->n = 0;
	if (v == NULL || json_is_null(v))
		return;
	if (!json_is_array(v) && !json_is_string(v)) {
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "must be a string or an array of strings");
		return;
	}
	list->v = arena_array(mem,
	    json_is_array(v) ? json_array_size(v) + 1 : 1, sizeof(*list->v));
	if (json_is_string(v)) {
		list->v[list->n++] =
		    (struct str){ json_string_value(v), json_string_length(v) };
		return;
	}
	if (json_array_size(v) > max)
		api_fault_set(fault, E_TOO_MANY_RECIPIENTS, name,
		    "more than %zu of them", max);
	json_array_foreach(v, i, item)
	{
		if (!json_is_string(item))
			api_fault_set(fault, E_VALIDATION_ERROR, name,
			    "item %zu is not a string", i);
		else
			list->v[list->n++] =
			    (struct str){ json_string_value(item),
				    json_string_length(item) };
	}
}

static bool
has_control(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return true;
	return false;
}

void
send_take_labels(struct send_list *list, struct arena *mem, json_t *root,
    const char *name, struct api_fault *fault)
{
	size_t i;

	if (json_is_string(json_object_get(root, name)))
		api_fault_set(fault, E_VALIDATION_ERROR, name,
		    "must be an array of strings");
	api_json_array(root, name, SEND_LABELS_MAX, fault);
	send_take_list(list, mem, root, name, SEND_LABELS_MAX, fault);
	for (i = 0; i < list->n; i++)
		if (list->v[i].n == 0 || list->v[i].n > SEND_LABEL_MAX ||
		    has_control(list->v[i]))
			api_fault_set(fault, E_VALIDATION_ERROR, name,
			    "label %zu: 1 to %d bytes without controls", i,
			    SEND_LABEL_MAX);
}

static void
take_labels(struct submit_envelope *env, struct arena *mem, json_t *root,
    struct api_fault *fault)
{
	struct send_list list = { 0 };
	struct buf joined = { 0 };
	size_t i;

	send_take_labels(&list, mem, root, "labels", fault);
	for (i = 0; i < list.n; i++) {
		if (i > 0)
			buf_putc(&joined, '\n');
		buf_add_str(&joined, list.v[i]);
	}
	env->labels = str_of(arena_str(mem, buf_str(&joined)));
	buf_free(&joined);
}

/* What the agent says about the mail: kept as compact JSON, never sent. */
static void
take_context(struct submit_envelope *env, struct arena *mem, json_t *root,
    struct api_fault *fault)
{
	static const char *const names[] = { "purpose", "run_id", "task_id",
		"model", "note_to_reviewer", NULL };
	json_t *context = json_object_get(root, "context");
	struct api_fault inner = { 0 };
	char *text;
	size_t i;

	if (context == NULL || json_is_null(context))
		return;
	if (!json_is_object(context)) {
		api_fault_set(
		    fault, E_VALIDATION_ERROR, "context", "must be an object");
		return;
	}
	api_json_known(context, names, &inner);
	for (i = 0; names[i] != NULL; i++)
		api_json_str(context, names[i], SEND_CONTEXT_MAX, &inner);
	api_fault_within(fault, "context", &inner);
	text = json_dumps(context, JSON_COMPACT | JSON_SORT_KEYS);
	env->context = str_of(arena_strdup(mem, text));
	free(text);
}

void
send_take_common(struct submit_envelope *env, struct arena *mem, json_t *root,
    struct api_fault *fault)
{
	struct str from = api_json_str(root, "send_at", 40, fault);
	struct str until = api_json_str(root, "not_after", 40, fault);
	struct str revises = api_json_str(root, "revises", 40, fault);

	take_labels(env, mem, root, fault);
	take_context(env, mem, root, fault);
	env->duplicate = api_json_bool(root, "duplicate", fault);
	if (from.n > 0 && !api_time_parse(from, &env->send_at))
		api_fault_set(fault, E_VALIDATION_ERROR, "send_at",
		    "not a time like 2026-01-31T12:00:00Z");
	if (env->send_at > clock_real_us() + AHEAD_MAX_US)
		api_fault_set(fault, E_VALIDATION_ERROR, "send_at",
		    "more than %d days ahead", AHEAD_MAX_DAYS);
	if (until.n > 0 && !api_time_parse(until, &env->not_after))
		api_fault_set(fault, E_VALIDATION_ERROR, "not_after",
		    "not a time like 2026-01-31T12:00:00Z");
	if (env->not_after != 0 && env->not_after <= env->send_at)
		api_fault_set(fault, E_VALIDATION_ERROR, "not_after",
		    "is not after send_at");
	if (revises.n > 0 && !uuid_from_id(&env->revises, "msg_", revises))
		api_fault_set(fault, E_VALIDATION_ERROR, "revises",
		    "not the id of a message");
}

/* As RCPT has it: what no mail can reach waits for nobody's decision. */
static bool
is_reachable(struct str wire)
{
	struct address a;

	return address_parse(&a, wire) == ADDRESS_OK &&
	       address_domain_public(&a);
}

void
send_take_rcpts(struct submit_envelope *env, struct arena *mem,
    const struct send_list *list, char kind, const char *name,
    struct api_fault *fault)
{
	struct submit_rcpt *all;
	struct compose_error err;
	struct buf wire = { 0 };
	char field[64];
	size_t i;

	all = arena_array(mem, env->rcpt_count + list->n + 1, sizeof(*all));
	if (env->rcpt_count > 0)
		memcpy(all, env->rcpt, env->rcpt_count * sizeof(*all));
	env->rcpt = all;
	for (i = 0; i < list->n; i++) {
		snprintf(field, sizeof(field), "%s[%zu]", name, i);
		buf_clear(&wire);
		memset(&err, 0, sizeof(err));
		if (list->v[i].n > SEND_ADDRESS_MAX ||
		    !compose_address(&wire, list->v[i], &err)) {
			api_fault_set(fault, E_INVALID_ADDRESS, field, "%s",
			    err.text[0] != '\0' ? err.text : "too long");
			continue;
		}
		if (!is_reachable(buf_str(&wire))) {
			api_fault_set(fault, E_RECIPIENT_DOMAIN_REFUSED, field,
			    "no public mail goes to this domain");
			continue;
		}
		env->smtputf8 |= str_has_8bit(buf_str(&wire));
		all[env->rcpt_count++] = (struct submit_rcpt){
			.address = str_of(arena_str(mem, buf_str(&wire))),
			.kind = kind,
		};
	}
	buf_free(&wire);
}

static void
check_from(
    struct str given, const struct store_cred *cred, struct api_fault *fault)
{
	struct address a, own;

	if (given.n == 0)
		return;
	if (address_parse(&a, given) != ADDRESS_OK ||
	    address_parse(&own, str_of(cred->address)) != ADDRESS_OK ||
	    !address_eq(&a, &own))
		api_fault_set(fault, E_SENDER_MISMATCH, "from",
		    "this key may send only as %s", cred->address);
}

void
send_take_envelope(struct submit_envelope *env, struct arena *mem,
    const char *text, const struct store_cred *cred, struct api_fault *fault)
{
	static const char *const names[] = { "to", "from", "not_after",
		"send_at", "labels", "context", "duplicate", "revises", NULL };
	struct send_list to = { 0 };
	json_t *root;

	if (text == NULL) {
		api_fault_set(fault, E_VALIDATION_ERROR, "X-Postern-Envelope",
		    "message/rfc822 needs its recipients in this header");
		return;
	}
	root = api_json_object(text, strlen(text), fault);
	if (root == NULL)
		return;
	api_json_known(root, names, fault);
	check_from(api_json_str(root, "from", 400, fault), cred, fault);
	send_take_list(&to, mem, root, "to", 1000, fault);
	if (to.n == 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "to",
		    "at least one recipient is needed");
	send_take_rcpts(env, mem, &to, 'b', "to", fault);
	send_take_common(env, mem, root, fault);
	json_decref(root);
}
