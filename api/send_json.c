/* SPDX-License-Identifier: ISC */
/* send_json.c - a JSON request to the bytes of a message (mail/compose). */
#include <stdio.h>
#include <string.h>

#include "api/send.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/cut.h"
#include "mail/compose.h"
#include "mail/markdown.h"

static const char *const names[] = { "to", "cc", "bcc", "reply_to", "subject",
	"text", "html", "markdown", "attachments", "headers", "labels",
	"in_reply_to", "references", "send_at", "not_after", "context",
	"duplicate", "revises", "track_opens", NULL };

static void
take_content(struct compose_attachment *a, struct arena *mem,
    struct str content, const struct http_cut_part *part,
    struct api_fault *fault)
{
	bool good = part != NULL && !part->bad;
	size_t n = 0;
	char *bytes;

	if (part == NULL) {
		bytes = arena_get(mem, content.n / 4 * 3 + 4);
		good = base64_decode(bytes, &n, content.p, content.n);
		a->content = (struct str){ bytes, n };
	} else {
		a->elsewhere = true;
	}
	if (!good)
		api_fault_set(fault, E_VALIDATION_ERROR, "content",
		    "must be base64 without line breaks");
}

/* One attachment; `field` names it. Its part where it is in the spool. */
static const struct http_cut_part *
take_attachment(struct compose_attachment *a, struct arena *mem, json_t *v,
    const struct send_body *body, const char *field, struct api_fault *fault)
{
	static const char *const known[] = { "filename", "content_type",
		"content", "content_id", "content_disposition", NULL };
	struct api_fault inner = { 0 };
	const struct http_cut_part *part = NULL;
	struct str content, disposition;

	if (!json_is_object(v)) {
		api_fault_set(
		    fault, E_VALIDATION_ERROR, field, "must be an object");
		return NULL;
	}
	api_json_known(v, known, &inner);
	a->filename = api_json_str(v, "filename", 255, &inner);
	a->content_type = api_json_str(v, "content_type", 255, &inner);
	a->content_id = api_json_str(v, "content_id", 255, &inner);
	disposition = api_json_str(v, "content_disposition", 20, &inner);
	content = api_json_str(v, "content", SIZE_MAX, &inner);
	if (a->filename.n == 0)
		a->filename = str_lit("attachment");
	if (json_object_get(v, "content") == NULL)
		api_fault_set(
		    &inner, E_VALIDATION_ERROR, "content", "is missing");
	a->is_inline = str_eq(disposition, str_lit("inline"));
	if (disposition.n > 0 && !a->is_inline &&
	    !str_eq(disposition, str_lit("attachment")))
		api_fault_set(&inner, E_VALIDATION_ERROR, "content_disposition",
		    "must be attachment or inline");
	if (body != NULL)
		part = send_body_part(body, content);
	take_content(a, mem, content, part, &inner);
	api_fault_within(fault, field, &inner);
	return part;
}

static void
take_attachments(struct compose *c, struct arena *mem, json_t *root,
    struct send_bytes *out, struct api_fault *fault)
{
	json_t *list, *v;
	const struct http_cut_part *part;
	struct compose_attachment *all;
	char field[40];
	size_t i;

	list =
	    api_json_array(root, "attachments", COMPOSE_ATTACHMENTS_MAX, fault);
	if (list == NULL)
		return;
	if (out->body != NULL) {
		out->part =
		    xcalloc(json_array_size(list) + 1, sizeof(out->part[0]));
		out->hole =
		    xcalloc(json_array_size(list) + 1, sizeof(out->hole[0]));
	}
	all = arena_array(mem, json_array_size(list) + 1, sizeof(*all));
	json_array_foreach(list, i, v)
	{
		snprintf(field, sizeof(field), "attachments[%zu]", i);
		part =
		    take_attachment(&all[i], mem, v, out->body, field, fault);
		if (part != NULL && out->body != NULL) {
			out->part[i] = part;
			out->hole_count++;
		}
	}
	c->attachment = all;
	c->attachment_count = json_array_size(list);
}

static void
take_headers(
    struct compose *c, struct arena *mem, json_t *root, struct api_fault *fault)
{
	json_t *map = json_object_get(root, "headers"), *v;
	struct compose_header *all;
	const char *key;
	size_t n = 0;

	if (map == NULL || json_is_null(map))
		return;
	if (!json_is_object(map) ||
	    json_object_size(map) > COMPOSE_HEADERS_MAX) {
		api_fault_set(fault, E_VALIDATION_ERROR, "headers",
		    "must be an object with at most %d members",
		    COMPOSE_HEADERS_MAX);
		return;
	}
	all = arena_array(mem, json_object_size(map) + 1, sizeof(*all));
	json_object_foreach(map, key, v)
	{
		if (!json_is_string(v)) {
			api_fault_set(fault, E_VALIDATION_ERROR, "headers",
			    "values must be strings");
			continue;
		}
		all[n].name = str_of(key);
		all[n++].value =
		    (struct str){ json_string_value(v), json_string_length(v) };
	}
	c->header = all;
	c->header_count = n;
}

