/* SPDX-License-Identifier: ISC */
/*
 * page_message.h - all that is known of one message, for its page
 */
#ifndef ADMIN_PAGE_MESSAGE_H
#define ADMIN_PAGE_MESSAGE_H

#include "admin/diff.h"
#include "admin/links.h"
#include "admin/message_open.h"
#include "admin/message_read.h"
#include "admin/page.h"
#include "store/together.h"

struct message_page {
	struct uuid id;
	const char *why; /* reason to open a decided message, or NULL */
	struct review_message m;
	struct review_recipients rcpts;
	struct review_attempts attempts;
	struct review_events events;
	struct review_decisions decisions;
	struct review_rows around; /* the queue's first rows: neighbours */
	struct message_open open;
	struct message_read read;
	struct foreign closed; /* the subject while it is not */
	bool frame; /* only the HTML itself is asked for */
	bool is_open; /* `read` is filled */
	bool digest_ok;
	struct review_known known; /* recipients that were reached before */
	struct review_volume volume;
	struct review_risk raised;
	int stored_risk; /* before this opening */
	int risk; /* by what it showed */
	struct diff diff; /* of text and HTML, for its tab */
	struct links links;
	struct review_message old; /* what it revises */
	struct message_open old_open;
	struct message_read old_read;
	struct diff revised;
	page_fn *revised_then;
	struct look look; /* who else has it open */
	struct comments comments;
	struct view_message view;
};

/* page_message_view.c: fill the view from what was gathered, and `findings`. */
void page_message_fill(struct page *page);
/* Then, when the risk is known: what follows from it. */
void page_message_finish(struct page *page);
/* page_findings.c: what the whole of it says beyond texts and files. */
void page_findings_fill(struct page *page);
/* As reasons, heaviest first, in view->reasons. */
void page_findings_show(struct page *page);

/* page_revises.c: ask for what it revises, if anything; then show that. */
void page_revises_ask(struct page *page);
void page_revises_fill(struct page *page);
/* Open and compare it, when that is asked for; then go on. */
void page_revises_open(struct page *page, page_fn *then);

/* page_frame.c: the HTML of what was read, alone and locked in. */
void page_frame_send(struct page *page);
/* page_message.c: read everything of mine->id, then draw. */
void page_message_gather(struct page *page);

#endif
