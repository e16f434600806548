/* SPDX-License-Identifier: ISC */
/*
 * page_message.h - all that is known of one message, for its page
 */
#ifndef ADMIN_PAGE_MESSAGE_H
#define ADMIN_PAGE_MESSAGE_H

#include "admin/message_open.h"
#include "admin/message_read.h"
#include "admin/page.h"

struct message_page {
	struct uuid id;
	const char *why; /* reason to open a decided message, or NULL */
	struct review_message m;
	struct review_recipients rcpts;
	struct review_events events;
	struct review_decisions decisions;
	struct review_rows around; /* the queue's first rows: neighbours */
	struct message_open open;
	struct message_read read;
	struct foreign closed; /* the subject while it is not */
	bool is_open; /* `read` is filled */
	bool digest_ok;
};

/* page_message_view.c: fill the view from what was gathered. */
void page_message_fill(struct page *page, struct view_message *view);

#endif
