/* SPDX-License-Identifier: ISC */
/*
 * page_inboxes.c - inboxes, pausing, rejecting all of one inbox
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page_change.h"
#include "admin/step_up.h"
#include "admin/words.h"
#include "http/reply.h"
#include "http/request.h"
#include "store/decide.h"

#define INBOXES_SHOWN 100

struct boxes {
	struct review_inboxes inboxes;
	int64_t tenant, inbox;
	const char *query; /* part of an address, or NULL */
	size_t shown, more;
	bool stops; /* may pause those in reach */
};

/* One more of those that fit the search, as far as they fit a page. */
static bool
is_shown(struct boxes *b, const struct review_inbox *r, bool always)
{
	if (!always && b->query != NULL &&
	    strcasestr(r->address, b->query) == NULL)
		return false;
	if (!always && b->shown >= INBOXES_SHOWN) {
		b->more++;
		return false;
	}
	b->shown++;
	return true;
}

static void
draw_inboxes(struct page *page)
{
	struct boxes *b = page->mine;
	struct view_inboxes view = { .query = b->query };
	struct view_inbox *rows;
	size_t i, t, n = 0;

	if (b->inboxes.is.status >= 300) {
		page_refuse(page, &b->inboxes.is);
		return;
	}
	rows = arena_array(&page->mem, b->inboxes.n + 1, sizeof(*rows));
	for (i = 0; i < b->inboxes.n; i++) {
		const struct review_inbox *r = &b->inboxes.row[i];

		if (!is_shown(b, r, false))
			continue;
		rows[n] = (struct view_inbox){ r->address, "", r->tenant,
			r->inbox, r->mode, r->held, r->used_day, r->lim_day,
			r->paused, r->suspended, r->claimed, r->test,
			r->alarm };
		for (t = 0; t < page->tenants.n; t++)
			if (page->tenants.row[t].tenant == r->tenant)
				rows[n].tenant = page->tenants.row[t].slug;
		n++;
	}
	view.rows = rows;
	view.row_count = n;
	view.more = b->more;
	view_inboxes(
	    &page->out, page_shell(page, "Inboxes", VIEW_NAV_INBOXES), &view);
	page_send(page, 200);
}

static struct page *
ask_boxes(struct http_request *req, page_fn *then)
{
	struct page *page = page_new(req, sizeof(struct boxes));
	struct boxes *b = page->mine;

	b->query = http_request_query(req, "q");
	if (b->query != NULL && b->query[0] == '\0')
		b->query = NULL;
	page_ask_shell(page);
	review_inboxes(&page->who->op, page->only, &page->mem, &b->inboxes,
	    page_arrived, page_wait(page));
	page_then(page, then);
	return page;
}

void
handle_inboxes(struct http_request *req)
{
	ask_boxes(req, draw_inboxes);
}

/* ---- pausing */

/* Who paused what `row` is about, and why: as far as it was asked for. */
static void
fill_why(struct page *page, struct view_switch *row, const char *address)
{
	size_t i;

	for (i = 0; row->paused && i < page->pauses.n; i++) {
		const struct review_pause *p = &page->pauses.row[i];

		if (strcmp(p->level, row->level) == 0 &&
		    strcmp(p->address[0] != '\0' ? p->address : p->tenant_slug,
			address) == 0)
			row->pause = (struct view_pause){ .at_us = p->at_us,
				.who = p->who,
				.reason = p->reason };
	}
}

static size_t
fill_tenant_switches(struct page *page, struct view_switch *rows, size_t n,
    const struct review_tenant *tenant)
{
	struct boxes *b = page->mine;
	size_t i;

	rows[n] = (struct view_switch){ "tenant", tenant->tenant, 0,
		tenant->slug, tenant->paused, b->stops, { 0 } };
	fill_why(page, &rows[n++], tenant->slug);
	for (i = 0; i < b->inboxes.n; i++) {
		const struct review_inbox *r = &b->inboxes.row[i];

		if (r->tenant != tenant->tenant || !is_shown(b, r, r->paused))
			continue;
		rows[n] = (struct view_switch){ "inbox", r->tenant, r->inbox,
			r->address, r->paused, b->stops, { 0 } };
		fill_why(page, &rows[n++], r->address);
	}
	return n;
}

