/* SPDX-License-Identifier: ISC */
/*
 * page_only.c - one tenant of several, chosen for all pages
 *
 * The choice is a cookie of the browser: it hides, it does not protect. What a
 * person may see the database decides in every call, and of a tenant that is
 * not among it there is nothing.
 */
#include <stdio.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/html.h"
#include "admin/page.h"
#include "http/reply.h"
#include "http/request.h"

#define TENANTS_MAX 100 /* a longer list is no list to choose from */

/* The lists that one comes back to, by what is narrowed in them. */
static const char *const lists[] = { "/q", "/history", "/inboxes", "/pause",
	"/health", "/audit", "/tenants", "/operators", "/jobs", "/account" };
static const char *const kept[] = { "q", "show", "since", "risk", "sort" };

/* Where the form leads back to: this list, else the one it is part of. */
static const char *
back_of(struct page *page, enum view_nav nav)
{
	const char *path = http_request_path(page->req), *value;
	struct buf to = { 0 };
	size_t i, n = sizeof(lists) / sizeof(lists[0]);

	for (i = 0; i < n && strcmp(path, lists[i]) != 0; i++)
		;
	if (i == n)
		return nav == VIEW_NAV_INBOXES ? "/inboxes" : "/q";
	buf_puts(&to, path);
	for (i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		value = http_request_query(page->req, kept[i]);
		if (value == NULL || value[0] == '\0' || strlen(value) > 100)
			continue;
		buf_printf(&to,
		    "%c%s=", memchr(to.p, '?', to.n) != NULL ? '&' : '?',
		    kept[i]);
		HTML(&to, PATH(value));
	}
	path = arena_str(&page->mem, buf_str(&to));
	buf_free(&to);
	return path;
}

bool
page_only_is_gone(const struct page *page)
{
	const struct review_tenants *all = &page->tenants;
	size_t i;

	if (page->only == 0 || all->is.status != 200)
		return false;
	for (i = 0; i < all->n && all->row[i].tenant != page->only; i++)
		;
	return i == all->n;
}

void
page_only_fill(struct page *page, enum view_nav nav)
{
	const struct review_tenants *all = &page->tenants;
	struct view_only *only = &page->view_only;
	struct view_tenant *to;
	size_t i;

	if (all->is.status >= 300 || (all->n < 2 && page->only == 0))
		return;
	to = arena_array(&page->mem, all->n + 1, sizeof(*to));
	*only = (struct view_only){ .tenants = to, .back = back_of(page, nav) };
	for (i = 0; i < all->n; i++) {
		const struct review_tenant *t = &all->row[i];

		if (t->tenant == page->only)
			only->slug = t->slug;
		if (all->n <= TENANTS_MAX)
			to[only->count++] =
			    (struct view_tenant){ t->tenant, t->held, t->slug };
	}
	/* An answer to a form; the next page is without it. */
	if (page->only != 0 && only->slug == NULL)
		only->slug = "none of yours";
	only->tenant = page->only;
	page->shell.only = only;
}

struct choosing {
	struct review_tenants tenants;
	const char *back;
};

static void
on_tenants(struct page *page)
{
	struct choosing *c = page->mine;
	const char *key = http_request_field(page->req, "tenant", 0);
	const char *slug = http_request_field(page->req, "slug", 0);
	int64_t tenant = 0;
	size_t i;

	if (c->tenants.is.status >= 300) {
		page_refuse(page, &c->tenants.is);
		return;
	}
	for (i = 0; i < c->tenants.n; i++) {
		const struct review_tenant *t = &c->tenants.row[i];
		char text[24];

		snprintf(text, sizeof(text), "%lld", (long long)t->tenant);
		if ((key != NULL && strcmp(text, key) == 0) ||
		    (key == NULL && slug != NULL &&
			strcasecmp(t->slug, slug) == 0))
			tenant = t->tenant;
	}
	if (tenant == 0 && (key == NULL || strcmp(key, "0") != 0)) {
		page_problem(page->req, 404, "Not found",
		    "There is no such tenant that you may see.");
		return;
	}
	session_set_only(page->req, tenant);
	http_reply_redirect(page->req, c->back);
}

void
handle_only_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct choosing));
	struct choosing *c;

	if (page == NULL)
		return;
	c = page->mine;
	c->back = session_return_to(http_request_field(req, "back", 0));
	review_tenants(&page->who->op, &page->mem, &c->tenants, page_arrived,
	    page_wait(page));
	page_then(page, on_tenants);
}
