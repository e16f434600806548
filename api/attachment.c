/* SPDX-License-Identifier: ISC */
/*
 * attachment.c - the decoded bytes of one attachment.
 *
 * The message is read twice: first to find the attachment and its size, then
 * to hand it on as it passes. Neither time is it kept. It always goes out as
 * a file of unknown type: what it claims to be stands in the message's JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "api/content.h"
#include "api/internal.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/content.h"
#include "store/message.h"

struct fetch {
	struct http_request *req; /* until the reply begins */
	struct http_stream *stream; /* from then on */
	struct store_raw *raw;
	struct content *content; /* of the pass under way */
	struct uuid id;
	int version;
	char *path; /* in the second pass */
	char *filename;
	uint64_t size;
	bool well, room;
};

static void
free_fetch(struct fetch *f)
{
	content_free(f->content);
	free(f->path);
	free(f->filename);
	free(f);
}

static void
on_gone(void *arg)
{
	struct fetch *f = arg;

	store_raw_cancel(f->raw);
	free_fetch(f);
}

static void
on_drained(void *arg)
{
	struct fetch *f = arg;

	f->room = true;
	store_raw_resume(f->raw);
}

static const struct http_stream_fns stream_fns = {
	.drained = on_drained,
	.gone = on_gone,
};

/* RFC 8187: name*=UTF-8''... */
static void
put_name(struct http_request *req, const char *name)
{
	static const char plain[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	    "0123456789!#$&+-.^_`|~";
	struct buf b = { 0 };

	buf_puts(&b, "attachment");
	if (name[0] != '\0')
		buf_puts(&b, "; filename*=UTF-8''");
	for (; *name != '\0'; name++) {
		if (strchr(plain, *name) != NULL)
			buf_putc(&b, *name);
		else
			buf_printf(&b, "%%%02X", (unsigned char)*name);
	}
	http_reply_header(req, "Content-Disposition", buf_cstr(&b));
	buf_free(&b);
}

static bool
on_data(void *arg, const void *p, size_t n)
{
	struct fetch *f = arg;

	f->well = f->well && content_feed(f->content, p, n);
	return f->room;
}

static void
on_wanted(void *arg, const void *p, size_t n)
{
	struct fetch *f = arg;

	f->room = http_stream_write(f->stream, p, n);
}

/* Second pass. */
static void
on_send_head(void *arg, const struct store_message *m)
{
	struct fetch *f = arg;
	struct http_request *req = f->req;

	(void)m;
	http_request_on_cancel(req, NULL, NULL);
	put_name(req, f->filename);
	f->req = NULL;
	f->stream = http_reply_stream(req, 200, "application/octet-stream",
	    (long long)f->size, &stream_fns, f);
}

static void
on_send_end(void *arg, enum err_code code)
{
	struct fetch *f = arg;

	if (f->stream != NULL) {
		http_stream_end(f->stream,
		    code == E_NONE && f->well && content_finish(f->content));
	} else {
		http_request_on_cancel(f->req, NULL, NULL);
		api_refuse(f->req, code != E_NONE ? code : E_INTERNAL_ERROR);
	}
	free_fetch(f);
}

static const struct store_raw_fns send_fns = {
	.head = on_send_head,
	.data = on_data,
	.end = on_send_end,
};

/* Read the message from its beginning. */
static void
read_message(struct fetch *f, const struct store_raw_fns *fns)
{
	struct secret kek = { 0 };

	content_free(f->content);
	f->content = content_new();
	f->well = f->room = true;
	if (f->path != NULL)
		content_want(f->content, f->path, on_wanted, f);
	/* The key was good at the sign-in, so it has the form of one. */
	BUG_ON(!store_token_kek(api_token(f->req), &kek));
	f->raw = store_message_raw(api_cred(f->req), &f->id, 0, &kek, fns, f);
	secret_wipe(&kek);
}

/* First pass. */
static void
on_look_head(void *arg, const struct store_message *m)
{
	((struct fetch *)arg)->version = m->version;
}

static const struct content_attachment *
find(const struct fetch *f)
{
	const char *given = http_request_param(f->req, "attachment_id");
	const struct content_attachment *a;
	char id[UUID_ID_MAX];
	size_t i;

	for (i = 0; i < content_attachments(f->content); i++) {
		a = content_attachment(f->content, i);
		api_attachment_id(id, &f->id, f->version, a->path);
		if (strcmp(id, given) == 0)
			return a;
	}
	return NULL;
}

static void
on_look_end(void *arg, enum err_code code)
{
	struct fetch *f = arg;
	struct http_request *req = f->req;
	const struct content_attachment *a = NULL;

	if (code == E_NONE && f->well && content_finish(f->content))
		a = find(f);
	if (a != NULL) {
		f->path = xstrdup(a->path);
		f->filename = xstrdup(a->filename);
		f->size = a->size;
		read_message(f, &send_fns);
		return;
	}
	http_request_on_cancel(req, NULL, NULL);
	free_fetch(f);
	if (code != E_NONE)
		api_refuse(req, code);
	else
		http_fail(req, E_NOT_FOUND,
		    "this version of the message has no such attachment");
}

static const struct store_raw_fns look_fns = {
	.head = on_look_head,
	.data = on_data,
	.end = on_look_end,
};

void
api_op_messages_attachment(struct http_request *req)
{
	struct uuid id;
	struct fetch *f;

	if (!api_message_id(req, &id))
		return;
	f = xcalloc(1, sizeof(*f));
	f->req = req;
	f->id = id;
	http_request_on_cancel(req, on_gone, f);
	read_message(f, &look_fns);
}
