/* SPDX-License-Identifier: ISC */
/*
 * page_queue.c - queue, history and the count the script asks for
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/foreign.h"
#include "admin/handlers.h"
#include "admin/narrow.h"
#include "admin/page.h"
#include "admin/words.h"
#include "base/arena.h"
#include "base/buf.h"
#include "http/reply.h"
#include "http/request.h"

#define PAGE_ROWS 50
#define LEFT_MAX UINT64_C(99999999999999999) /* as review_list_1 reads it */

struct listing {
	struct review_query query;
	struct review_rows rows;
	struct review_inboxes inboxes;
	char *show, *risk;
	const char *since, *typed; /* of the history: from when, its search */
	bool since_given;
	struct narrow narrow;
	struct foreign foreign;
	page_fn *draw;
};

static void
on_decoded(void *arg)
{
	struct page *page = arg;
	struct listing *l = page->mine;
	size_t i;

	for (i = 0; i < l->rows.n; i++)
		l->rows.row[i].subject =
		    foreign_subject(&l->foreign, l->rows.row[i].subject);
	l->draw(page);
}

/* The rows are there: draw them when their subjects can be read. */
static void
decode(struct page *page, page_fn *draw)
{
	struct listing *l = page->mine;
	size_t i;

	l->draw = draw;
	l->foreign.mem = &page->mem;
	l->foreign.deadline_ms = FOREIGN_LIST_MS;
	l->foreign.cache = page->admin->words;
	for (i = 0; i < l->rows.n; i++)
		(void)foreign_subject(&l->foreign, l->rows.row[i].subject);
	if (!foreign_ask(&l->foreign, page->admin->helpers, on_decoded, page))
		on_decoded(page);
}

static const char *
first_line(struct page *page, const char *lines)
{
	return arena_str(
	    &page->mem, (struct str){ lines, strcspn(lines, "\n") });
}

static int
count_lines(const char *lines)
{
	int n = lines[0] != '\0';

	for (; *lines != '\0'; lines++)
		n += *lines == '\n';
	return n;
}

static int
count_hidden(const char *kinds)
{
	int n = 0;

	for (; *kinds != '\0'; kinds++)
		n += *kinds == 'b';
	return n;
}

static char *
message_id(struct page *page, const struct uuid *message)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", message);
	return arena_strdup(&page->mem, id);
}

static void
fill_queue_row(
    struct page *page, struct view_queue_row *to, const struct review_row *from)
{
	*to = (struct view_queue_row){
		.id = message_id(page, &from->message),
		.inbox = from->address,
		.tenant = from->tenant_slug,
		.tenant_key = from->tenant,
		.inbox_key = from->inbox,
		.to = first_line(page, from->rcpts),
		.more = count_lines(from->rcpts) - 1,
		.hidden = count_hidden(from->kinds),
		.subject = from->subject,
		.risk = words_risk(from->risk),
		.reasons = words_reasons(&page->mem, from->reasons),
		.at_us = from->created_us,
		.expires_us = from->hold_until_us,
		.size = from->size,
		.files = from->attachments,
		.version = from->version,
		.round = from->round,
		.test = from->test,
		.integrity = from->integrity,
		.returned = from->round > 1,
		.approvals = from->approvals,
		.need = from->need,
		.count = from->more_in_inbox,
		.links = from->links,
		.new_rcpt = from->new_rcpt,
		.looks = from->looks,
	};
}

static int
count_holding(const struct review_inboxes *inboxes)
{
	size_t i;
	int n = 0;

	for (i = 0; i < inboxes->n; i++)
		n += inboxes->row[i].mode == 1 || inboxes->row[i].mode == 2;
	return n;
}

static const char *
last_key(const struct review_rows *rows)
{
	if (rows->stopped != NULL)
		return rows->stopped;
	return rows->n >= PAGE_ROWS ? rows->row[rows->n - 1].sort_key : NULL;
}

static void
draw_queue(struct page *page)
{
	struct listing *l = page->mine;
	struct view_queue queue = { 0 };
	struct view_queue_row *rows;
	size_t i;

	if (l->rows.is.status >= 300) {
		page_refuse(page, &l->rows.is);
		return;
	}
	rows = arena_array(&page->mem, l->rows.n + 1, sizeof(*rows));
	for (i = 0; i < l->rows.n; i++)
		fill_queue_row(page, &rows[i], &l->rows.row[i]);
	queue.rows = rows;
	queue.row_count = l->rows.n;
	queue.query = l->query.search;
	queue.narrow = &l->narrow;
	queue.risk = l->risk;
	queue.by_left = l->query.by_left;
	queue.next = last_key(&l->rows);
	queue.first = l->query.after == NULL;
	queue.stopped = l->rows.stopped != NULL;
	queue.oldest_us = page->held.oldest_us;
	queue.holding = count_holding(&l->inboxes);
	if (l->query.inbox != 0) {
		queue.box = http_request_query(page->req, "box");
		queue.inbox = l->rows.n > 0 ? rows[0].inbox : "this inbox";
		page->inbox = l->rows.n > 0 ? rows[0].inbox : NULL;
	} else {
		queue.tenant = l->query.tenant;
	}
	view_queue(
	    &page->out, page_shell(page, "Queue", VIEW_NAV_QUEUE), &queue);
	page_send(page, 200);
}