static void
take_addresses(struct compose *c, struct submit_envelope *env,
    struct arena *mem, json_t *root, struct api_fault *fault)
{
	struct send_list to = { 0 }, cc = { 0 }, bcc = { 0 }, reply = { 0 };

	send_take_list(&to, mem, root, "to", 1000, fault);
	send_take_list(&cc, mem, root, "cc", 1000, fault);
	send_take_list(&bcc, mem, root, "bcc", 1000, fault);
	send_take_list(&reply, mem, root, "reply_to", 10, fault);
	send_take_rcpts(env, mem, &to, 't', "to", fault);
	send_take_rcpts(env, mem, &cc, 'c', "cc", fault);
	send_take_rcpts(env, mem, &bcc, 'b', "bcc", fault);
	c->to = to.v;
	c->to_count = to.n;
	c->cc = cc.v;
	c->cc_count = cc.n;
	c->bcc = bcc.v;
	c->bcc_count = bcc.n;
	c->reply_to = reply.v;
	c->reply_to_count = reply.n;
}

static void
take_threading(
    struct compose *c, struct arena *mem, json_t *root, struct api_fault *fault)
{
	struct send_list refs = { 0 };

	c->in_reply_to = api_json_str(root, "in_reply_to", 998, fault);
	send_take_list(&refs, mem, root, "references", 50, fault);
	c->references = refs.v;
	c->reference_count = refs.n;
}

/* Markdown is the text, unless there is one, and becomes the HTML. */
static void
take_texts(
    struct compose *c, struct arena *mem, json_t *root, struct api_fault *fault)
{
	struct str markdown =
	    api_json_str(root, "markdown", MARKDOWN_MAX, fault);
	struct buf html = { 0 };

	c->text = api_json_str(root, "text", SIZE_MAX, fault);
	c->html = api_json_str(root, "html", SIZE_MAX, fault);
	if (markdown.n == 0)
		return;
	if (c->html.n > 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "markdown",
		    "becomes the HTML: there cannot be html too");
	if (!markdown_html(&html, markdown))
		api_fault_set(fault, E_VALIDATION_ERROR, "markdown",
		    "cannot be made into HTML");
	if (c->text.n == 0)
		c->text = markdown;
	c->html = str_of(arena_str(mem, buf_str(&html)));
	buf_free(&html);
}

static void
compose(struct submit_envelope *env, struct arena *mem, struct send_bytes *out,
    json_t *root, const struct store_cred *cred, struct api_fault *fault)
{
	struct compose c = { 0 };
	struct compose_error err = { 0 };
	struct secret random;

	api_json_known(root, names, fault);
	if (api_json_bool(root, "track_opens", fault))
		api_fault_set(fault, E_VALIDATION_ERROR, "track_opens",
		    "nobody is tracked here");
	c.from_name = str_of(cred->display_name);
	c.from = str_of(cred->address);
	take_addresses(&c, env, mem, root, fault);
	c.subject = api_json_str(root, "subject", COMPOSE_SUBJECT_MAX, fault);
	take_texts(&c, mem, root, fault);
	take_threading(&c, mem, root, fault);
	take_headers(&c, mem, root, fault);
	take_attachments(&c, mem, root, out, fault);
	send_take_common(env, mem, root, fault);
	if (fault->code != E_NONE)
		return;
	secret_random(&random, sizeof(c.random));
	memcpy(c.random, random.b, sizeof(c.random));
	/* All but local parts is encoded; what stays says that it needs it. */
	env->smtputf8 = true;
	c.hole = out->hole;
	if (!compose_build(&out->buf, &c, &err))
		api_fault_set(fault, err.code, err.field, "%s", err.text);
}

void
send_take_json(struct submit_envelope *env, struct arena *mem,
    struct send_bytes *out, json_t *root, const struct store_cred *cred,
    struct api_fault *fault)
{
	compose(env, mem, out, root, cred, fault);
	if (env->rcpt_count == 0)
		api_fault_set(fault, E_VALIDATION_ERROR, "to",
		    "at least one recipient is needed");
}

void
send_check_json(
    json_t *root, const struct store_cred *cred, struct api_fault *fault)
{
	struct submit_envelope env = { 0 };
	struct arena mem = { 0 };
	struct send_bytes bytes = { 0 };

	compose(&env, &mem, &bytes, root, cred, fault);
	send_bytes_free(&bytes);
	arena_free(&mem);
}
