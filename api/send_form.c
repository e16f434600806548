/* SPDX-License-Identifier: ISC */
/*
 * send_form.c - POST .../messages/send as multipart/form-data.
 *
 * The part `envelope` comes first, in JSON: so what follows can be taken as it
 * comes. Parts `attachment` go to the spool that attachments in JSON go to
 * (send_body.c), without base64; one part `message` is raw MIME and streams
 * straight into its submission. The hash of the request is that of the parts:
 * another boundary, as a client that tries again makes one, is the same
 * request.
 */
#include <stdlib.h>
#include <string.h>

#include "api/send_body.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/form.h"
#include "http/request.h"

enum kind { NOTHING, ENVELOPE, ATTACHMENT, MESSAGE };

struct send_form {
	struct http_request *req;
	struct send_body *body;
	struct http_form parser;
	enum kind kind; /* of the part that comes */
	bool has_envelope;
	struct send *raw; /* NULL: composed here */
	uint64_t part_n; /* its bytes so far */
	struct buf label; /* what the hash has behind them */
	struct api_fault fault;
};

void
send_form_free(struct send_form *form)
{
	if (form == NULL)
		return;
	buf_free(&form->label);
	free(form);
}

static bool
refuse(struct send_form *form, const char *field, const char *why)
{
	api_fault_set(&form->fault, E_VALIDATION_ERROR, field, "%s", why);
	return false;
}

/* Its length stands behind: what was hashed is read from its end. */
static void
label_add(struct buf *label, struct str s)
{
	buf_add(label, s.p != NULL ? s.p : "", s.n);
	buf_u32(label, (uint32_t)s.n);
}

static bool
open_attachment(struct send_form *form, const struct http_form_part *part)
{
	char name[HTTP_CUT_NAME];
	json_t *file;

	if (!http_cut_open(&form->body->cut, name))
		return refuse(form, "attachment", "there are too many");
	file = json_pack("{s:s, s:s%, s:s%}", "content", name, "filename",
	    part->filename.p != NULL ? part->filename.p : "", part->filename.n,
	    "content_type", part->type.p, part->type.n);
	if (file != NULL && part->id.n > 0 &&
	    (json_object_set_new(file, "content_id",
		 json_stringn(part->id.p, part->id.n)) != 0 ||
		json_object_set_new(
		    file, "content_disposition", json_string("inline")) != 0)) {
		json_decref(file);
		file = NULL;
	}
	if (file == NULL)
		return refuse(
		    form, "attachment", "the part's header is not UTF-8");
	json_array_append_new(form->body->files, file);
	return true;
}

static bool
open_message(struct send_form *form)
{
	if (json_array_size(form->body->files) > 0)
		return refuse(form, "message",
		    "a message has its attachments inside: there cannot be "
		    "parts of them too");
	form->raw = send_raw_start(
	    form->req, buf_cstr(&form->body->cut.rest), 0, &form->fault);
	return form->raw != NULL;
}

static enum kind
kind_of(struct str name)
{
	if (str_eq(name, str_lit("envelope")))
		return ENVELOPE;
	if (str_eq(name, str_lit("attachment")) ||
	    str_eq(name, str_lit("attachments")))
		return ATTACHMENT;
	return str_eq(name, str_lit("message")) ? MESSAGE : NOTHING;
}

static bool
on_begin(void *arg, const struct http_form_part *part)
{
	struct send_form *form = arg;

	form->kind = kind_of(part->name);
	form->part_n = 0;
	buf_clear(&form->label);
	label_add(&form->label, part->name);
	label_add(&form->label, part->filename);
	label_add(&form->label, part->type);
	label_add(&form->label, part->id);
	if (form->raw != NULL)
		return refuse(form, "message", "nothing may follow it");
	if ((form->kind == ENVELOPE) == form->has_envelope)
		return refuse(form, "envelope",
		    "must be the first part, and there must be one");
	form->has_envelope = true;
	switch (form->kind) {
	case ENVELOPE:
		return true;
	case ATTACHMENT:
		return open_attachment(form, part);
	case MESSAGE:
		return open_message(form);
	case NOTHING:
		break;
	}
	return refuse(form, "multipart",
	    "parts are envelope, then attachment, or one message");
}

static bool
on_part_data(void *arg, const void *p, size_t n)
{
	struct send_form *form = arg;

	submit_hash_add(form->body->hash, p, n);
	form->part_n += n;
	if (form->kind == ENVELOPE)
		return http_cut_keep(&form->body->cut, p, n);
	if (form->kind == ATTACHMENT)
		return http_cut_add(&form->body->cut, p, n);
	if (send_raw_feed(form->raw, p, n))
		return true;
	form->body->over = true;
	return false;
}

static bool
on_part_end(void *arg)
{
	struct send_form *form = arg;

	buf_u64(&form->label, form->part_n);
	submit_hash_add(form->body->hash, form->label.p, form->label.n);
	return true;
}

static const struct http_form_calls calls = { on_begin, on_part_data,
	on_part_end };

/* [ends the request] What is wrong is known, or what was cut says it. */
static void
fail(struct send_form *form)
{
	struct api_fault fault;

	if (form->raw != NULL)
		send_raw_drop(form->raw);
	form->raw = NULL;
	if (form->parser.wrong != NULL)
		refuse(form, "multipart", form->parser.wrong);
	fault = form->fault; /* the form goes with its request */
	form->body->over = true;
	if (fault.code == E_NONE)
		send_body_refuse(form->req, form->body);
	else
		api_fault_reply(form->req, &fault);
}

static void
end(struct send_form *form)
{
	struct send_body *b = form->body;

	if (!http_form_is_whole(&form->parser))
		refuse(form, "multipart", "it ends before its last boundary");
	else if (!form->has_envelope)
		refuse(form, "envelope", "is missing");
	if (form->fault.code != E_NONE) {
		fail(form);
		return;
	}
	submit_hash_end(b->hash, b->request);
	b->hash = NULL;
	if (form->raw != NULL)
		send_raw_finish(form->raw, b->request);
	else
		b->done(form->req);
}

static void
on_data(struct http_request *req, const void *p, size_t n, bool last)
{
	struct send_body *b = http_request_mine(req);
	struct send_form *form = b->form;

	if (b->over)
		return;
	if (!http_form_feed(&form->parser, p, n)) {
		if (!b->over)
			fail(form);
	} else if (last) {
		b->over = true;
		end(form);
	}
}

void
send_form(struct http_request *req, http_handler_fn *done)
{
	const struct api *api = api_of(req);
	char boundary[HTTP_FORM_BOUNDARY + 1];
	struct send_form *form;
	struct send_body *b;

	if (!http_form_boundary(
		boundary, http_request_header(req, "content-type"))) {
		http_fail_field(req, E_VALIDATION_ERROR, "Content-Type",
		    "multipart/form-data needs one boundary of 1 to %d "
		    "characters (RFC 2046 5.1.1)",
		    HTTP_FORM_BOUNDARY);
		return;
	}
	b = send_body_new(req, SEND_PATH, done);
	if (b == NULL)
		return;
	form = xcalloc(1, sizeof(*form));
	form->req = req;
	form->body = b;
	b->form = form;
	b->files = json_array();
	http_form_init(&form->parser, boundary, &calls, form);
	/* What the parts say of themselves comes on top of what is in them. */
	http_request_stream(
	    req, api->setup.size_max + api->setup.json_max, on_data);
}