static void
on_rows(struct page *page)
{
	decode(page, draw_queue);
}

static void
ask_inboxes(struct page *page)
{
	struct listing *l = page->mine;

	if (l->rows.is.status < 300 && l->rows.n == 0)
		review_inboxes(&page->who->op, 0, &page->mem, &l->inboxes,
		    page_arrived, page_wait(page));
	page_then(page, on_rows);
}

static char *
given(struct page *page, const char *name)
{
	const char *value = http_request_query(page->req, name);

	return value != NULL && value[0] != '\0' && strlen(value) <= 400
		   ? arena_strdup(&page->mem, value)
		   : NULL;
}

bool
words_box(const char *text, int64_t *tenant, int64_t *inbox)
{
	long long t, i;
	int end = 0;

	if (text == NULL ||
	    sscanf(text, "%18lld.%18lld%n", &t, &i, &end) != 2 ||
	    text[end] != '\0' || t <= 0 || i <= 0)
		return false;
	*tenant = t;
	*inbox = i;
	return true;
}

/* A sort key of ours: "risk:uuid", or "tTIME:uuid" by time left. */
static bool
is_key(const char *key, bool by_left)
{
	struct str rest = str_of(key), first = str_split(&rest, ':');
	unsigned long long v;
	struct uuid id;

	if (by_left) {
		if (first.n == 0 || first.p[0] != 't')
			return false;
		first = (struct str){ first.p + 1, first.n - 1 };
	}
	return str_to_u64(first, by_left ? LEFT_MAX : 100, &v) &&
	       uuid_from_text(&id, rest);
}

/* What both lists take: a search, and where to go on. False after a reply. */
static bool
read_query(struct page *page, struct review_query *q)
{
	struct uuid id;

	q->search = given(page, "q");
	q->after = given(page, "after");
	q->limit = PAGE_ROWS;
	if (q->after != NULL && !is_key(q->after, q->by_left)) {
		page_bad(page->req, "Where the page begins");
		return false;
	}
	if (q->search != NULL &&
	    uuid_from_id(&id, "msg_", str_trim(str_of(q->search)))) {
		char path[UUID_ID_MAX + 8], text[UUID_ID_MAX];

		uuid_to_id(text, "msg_", &id);
		snprintf(path, sizeof(path), "/m/%s", text);
		http_reply_redirect(page->req, path);
		return false;
	}
	return true;
}

bool
words_tenant(const char *text, int64_t *tenant)
{
	unsigned long long v;

	if (text == NULL || text[0] == '\0')
		return true;
	if (!str_to_u64(str_of(text), INT64_MAX, &v) || v == 0)
		return false;
	*tenant = (int64_t)v;
	return true;
}

/*
 * The fields of the form, each a term of the search, become part of it. False
 * after a reply.
 */
static bool
read_terms(struct page *page, struct listing *l)
{
	struct buf text = { 0 };
	const char *field = "", *term;
	size_t i;

	if (l->query.search != NULL)
		buf_printf(&text, "%s", l->query.search);
	for (i = 0; i < narrow_term_count; i++) {
		if (strcmp(narrow_terms[i].field, field) == 0)
			continue;
		field = narrow_terms[i].field;
		term = given(page, field);
		if (term == NULL)
			continue;
		if (narrow_field(str_of(term)) == NULL ||
		    strcmp(narrow_field(str_of(term)), field) != 0) {
			buf_free(&text);
			page_bad(page->req, "A filter");
			return false;
		}
		buf_printf(&text, " %s", term);
	}
	l->narrow =
	    narrow_split(&page->mem, arena_str(&page->mem, buf_str(&text)));
	l->query.search = narrow_join(&page->mem, &l->narrow);
	buf_free(&text);
	return true;
}

/* What narrows and orders the queue. False after a reply. */
static bool
read_filters(struct page *page, struct listing *l)
{
	struct review_query *q = &l->query;
	const char *box = given(page, "box"), *sort = given(page, "sort");

	if (sort != NULL && strcmp(sort, "left") != 0) {
		page_bad(page->req, "An order");
		return false;
	}
	q->by_left = sort != NULL;
	if (!read_query(page, q) || !read_terms(page, l))
		return false;
	q->tenant = page->only;
	if (box != NULL && !words_box(box, &q->tenant, &q->inbox)) {
		page_bad(page->req, "The number of an inbox");
		return false;
	}
	l->risk = given(page, "risk");
	if (!words_risk_band(l->risk, &q->risk_from, &q->risk_to)) {
		page_bad(page->req, "A risk");
		return false;
	}
	if (q->by_left && (q->search != NULL || l->risk != NULL)) {
		page_bad(page->req, "An order of some of it");
		return false;
	}
	return true;
}

