/* SPDX-License-Identifier: ISC */
/*
 * raw.c - the frozen bytes of a message, opened with the caller's own key and
 * streamed. The digest header lets the agent compare with what was approved.
 * Of a capture, the fields that stood in front of them as well.
 */
#include <stdlib.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/secret.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/digest.h"
#include "store/message.h"

struct raw {
	struct http_request *req; /* until the reply begins */
	struct http_stream *stream; /* from then on */
	struct store_raw *op;
	struct buf front;
};

static void
free_raw(struct raw *r)
{
	buf_free(&r->front);
	free(r);
}

static void
on_gone(void *arg)
{
	struct raw *r = arg;

	store_raw_cancel(r->op);
	free_raw(r);
}

static void
on_drained(void *arg)
{
	struct raw *r = arg;

	store_raw_resume(r->op);
}

static const struct http_stream_fns stream_fns = {
	.drained = on_drained,
	.gone = on_gone,
};

static void
on_head(void *arg, const struct store_message *m)
{
	struct raw *r = arg;
	struct http_request *req = r->req;
	char digest[DIGEST_TEXT_MAX];

	digest_format(digest, m->digest);
	http_request_on_cancel(req, NULL, NULL);
	http_reply_header(req, "X-Postern-Digest", digest);
	http_reply_header(
	    req, "Content-Disposition", "attachment; filename=\"message.eml\"");
	r->req = NULL;
	r->stream = http_reply_stream(req, 200, "message/rfc822",
	    (int64_t)r->front.n + m->size, &stream_fns, r);
	if (r->front.n > 0)
		(void)http_stream_write(r->stream, r->front.p, r->front.n);
}

static bool
on_data(void *arg, const void *p, size_t n)
{
	struct raw *r = arg;

	return http_stream_write(r->stream, p, n);
}

static void
on_end(void *arg, enum err_code code)
{
	struct raw *r = arg;

	if (r->stream != NULL) {
		http_stream_end(r->stream, code == E_NONE);
	} else {
		http_request_on_cancel(r->req, NULL, NULL);
		api_refuse(r->req, code != E_NONE ? code : E_INTERNAL_ERROR);
	}
	free_raw(r);
}

static const struct store_raw_fns raw_fns = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
};

void
api_raw_send(struct http_request *req, const struct uuid *id, int64_t grant,
    struct str front)
{
	struct secret kek = { 0 };
	struct raw *r;

	if (!store_token_kek(api_token(req), &kek)) {
		api_refuse(req, E_UNKNOWN_API_KEY);
		return;
	}
	r = xcalloc(1, sizeof(*r));
	r->req = req;
	http_request_on_cancel(req, on_gone, r);
	buf_add_str(&r->front, front);
	r->op = store_message_raw(api_cred(req), id, grant, &kek, &raw_fns, r);
	secret_wipe(&kek);
}

void
api_op_messages_raw(struct http_request *req)
{
	struct uuid id;

	if (api_message_id(req, &id))
		api_raw_send(req, &id, 0, (struct str){ "", 0 });
}
