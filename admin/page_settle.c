/* SPDX-License-Identifier: ISC */
/*
 * page_settle.c - taking back what was approved, and what may have been sent
 *
 * Both only ever make less leave, but for one outcome of the second: to send
 * again what may have arrived. The form says so, and the reason is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/page.h"
#include "base/log.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"
#include "store/decide.h"

#define RCPT_MAX 1000

struct moving {
	struct uuid message;
	struct moved_answer answer;
	struct review_events events;
	const char *said;
	char id[UUID_ID_MAX];
};

static void
draw_conflict(struct page *page)
{
	struct moving *m = page->mine;
	struct view_problem problem = { .heading = "Nothing was done",
		.name = m->answer.is.text };
	struct buf text = { 0 }, link = { 0 };

	page_winner(&text, &m->events, page->who->session.now_us);
	buf_puts(&text, "It is too late for what you asked.");
	buf_printf(&link, "/m/%s", m->id);
	problem.text = buf_cstr(&text);
	problem.link = buf_cstr(&link);
	problem.link_label = "See what happened";
	page_problem_send(page->req, 409, &problem);
	buf_free(&text);
	buf_free(&link);
}

/* To be sent again by a release that holds no more. */
static void
draw_over(struct page *page)
{
	struct moving *m = page->mine;
	struct buf link = { 0 };

	buf_printf(&link, "/m/%s", m->id);
	page_problem_send(page->req, 409,
	    &(struct view_problem){ .heading = "Nothing was done",
		.name = m->answer.is.text,
		.text = "It cannot be sent again: what let it be sent holds no "
			"more (its approval has lapsed, or the mode or rule "
			"it went by). Find out what became of it, then say "
			"whether it arrived.",
		.link = buf_cstr(&link),
		.link_label = "Back to the message" });
	buf_free(&link);
}

static void
on_moved(struct page *page)
{
	struct moving *m = page->mine;
	char path[UUID_ID_MAX + 8];

	if (strcmp(m->answer.is.text, "release_over") == 0) {
		draw_over(page);
		return;
	}
	if (m->answer.is.status == 409) {
		log_info("admin.conflict",
		    KV("operator", page->who->session.operator_id),
		    KV("message", m->id));
		review_events(&page->who->op, &m->message, &page->mem,
		    &m->events, page_arrived, page_wait(page));
		page_then(page, draw_conflict);
		return;
	}
	if (m->answer.is.status >= 300) {
		page_refuse(page, &m->answer.is);
		return;
	}
	if (strcmp(m->said, "canceled") == 0 &&
	    m->answer.state == STATE_UNCERTAIN)
		m->said = "doubtful";
	admin_recent_drop(page->admin, &m->message);
	log_info("admin.decide", KV("operator", page->who->session.operator_id),
	    KV("message", m->id), KV("code", m->said));
	snprintf(path, sizeof(path), "/m/%s", m->id);
	page_done(page, path, m->said);
}

static struct moving *
start(struct http_request *req, struct page **page, const char *said)
{
	struct moving *m;

	*page = page_new_action(req, sizeof(*m));
	if (*page == NULL)
		return NULL;
	m = (*page)->mine;
	if (!page_message_id(*page, &m->message))
		return NULL;
	uuid_to_id(m->id, "msg_", &m->message);
	m->said = said;
	return m;
}

void
handle_cancel_post(struct http_request *req)
{
	struct page *page;
	struct moving *m = start(req, &page, "canceled");

	if (m == NULL)
		return;
	decide_cancel(&page->who->op, &m->message,
	    http_request_field(req, "note", 0), &m->answer, page_arrived,
	    page_wait(page));
	page_then(page, on_moved);
}

/* "21-40,43-43", onto `ix`; false when it is not that, or too many. */
static bool
read_rest(const char *text, int *ix, size_t *n)
{
	struct str rest = str_of(text != NULL ? text : "");

	while (rest.n > 0) {
		struct str to = str_split(&rest, ',');
		struct str from = str_split(&to, '-');
		unsigned long long a, b;

		if (!str_to_u64(from, RCPT_MAX, &a) || a == 0 ||
		    !str_to_u64(to, RCPT_MAX, &b) || b < a ||
		    *n + (b - a) >= RCPT_MAX)
			return false;
		for (; a <= b; a++)
			ix[(*n)++] = (int)a;
	}
	return true;
}

/* The ticked recipients; 0 when one is no number or none is ticked. */
static size_t
read_ticks(struct http_request *req, int *ix)
{
	const char *text;
	unsigned long long v;
	size_t n;

	for (n = 0;
	     n < RCPT_MAX && (text = http_request_field(req, "ix", n)) != NULL;
	     n++) {
		if (!str_to_u64(str_of(text), RCPT_MAX, &v) || v == 0)
			return 0;
		ix[n] = (int)v;
	}
	return read_rest(http_request_field(req, "rest", 0), ix, &n) ? n : 0;
}

void
handle_settle_post(struct http_request *req)
{
	const char *outcome = http_request_field(req, "outcome", 0);
	struct page *page;
	struct moving *m = start(req, &page, "settled");
	int ix[RCPT_MAX];
	size_t n;

	if (m == NULL)
		return;
	n = read_ticks(req, ix);
	if (n == 0 || outcome == NULL) {
		page_problem(req, 422, "Nothing was done",
		    "Tick at least one recipient and say what became of it.");
		return;
	}
	decide_settle(&page->who->op, &m->message, ix, n, outcome,
	    http_request_field(req, "note", 0), &m->answer, page_arrived,
	    page_wait(page));
	page_then(page, on_moved);
}
