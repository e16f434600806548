/* SPDX-License-Identifier: ISC */
/*
 * page_message.c - gathering one message: rows, then keys, bytes, structure
 */
#include "admin/page_message.h"

#include <stdlib.h>
#include <string.h>

#include "admin/diff.h"
#include "admin/handlers.h"
#include "base/pool.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"

#define NEIGHBOURS 50
#define WHY_RAW "raw bytes" /* held mail: for the audit log */

static void
clear_message(void *mine)
{
	struct message_page *mp = mine;

	message_open_clear(&mp->open);
	message_read_clear(&mp->read);
	message_open_clear(&mp->old_open);
	message_read_clear(&mp->old_read);
}

static void
draw(struct page *page)
{
	struct message_page *mp = page->mine;
	const struct view_shell *shell;

	page_message_finish(page);
	page->inbox = mp->m.address;
	page->tenant = mp->m.tenant_slug;
	shell = page_shell(page, mp->view.subject, VIEW_NAV_QUEUE);
	view_message(&page->out, shell, &mp->view);
	page_send(page, 200);
}

static void
on_raised(struct page *page)
{
	struct message_page *mp = page->mine;

	if (mp->raised.is.status < 300) {
		mp->m.risk = mp->raised.risk;
		mp->m.may_decide = mp->raised.may_decide;
		mp->m.may_why = mp->raised.may_why;
	} else if (mp->m.state == STATE_HELD && mp->risk > mp->m.risk) {
		mp->m.risk = mp->risk; /* not kept, but true of this page */
	}
	draw(page);
}

static void
weigh(struct page *page)
{
	struct message_page *mp = page->mine;

	mp->risk = finding_risk(&mp->read.findings.marks);
	if (mp->m.state == STATE_HELD && mp->risk > mp->m.risk)
		review_risk(&page->who->op, &mp->id, mp->m.version, mp->risk,
		    &page->mem, &mp->raised, page_arrived, page_wait(page));
	else
		mp->raised.is.status = 500; /* not asked */
	page_then(page, on_raised);
}

/* The stricter of what was found early and now counts (A8). */
static void
judge(struct page *page)
{
	struct message_page *mp = page->mine;

	if (mp->frame) {
		page_frame_send(page);
		return;
	}
	page_message_fill(page);
	page_findings_fill(page);
	if (mp->view.tab == VIEW_TAB_DIFF)
		diff_words(
		    &mp->diff, &page->mem, mp->read.plain, mp->read.shown);
	page_revises_open(page, weigh);
}

static void
on_subject(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	mp->m.subject = foreign_subject(&mp->closed, mp->m.subject);
	page_message_fill(page);
	draw(page);
}

/* Without its bytes: what the database has of it in clear. */
static void
draw_closed(struct page *page)
{
	struct message_page *mp = page->mine;

	if (mp->frame) {
		page_frame_send(page);
		return;
	}
	mp->closed.mem = &page->mem;
	mp->closed.deadline_ms = FOREIGN_LIST_MS;
	mp->closed.cache = page->admin->words;
	(void)foreign_subject(&mp->closed, mp->m.subject);
	if (!foreign_ask(&mp->closed, page->admin->helpers, on_subject, page))
		on_subject(page);
}

static void
on_decoded(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	message_read_again(&mp->read);
	judge(page);
}

static void
on_read(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	mp->is_open = true;
	if (!foreign_ask(
		&mp->read.foreign, page->admin->helpers, on_decoded, page))
		judge(page);
}

static void
work(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	message_read(&mp->read);
}

static void
on_open(struct page *page)
{
	struct message_page *mp = page->mine;

	mp->digest_ok =
	    mp->open.problem == NULL &&
	    message_digest_ok(&mp->m, mp->open.keys.body_tag, &page->mem);
	if (mp->open.problem != NULL) {
		draw_closed(page);
		return;
	}
	mp->read.bytes = buf_str(&mp->open.bytes);
	if (!pool_submit(page->admin->pool, work, on_read, page)) {
		mp->open.problem = "Many messages are being opened right now. "
				   "Load the page again.";
		draw_closed(page);
	}
}

static bool
asks_raw(struct page *page)
{
	const char *view = http_request_query(page->req, "view");

	return view != NULL && strcmp(view, "raw") == 0;
}

static void
open_it(struct page *page)
{
	struct message_page *mp = page->mine;

	page_revises_fill(page);
	if (mp->m.state != STATE_HELD && mp->why == NULL) {
		draw_closed(page);
		return;
	}
	message_open_start(&mp->open, page, &mp->id, mp->m.version,
	    mp->why == NULL && asks_raw(page) ? WHY_RAW : mp->why, on_open);
}

static void
on_gathered(struct page *page)
{
	struct message_page *mp = page->mine;

	if (mp->m.is.status >= 300) {
		page_refuse(page, &mp->m.is);
		return;
	}
	if (mp->rcpts.is.status >= 300) { /* else nobody would be listed */
		page_refuse(page, &mp->rcpts.is);
		return;
	}
	page_revises_ask(page);
	page_then(page, open_it);
}

void
page_message_gather(struct page *page)
{
	struct message_page *mp = page->mine;
	const struct store_operator *who = &page->who->op;
	const struct review_query queue = {
		.tenant = page->only, .limit = NEIGHBOURS, .collapse = true
	};

	page->clear = clear_message;
	page_ask_shell(page);
	review_get(who, &mp->id, NULL, &page->mem, &mp->m, page_arrived,
	    page_wait(page));
	review_recipients(who, &mp->id, &page->mem, &mp->rcpts, page_arrived,
	    page_wait(page));
	review_attempts(who, &mp->id, &page->mem, &mp->attempts, page_arrived,
	    page_wait(page));
	review_events(who, &mp->id, &page->mem, &mp->events, page_arrived,
	    page_wait(page));
	review_decisions(who, &mp->id, &page->mem, &mp->decisions, page_arrived,
	    page_wait(page));
	comment_list(who, &mp->id, &page->mem, &mp->comments, page_arrived,
	    page_wait(page));
	if (session_has_role(page->who, "reviewer") ||
	    session_has_role(page->who, "senior"))
		look_begin(who, &mp->id, false, &page->mem, &mp->look,
		    page_arrived, page_wait(page));
	review_known(who, &mp->id, &page->mem, &mp->known, page_arrived,
	    page_wait(page));
	review_volume(who, &mp->id, &page->mem, &mp->volume, page_arrived,
	    page_wait(page));
	review_list(who, &queue, &page->mem, &mp->around, page_arrived,
	    page_wait(page));
	page_then(page, on_gathered);
}

void
handle_message(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct message_page));
	struct message_page *mp = page->mine;
	const char *why = http_request_query(req, "why");

	if (!page_message_id(page, &mp->id))
		return;
	mp->why = why != NULL && why[0] != '\0' ? why : NULL;
	page_message_gather(page);
}

/* A reason was given to open a decided message; it goes to the audit log. */
void
handle_message_open_post(struct http_request *req)
{
	const char *why = http_request_field(req, "why", 0);
	struct page *page = page_new_action(req, sizeof(struct message_page));
	struct message_page *mp;

	if (page == NULL)
		return;
	mp = page->mine;
	if (!page_message_id(page, &mp->id))
		return;
	mp->why = why != NULL && why[0] != '\0' ? why : NULL;
	page_message_gather(page);
}
