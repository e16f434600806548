/* SPDX-License-Identifier: ISC */
/*
 * page_together.c - who looks at a message, and what they say about it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/together.h"

struct talking {
	struct uuid message;
	struct look look;
	struct review_answer is;
	bool quiet; /* a script asks: no page for an answer */
	const char *said, *to; /* the notice, and where on the page */
};

static void
go_back(struct page *page)
{
	struct talking *t = page->mine;
	char id[UUID_ID_MAX], path[UUID_ID_MAX + 40];

	uuid_to_id(id, "msg_", &t->message);
	snprintf(path, sizeof(path), "/m/%s?said=%s%s", id, t->said, t->to);
	http_reply_redirect(page->req, path);
}

static void
on_look(struct page *page)
{
	struct talking *t = page->mine;
	const struct review_answer *is =
	    t->is.status != 0 ? &t->is : &t->look.is;

	if (is->status >= 300)
		page_refuse(page, is);
	else if (t->quiet)
		http_reply_empty(page->req, 204);
	else
		go_back(page);
}

/* `to`: keep (again for five minutes), take (from somebody), end. */
void
handle_look_post(struct http_request *req)
{
	const char *to = http_request_field(req, "to", 0);
	struct page *page = page_new_action(req, sizeof(struct talking));
	struct talking *t;

	if (page == NULL)
		return;
	t = page->mine;
	if (!page_message_id(page, &t->message))
		return;
	if (to == NULL || (strcmp(to, "keep") != 0 && strcmp(to, "take") != 0 &&
			      strcmp(to, "end") != 0)) {
		page_bad(req, "What to do");
		return;
	}
	t->quiet = strcmp(to, "take") != 0;
	t->said = "taken";
	t->to = "";
	if (strcmp(to, "end") == 0)
		look_end(&page->who->op, &t->message, &t->is, page_arrived,
		    page_wait(page));
	else
		look_begin(&page->who->op, &t->message, !t->quiet, &page->mem,
		    &t->look, page_arrived, page_wait(page));
	page_then(page, on_look);
}

static void
on_comment(struct page *page)
{
	struct talking *t = page->mine;

	if (t->is.status >= 300)
		page_refuse(page, &t->is);
	else
		go_back(page);
}

void
handle_comment_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct talking));
	struct talking *t;

	if (page == NULL)
		return;
	t = page->mine;
	if (!page_message_id(page, &t->message))
		return;
	t->said = "commented";
	t->to = "#comments";
	comment_add(&page->who->op, &t->message,
	    http_request_field(req, "text", 0), &t->is, page_arrived,
	    page_wait(page));
	page_then(page, on_comment);
}
