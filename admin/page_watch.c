/* SPDX-License-Identifier: ISC */
/*
 * page_watch.c - the audit log and health
 */
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page.h"
#include "admin/view_watch.h"
#include "http/request.h"

#define HOUR_US (INT64_C(3600) * 1000000)

struct audit_page {
	struct watch_query query;
	struct watch_rows rows;
	struct uuid message;
	const char *typed;
};

static void
draw_audit(struct page *page)
{
	struct audit_page *a = page->mine;
	struct view_audit view = { .rows = &a->rows,
		.who = a->query.who,
		.what = a->query.what,
		.message = a->typed,
		.first = a->query.before == NULL };

	if (a->rows.is.status >= 300) {
		page_refuse(page, &a->rows.is);
		return;
	}
	if (a->rows.stopped != NULL)
		view.next = a->rows.stopped;
	else if (a->rows.n == VIEW_AUDIT_ROWS)
		view.next = a->rows.row[a->rows.n - 1].key;
	view_audit(
	    &page->out, page_shell(page, "Audit", VIEW_NAV_AUDIT), &view);
	page_send(page, 200);
}

static const char *
filter(struct http_request *req, const char *name)
{
	const char *text = http_request_query(req, name);

	return text != NULL && text[0] != '\0' ? text : NULL;
}

void
handle_audit(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct audit_page));
	struct audit_page *a = page->mine;

	a->query.tenant = page->only;
	a->query.who = filter(req, "who");
	a->query.what = filter(req, "what");
	a->query.before = filter(req, "before");
	a->query.limit = VIEW_AUDIT_ROWS;
	a->typed = filter(req, "message");
	if (a->typed != NULL) {
		if (!uuid_from_id(&a->message, "msg_", str_of(a->typed))) {
			page_bad(req, "The id of a message");
			return;
		}
		a->query.message = &a->message;
	}
	page_ask_shell(page);
	watch_audit(&page->who->op, &a->query, &page->mem, &a->rows,
	    page_arrived, page_wait(page));
	page_then(page, draw_audit);
}

/* ---- health */

static void
put_hour(struct view_hours *hours, const struct watch_fact *f)
{
	int64_t i = (f->at_us - hours->from_us) / HOUR_US;

	if (f->at_us < hours->from_us || i >= VIEW_HOURS)
		return;
	hours->a[i] = f->n;
	hours->b[i] = f->m;
}

static void
draw_health(struct page *page)
{
	struct watch_facts *facts = page->mine;
	int64_t now = page->who->session.now_us;
	struct view_health view = { .facts = facts };
	size_t i;

	if (facts->is.status >= 300) {
		page_refuse(page, &facts->is);
		return;
	}
	view.sent.from_us = now - now % HOUR_US - (VIEW_HOURS - 1) * HOUR_US;
	view.decided.from_us = view.sent.from_us;
	for (i = 0; i < facts->n; i++) {
		const struct watch_fact *f = &facts->row[i];

		if (strcmp(f->what, "hour") == 0)
			put_hour(&view.sent, f);
		else if (strcmp(f->what, "verdict") == 0)
			put_hour(&view.decided, f);
	}
	view_health(
	    &page->out, page_shell(page, "Health", VIEW_NAV_HEALTH), &view);
	page_send(page, 200);
}

void
handle_health(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct watch_facts));

	page_ask_shell(page);
	watch_health(&page->who->op, page->only, &page->mem, page->mine,
	    page_arrived, page_wait(page));
	page_then(page, draw_health);
}
