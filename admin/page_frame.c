/* SPDX-License-Identifier: ISC */
/*
 * page_frame.c - the HTML of a message as a document of its own
 *
 * This is what an agent wrote, byte for byte, so nothing here trusts it: the
 * policy of the reply fetches and runs nothing and puts the document into a
 * sandbox, also when somebody opens the address in a tab; the frame around it
 * has a sandbox of its own. Neither is enough alone. Nothing is judged by what
 * it says: a filter that is nearly right is wrong. But no policy covers a
 * connection opened ahead (rel=preconnect), so a tag that could ask for one
 * becomes another, unknown tag, wherever its name stands.
 */
#include <string.h>
#include <strings.h>

#include "admin/handlers.h"
#include "admin/page_message.h"
#include "http/reply.h"
#include "http/request.h"

static const struct view_part *
first_html(const struct message_read *r)
{
	size_t i;

	for (i = 0; i < r->part_count; i++)
		if (r->parts[i].code)
			return &r->parts[i];
	return NULL;
}

/* "<link" to "<_ink": a tag has its name in these bytes and no others. */
static void
blunt(unsigned char *p, size_t n, const char *tag)
{
	size_t len = strlen(tag), i;

	for (i = 0; i + len <= n; i++)
		if (p[i] == '<' &&
		    strncasecmp((const char *)p + i, tag, len) == 0)
			p[i + 1] = '_';
}

static void
lock_in(struct http_request *req)
{
	http_reply_header(req, "Content-Security-Policy",
	    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
	    "font-src data:; form-action 'none'; base-uri 'none'; "
	    "frame-ancestors 'self'; sandbox");
	http_reply_header(req, "X-Frame-Options", "SAMEORIGIN");
	http_reply_header(req, "Cross-Origin-Opener-Policy", "unsafe-none");
	http_reply_header(req, "Referrer-Policy", "no-referrer");
}

void
page_frame_send(struct page *page)
{
	struct message_page *mp = page->mine;
	const struct view_part *html =
	    mp->is_open ? first_html(&mp->read) : NULL;

	if (html == NULL) {
		page_problem(page->req, 404, "Not found",
		    "There is no HTML at this address that you may see.");
		return;
	}
	lock_in(page->req);
	buf_add(&page->out, html->text, html->text_n);
	blunt(page->out.p, page->out.n, "<link");
	blunt(page->out.p, page->out.n, "<iframe"); /* its srcdoc is a page */
	page_send(page, 200);
}

void
handle_frame(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct message_page));
	struct message_page *mp = page->mine;
	const char *why = http_request_query(req, "why");

	if (!page_message_id(page, &mp->id))
		return;
	mp->frame = true;
	mp->why = why != NULL && why[0] != '\0' ? why : NULL;
	page_message_gather(page);
}