static void
draw_pauses(struct page *page)
{
	struct boxes *b = page->mine;
	const struct operator_session *s = &page->who->session;
	struct view_pauses view = { .error = change_error(page->req) };
	struct view_switch *rows;
	size_t i, n = 0;

	if (b->inboxes.is.status >= 300) {
		page_refuse(page, &b->inboxes.is);
		return;
	}
	rows = arena_array(
	    &page->mem, b->inboxes.n + page->tenants.n + 1, sizeof(*rows));
	b->stops = session_has_role(page->who, "reviewer") ||
		   session_has_role(page->who, "senior") ||
		   session_has_role(page->who, "admin");
	rows[n] = (struct view_switch){ "global", 0, 0, "Everything",
		s->global_paused, session_has_role(page->who, "admin"), { 0 } };
	fill_why(page, &rows[n++], "");
	for (i = 0; i < page->tenants.n; i++)
		if (page->only == 0 ||
		    page->tenants.row[i].tenant == page->only)
			n = fill_tenant_switches(
			    page, rows, n, &page->tenants.row[i]);
	view.rows = rows;
	view.row_count = n;
	view.query = b->query;
	view.more = b->more;
	view_pauses(
	    &page->out, page_shell(page, "Pause", VIEW_NAV_PAUSE), &view);
	page_send(page, 200);
}

void
handle_pause(struct http_request *req)
{
	ask_boxes(req, draw_pauses);
}

struct pausing {
	struct review_answer is;
	int64_t tenant, inbox;
	bool pause;
};

static void
on_paused(struct page *page)
{
	struct pausing *p = page->mine;

	if (p->is.status >= 300)
		page_refuse(page, &p->is);
	else
		page_done(page, "/pause", p->pause ? "paused" : "resumed");
}

static void
do_pause(struct page *page)
{
	struct pausing *p = page->mine;

	operator_pause(&page->who->op, p->tenant, p->inbox, p->pause,
	    http_request_field(page->req, "reason", 0), &p->is, page_arrived,
	    page_wait(page));
	page_then(page, on_paused);
}

static void
wrong_password(struct page *page)
{
	struct buf to = { 0 };

	buf_printf(&to, "/pause?error=%s", page->step_up_error);
	http_reply_redirect(page->req, buf_cstr(&to));
	buf_free(&to);
}

/* A key of ours; a form without it, or with nothing in it, means 0: all. */
static bool
id_field(struct http_request *req, const char *name, int64_t *id)
{
	const char *text = http_request_field(req, name, 0);
	unsigned long long v = 0;

	if (text != NULL && text[0] != '\0' &&
	    !str_to_u64(str_of(text), INT64_MAX, &v))
		return false;
	*id = (int64_t)v;
	return true;
}

static bool
read_scope(struct http_request *req, int64_t *tenant, int64_t *inbox)
{
	if (id_field(req, "tenant", tenant) && id_field(req, "inbox", inbox) &&
	    (*tenant != 0 || *inbox == 0))
		return true;
	page_bad(req, "A tenant or inbox");
	return false;
}

void
handle_pause_post(struct http_request *req)
{
	const char *to = http_request_field(req, "to", 0);
	struct page *page = page_new_action(req, sizeof(struct pausing));
	struct pausing *p;

	if (page == NULL)
		return;
	p = page->mine;
	if (!read_scope(req, &p->tenant, &p->inbox))
		return;
	if (to == NULL ||
	    (strcmp(to, "resume") != 0 && strcmp(to, "pause") != 0)) {
		page_bad(req, "What to do");
		return;
	}
	p->pause = strcmp(to, "pause") == 0;
	if (!change_has_reason(req))
		http_reply_redirect(req, "/pause?error=reason");
	else if (!p->pause && step_up_given(page))
		step_up_start(page, do_pause, wrong_password);
	else
		do_pause(page);
}
