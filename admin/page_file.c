/* SPDX-License-Identifier: ISC */
/*
 * page_file.c - downloads: the whole message, or one file of it
 *
 * Always an attachment of type application/octet-stream in a sandbox, so no
 * browser ever renders what an agent wrote.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/message_open.h"
#include "admin/message_read.h"
#include "admin/page.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"

struct download {
	struct uuid id;
	const char *why;
	bool whole;
	unsigned ix;
	struct review_message m;
	struct message_open open;
};

static void
clear_download(void *mine)
{
	struct download *d = mine;

	message_open_clear(&d->open);
}

static bool
is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

/* RFC 6266: a plain name for old browsers, the true one for the others. */
static void
name_it(struct http_request *req, const char *name)
{
	struct buf line = { 0 };
	size_t i;

	buf_puts(&line, "attachment; filename=\"");
	for (i = 0; name[i] != '\0' && i < 100; i++)
		buf_putc(&line, is_plain(name[i]) ? name[i] : '_');
	buf_puts(&line, "\"; filename*=UTF-8''");
	for (i = 0; name[i] != '\0' && i < 200; i++) {
		if (is_plain(name[i]))
			buf_putc(&line, name[i]);
		else
			buf_printf(&line, "%%%02X", (unsigned char)name[i]);
	}
	http_reply_header(req, "Content-Disposition", buf_cstr(&line));
	http_reply_header(
	    req, "Content-Security-Policy", "default-src 'none'; sandbox");
	buf_free(&line);
}

#define WHY_TAKEN "downloaded" /* held mail: for the audit log */

static void
send_whole(struct page *page)
{
	struct download *d = page->mine;
	char id[UUID_ID_MAX], name[UUID_ID_MAX + 8];

	uuid_to_id(id, "msg_", &d->id);
	snprintf(name, sizeof(name), "%s.eml", id);
	name_it(page->req, name);
	http_reply_bytes(page->req, 200, "application/octet-stream",
	    d->open.bytes.p, d->open.bytes.n);
}

static void
send_leaf(struct page *page)
{
	struct download *d = page->mine;
	struct buf body = { 0 };
	char *name = NULL;

	if (message_read_leaf(
		buf_str(&d->open.bytes), d->ix, &page->mem, &body, &name)) {
		name_it(page->req, name[0] != '\0' ? name : "unnamed");
		http_reply_bytes(
		    page->req, 200, "application/octet-stream", body.p, body.n);
	} else {
		page_problem(page->req, 404, "Not found",
		    "The message has no such file.");
	}
	buf_free(&body);
}

static void
on_open(struct page *page)
{
	struct download *d = page->mine;

	if (d->open.keys.is.status == 403 || d->open.keys.is.status == 404)
		page_problem(page->req, 403, "Not allowed", d->open.problem);
	else if (d->open.problem != NULL)
		page_problem(
		    page->req, 409, "Cannot be opened", d->open.problem);
	else if (d->whole)
		send_whole(page);
	else
		send_leaf(page);
}

static void
on_got(struct page *page)
{
	struct download *d = page->mine;

	if (d->m.is.status >= 300)
		page_refuse(page, &d->m.is);
	else if (d->m.state != STATE_HELD && d->why == NULL)
		page_problem(page->req, 403, "A reason is needed",
		    "The message is decided: open it with a reason first.");
	else
		message_open_start(&d->open, page, &d->id, d->m.version,
		    d->why != NULL ? d->why : WHY_TAKEN, on_open);
}

static void
start(struct page *page)
{
	struct download *d = page->mine;
	const char *why = http_request_query(page->req, "why");

	if (!page_message_id(page, &d->id))
		return;
	page->clear = clear_download;
	d->why = why != NULL && why[0] != '\0' ? why : NULL;
	review_get(&page->who->op, &d->id, NULL, &page->mem, &d->m,
	    page_arrived, page_wait(page));
	page_then(page, on_got);
}

void
handle_download(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct download));
	struct download *d = page->mine;

	d->whole = true;
	start(page);
}

void
handle_file(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct download));
	struct download *d = page->mine;
	unsigned long long ix;

	if (!str_to_u64(str_of(http_request_param(req, "part")), 1000, &ix)) {
		page_bad(req, "The number of a file");
		return;
	}
	d->ix = (unsigned)ix;
	start(page);
}