void
handle_queue(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct listing));
	struct listing *l = page->mine;
	struct review_query *q = &l->query;

	if (!read_filters(page, l))
		return;
	q->collapse = q->inbox == 0 && q->search == NULL && l->risk == NULL;
	page_ask_shell(page);
	review_list(&page->who->op, q, &page->mem, &l->rows, page_arrived,
	    page_wait(page));
	page_then(page, ask_inboxes);
}

static void
send_counts(struct page *page)
{
	if (page->held.is.status >= 300) /* 401: the session has just ended */
		http_reply_empty(page->req, page->held.is.status);
	else
		http_reply_json(page->req, 200,
		    json_pack("{s:i,s:I}", "held",
			page->held.capped ? 1001 : page->held.n, "only",
			(json_int_t)page->only));
}

void
handle_counts(struct http_request *req)
{
	struct page *page = page_new(req, 0);
	const struct review_query held = { .tenant = page->only };

	review_count(
	    &page->who->op, &held, &page->held, page_arrived, page_wait(page));
	page_then(page, send_counts);
}

/* History: every state but held, what was submitted last first. */
static const struct {
	const char *show, *states;
} shows[] = {
	{ "all", "2,3,4,5,6,7,8,9,10,11" },
	{ "underway", "2,6,7,9" },
	{ "uncertain", "11" },
	{ "bounced", "10" },
	{ "decided", "3,4,5" },
};

/*
 * Changed since when: what is past begins with a day, but what still waits for
 * something is there however old it is, and so is what a search finds.
 */
#define SINCE_PAST "1d"
#define SINCE_ALL "all"
static const char *const sinces[] = { SINCE_PAST, "7d", "30d", SINCE_ALL };

static const char *
default_since(const struct listing *l)
{
	return l->query.search != NULL || strcmp(l->show, "underway") == 0 ||
		       strcmp(l->show, "uncertain") == 0
		   ? SINCE_ALL
		   : SINCE_PAST;
}

/* Becomes a term of the search; false after a reply. */
static bool
read_since(struct page *page, struct listing *l)
{
	const char *since = given(page, "since");
	const size_t n = sizeof(sinces) / sizeof(sinces[0]);
	struct buf text = { 0 };
	size_t at = 0;

	l->since_given = since != NULL;
	if (since == NULL)
		since = default_since(l);
	while (at < n && strcmp(since, sinces[at]) != 0)
		at++;
	if (at == n) {
		page_bad(page->req, "Since when");
		return false;
	}
	l->since = sinces[at];
	l->typed = l->query.search;
	if (strcmp(l->since, SINCE_ALL) == 0)
		return true;
	buf_printf(
	    &text, "%s changed:%s", l->typed != NULL ? l->typed : "", l->since);
	l->query.search = arena_str(&page->mem, buf_str(&text));
	buf_free(&text);
	return true;
}

static void
draw_history(struct page *page)
{
	struct listing *l = page->mine;
	struct view_history history = { 0 };
	struct view_history_row *rows;
	size_t i;

	if (l->rows.is.status >= 300) {
		page_refuse(page, &l->rows.is);
		return;
	}
	rows = arena_array(&page->mem, l->rows.n + 1, sizeof(*rows));
	for (i = 0; i < l->rows.n; i++) {
		const struct review_row *r = &l->rows.row[i];

		rows[i] = (struct view_history_row){
			.id = message_id(page, &r->message),
			.inbox = r->address,
			.to = first_line(page, r->rcpts),
			.more = count_lines(r->rcpts) - 1,
			.hidden = count_hidden(r->kinds),
			.subject = r->subject,
			.state = words_state(r->state),
			.at_us = r->created_us,
			.changed_us = r->updated_us,
			.test = r->test,
			.doubt = r->doubt,
		};
	}
	history.rows = rows;
	history.row_count = l->rows.n;
	history.show = l->show;
	history.since = l->since;
	history.since_given = l->since_given;
	history.query = l->typed;
	history.next = last_key(&l->rows);
	history.first = l->query.after == NULL;
	history.stopped = l->rows.stopped != NULL;
	view_history(&page->out, page_shell(page, "History", VIEW_NAV_HISTORY),
	    &history);
	page_send(page, 200);
}

static void
on_history_rows(struct page *page)
{
	decode(page, draw_history);
}

void
handle_history(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct listing));
	struct listing *l = page->mine;
	const char *show = http_request_query(req, "show");
	size_t at = 0, n = sizeof(shows) / sizeof(shows[0]);

	while (show != NULL && at < n && strcmp(show, shows[at].show) != 0)
		at++;
	if (at == n) {
		page_bad(req, "What to show");
		return;
	}
	l->show = arena_strdup(&page->mem, shows[at].show);
	l->query.states = shows[at].states;
	l->query.tenant = page->only;
	if (!read_query(page, &l->query) || !read_since(page, l))
		return;
	page_ask_shell(page);
	review_list(&page->who->op, &l->query, &page->mem, &l->rows,
	    page_arrived, page_wait(page));
	page_then(page, on_history_rows);
}
