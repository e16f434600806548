/* SPDX-License-Identifier: ISC */
/*
 * page_revises.c - the rejected mail that a message revises, and what changed
 *
 * The agent names it, so it counts only when it is of the same inbox and this
 * operator may see it. Its bytes are opened for the tab that compares, with a
 * reason of our own, which goes to the audit log like any other.
 */
#include <string.h>

#include "admin/page_message.h"
#include "admin/words.h"
#include "base/pool.h"
#include "base/xalloc.h"

#define WHY "compared with its revision"

static bool
is_set(const struct uuid *u)
{
	static const struct uuid none;

	return !uuid_eq(u, &none);
}

void
page_revises_ask(struct page *page)
{
	struct message_page *mp = page->mine;

	if (mp->m.is.status >= 300 || !is_set(&mp->m.revises))
		return;
	review_get(&page->who->op, &mp->m.revises, NULL, &page->mem, &mp->old,
	    page_arrived, page_wait(page));
}

void
page_revises_fill(struct page *page)
{
	struct message_page *mp = page->mine;
	struct view_message *view = &mp->view;
	const struct review_message *old = &mp->old;
	char id[UUID_ID_MAX];

	if (!is_set(&mp->m.revises))
		return;
	uuid_to_id(id, "msg_", &mp->m.revises);
	view->revises = arena_strdup(&page->mem, id);
	if (old->is.status >= 300 || old->tenant != mp->m.tenant ||
	    old->inbox != mp->m.inbox)
		return;
	view->revises_known = true;
	view->revises_state = words_state(old->state);
	view->revises_category = old->category;
	view->revises_note = old->note;
}

/* All that is text of it. */
static struct str
text_of(struct arena *mem, const struct message_read *r)
{
	struct buf text = { 0 };
	struct str kept;
	size_t i;

	for (i = 0; i < r->part_count; i++) {
		const struct view_part *p = &r->parts[i];

		if (p->code || p->text == NULL)
			continue;
		buf_add(&text, p->text, p->text_n);
		buf_putc(&text, '\n');
	}
	kept = (struct str){ arena_str(mem, buf_str(&text)), text.n };
	buf_free(&text);
	return kept;
}

static void
compare(struct page *page)
{
	struct message_page *mp = page->mine;

	diff_words(&mp->revised, &page->mem, text_of(&page->mem, &mp->old_read),
	    text_of(&page->mem, &mp->read));
	mp->view.revised = &mp->revised;
	mp->revised_then(page);
}

static void
on_decoded(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	message_read_again(&mp->old_read);
	compare(page);
}

static void
on_read(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	if (!foreign_ask(
		&mp->old_read.foreign, page->admin->helpers, on_decoded, page))
		compare(page);
}

static void
work(void *arg)
{
	struct page *page = arg;
	struct message_page *mp = page->mine;

	message_read(&mp->old_read);
}

static void
on_open(struct page *page)
{
	struct message_page *mp = page->mine;

	mp->view.revises_problem = mp->old_open.problem;
	if (mp->old_open.problem == NULL) {
		mp->old_read.bytes = buf_str(&mp->old_open.bytes);
		if (pool_submit(page->admin->pool, work, on_read, page))
			return;
		mp->view.revises_problem = "Many messages are being opened "
					   "right now. Load the page again.";
	}
	mp->revised_then(page);
}

void
page_revises_open(struct page *page, page_fn *then)
{
	struct message_page *mp = page->mine;

	mp->revised_then = then;
	if (!mp->view.revises_known || mp->view.tab != VIEW_TAB_REVISED) {
		then(page);
		return;
	}
	message_open_start(&mp->old_open, page, &mp->old.message,
	    mp->old.version, WHY, on_open);
}
