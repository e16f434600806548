/* SPDX-License-Identifier: ISC */
/*
 * page_jobs.c - decisions over many messages
 *
 * The queue's form makes a job; the page of the job names what it is about and
 * carries the hash over all of it, which the confirming form sends back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/foreign.h"
#include "admin/handlers.h"
#include "admin/job.h"
#include "admin/page.h"
#include "admin/view_jobs.h"
#include "admin/words.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"

#define IDS_MAX 200

struct job_page {
	struct uuid id;
	struct jobs jobs;
	struct job_items items;
	struct foreign foreign;
	int after;
	bool problems;
};

/* {job} of the route; false after a 400 page. */
static bool
job_id(struct page *page, struct uuid *id)
{
	const char *text = http_request_param(page->req, "job");

	if (text != NULL && uuid_from_id(id, "job_", str_of(text)))
		return true;
	page_bad(page->req, "The id of a job");
	return false;
}

static void
go_to_job(struct page *page, const struct uuid *job, const char *said)
{
	char id[UUID_ID_MAX], path[UUID_ID_MAX + 8];

	uuid_to_id(id, "job_", job);
	snprintf(path, sizeof(path), "/jobs/%s", id);
	if (said == NULL)
		http_reply_redirect(page->req, path);
	else
		page_done(page, path, said);
}

/* ---- all of one's own */

static void
draw_jobs(struct page *page)
{
	struct job_page *j = page->mine;
	bool *runs;
	size_t i;

	if (j->jobs.is.status >= 300) {
		page_refuse(page, &j->jobs.is);
		return;
	}
	runs = arena_array(&page->mem, j->jobs.n + 1, sizeof(*runs));
	for (i = 0; i < j->jobs.n; i++)
		runs[i] = job_is_running(page->admin->jobs, &j->jobs.row[i].id);
	view_jobs(&page->out, page_shell(page, "Jobs", VIEW_NAV_QUEUE),
	    &j->jobs, runs);
	page_send(page, 200);
}

void
handle_jobs(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct job_page));
	struct job_page *j = page->mine;

	page_ask_shell(page);
	job_list(&page->who->op, NULL, &page->mem, &j->jobs, page_arrived,
	    page_wait(page));
	page_then(page, draw_jobs);
}

/* ---- one */

static void
draw_job(void *arg)
{
	struct page *page = arg;
	struct job_page *j = page->mine;
	struct view_job view = { .job = j->jobs.row,
		.items = &j->items,
		.first = j->after == INT32_MIN,
		.problems = j->problems };
	char next[16];
	size_t i;

	for (i = 0; i < j->items.n; i++)
		j->items.row[i].subject =
		    foreign_subject(&j->foreign, j->items.row[i].subject);
	view.runs = job_is_running(page->admin->jobs, &j->id);
	if (j->items.n == JOB_ITEMS) {
		snprintf(
		    next, sizeof(next), "%d", j->items.row[JOB_ITEMS - 1].ix);
		view.next = next;
	}
	view_job(&page->out, page_shell(page, "Job", VIEW_NAV_QUEUE), &view);
	page_send(page, 200);
}

static void
on_job(struct page *page)
{
	struct job_page *j = page->mine;
	size_t i;

	if (j->jobs.is.status >= 300) {
		page_refuse(page, &j->jobs.is);
		return;
	}
	if (j->items.is.status >= 300) {
		page_refuse(page, &j->items.is);
		return;
	}
	j->foreign.mem = &page->mem;
	j->foreign.deadline_ms = FOREIGN_LIST_MS;
	j->foreign.cache = page->admin->words;
	for (i = 0; i < j->items.n; i++)
		(void)foreign_subject(&j->foreign, j->items.row[i].subject);
	if (!foreign_ask(&j->foreign, page->admin->helpers, draw_job, page))
		draw_job(page);
}

void
handle_job(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct job_page));
	struct job_page *j = page->mine;
	const char *show = http_request_query(req, "show");
	const char *after = http_request_query(req, "after");
	int end = 0;

	if (!job_id(page, &j->id))
		return;
	j->after = INT32_MIN;
	if (after != NULL && (sscanf(after, "%9d%n", &j->after, &end) != 1 ||
				 after[end] != '\0')) {
		page_bad(req, "Where the page begins");
		return;
	}
	j->problems = show == NULL || strcmp(show, "all") != 0;
	page_ask_shell(page);
	job_list(&page->who->op, &j->id, &page->mem, &j->jobs, page_arrived,
	    page_wait(page));
	job_items(&page->who->op, &j->id, j->problems, j->after, &page->mem,
	    &j->items, page_arrived, page_wait(page));
	page_then(page, on_job);
}

static void
send_progress(struct page *page)
{
	struct job_page *j = page->mine;
	const struct job *job = j->jobs.row;

	if (j->jobs.is.status >= 300) {
		http_reply_empty(page->req, j->jobs.is.status);
		return;
	}
	http_reply_json(page->req, 200,
	    json_pack("{s:i,s:i,s:i,s:s}", "items", job->items, "done",
		job->done, "failed", job->failed, "state",
		view_job_state(
		    job, job_is_running(page->admin->jobs, &j->id))));
}

void
handle_job_progress(struct http_request *req)
{
	struct page *page = page_new(req, sizeof(struct job_page));
	struct job_page *j = page->mine;

	if (!job_id(page, &j->id))
		return;
	job_list(&page->who->op, &j->id, &page->mem, &j->jobs, page_arrived,
	    page_wait(page));
	page_then(page, send_progress);
}

/* ---- making one */

struct making {
	struct job_request request;
	struct job_made made;
	struct uuid ids[IDS_MAX];
};

static void
on_made(struct page *page)
{
	struct making *m = page->mine;

	if (m->made.is.status == 429)
		page_problem(page->req, 429, "Too many jobs",
		    "You made 60 in the last hour. Wait a little.");
	else if (m->made.is.status >= 300)
		page_refuse(page, &m->made.is);
	else
		go_to_job(page, &m->request.job, NULL);
}

/* The ticked messages. False after a reply. */
static bool
read_ids(struct page *page)
{
	struct making *m = page->mine;
	const char *text;
	size_t n = 0;

	while (n < IDS_MAX &&
	       (text = http_request_field(page->req, "id", n)) != NULL) {
		if (!uuid_from_id(&m->ids[n], "msg_", str_of(text))) {
			page_bad(page->req, "The id of a message");
			return false;
		}
		n++;
	}
	m->request.ids = m->ids;
	m->request.ids_n = n;
	if (n > 0)
		return true;
	page_problem(page->req, 422, "Nothing is selected",
	    "Tick the messages it is about, or choose all that fit.");
	return false;
}

static const char *
words_about(struct page *page, const struct job_request *r)
{
	struct buf text = { 0 };
	const char *kept;

	if (r->ids_n > 0)
		buf_printf(&text, "%zu selected", r->ids_n);
	else if (r->search != NULL)
		buf_printf(&text, "all found for %.200s", r->search);
	else
		buf_puts(&text, r->inbox != 0    ? "all of one inbox"
				: r->tenant != 0 ? "all of one tenant"
						 : "all that wait");
	if (r->ids_n == 0 && r->risk_to > 0)
		buf_printf(&text, ", %s risk only",
		    http_request_field(page->req, "risk", 0));
	kept = arena_strdup(&page->mem, buf_cstr(&text));
	buf_free(&text);
	return kept;
}

void
handle_job_make_post(struct http_request *req)
{
	const char *verdict = http_request_field(req, "verdict", 0);
	const char *all = http_request_field(req, "all", 0);
	const char *box = http_request_field(req, "box", 0);
	struct page *page = page_new_action(req, sizeof(struct making));
	struct making *m;

	if (page == NULL)
		return;
	m = page->mine;
	if (all != NULL)
		verdict = all;
	if (verdict == NULL ||
	    (strcmp(verdict, "a") != 0 && strcmp(verdict, "r") != 0)) {
		page_bad(req, "What to do");
		return;
	}
	m->request.job = uuid_v7_new();
	m->request.verdict = verdict[0];
	m->request.search = http_request_field(req, "q", 0);
	if (m->request.search != NULL && m->request.search[0] == '\0')
		m->request.search = NULL;
	if (box != NULL && box[0] != '\0'
		? !words_box(box, &m->request.tenant, &m->request.inbox)
		: !words_tenant(http_request_field(req, "tenant", 0),
		      &m->request.tenant)) {
		page_bad(req, "The number of an inbox or a tenant");
		return;
	}
	if (!words_risk_band(http_request_field(req, "risk", 0),
		&m->request.risk_from, &m->request.risk_to)) {
		page_bad(req, "A risk");
		return;
	}
	if (all == NULL && !read_ids(page))
		return;
	m->request.about = words_about(page, &m->request);
	job_make(&page->who->op, &m->request, &m->made, page_arrived,
	    page_wait(page));
	page_then(page, on_made);
}

/* ---- moving one */

struct moving {
	struct uuid id;
	struct job_confirmed confirmed;
	struct review_answer stopped;
	enum job_state to;
};

static void
on_confirmed(struct page *page)
{
	struct moving *m = page->mine;

	if (m->confirmed.is.status == 412)
		page_problem(page->req, 412, "Nothing was done",
		    "The job is about other messages than your page showed. "
		    "Open it again.");
	else if (m->confirmed.is.status >= 300)
		page_refuse(page, &m->confirmed.is);
	else if (!job_run(page->admin->jobs, &m->id, m->confirmed.verdict,
		     &page->who->op))
		page_problem(page->req, 503, "Many jobs run",
		    "Yours stands. Confirm it again in a minute.");
	else
		go_to_job(page, &m->id, "job_begun");
}

void
handle_job_confirm_post(struct http_request *req)
{
	const char *items = http_request_field(req, "items", 0);
	const char *hint = http_request_field(req, "hint", 0);
	struct page *page = page_new_action(req, sizeof(struct moving));
	unsigned char hash[32];
	struct moving *m;

	if (page == NULL)
		return;
	m = page->mine;
	if (!job_id(page, &m->id))
		return;
	if (items == NULL ||
	    !hex_decode(hash, sizeof(hash), items, strlen(items))) {
		page_bad(req, "What it is about");
		return;
	}
	job_confirm(&page->who->op, &m->id, hash,
	    http_request_field(req, "category", 0),
	    http_request_field(req, "note", 0),
	    hint != NULL && hint[0] != '\0' ? hint : NULL, &m->confirmed,
	    page_arrived, page_wait(page));
	page_then(page, on_confirmed);
}

static void
on_stopped(struct page *page)
{
	struct moving *m = page->mine;

	if (m->stopped.status >= 300)
		page_refuse(page, &m->stopped);
	else
		go_to_job(page, &m->id,
		    m->to == JOB_PAUSED ? "job_paused" : "job_canceled");
}

struct undoing {
	struct uuid id;
	struct job_undone undone;
};

static void
on_undone(struct page *page)
{
	struct undoing *u = page->mine;

	if (u->undone.is.status >= 300) {
		page_refuse(page, &u->undone.is);
		return;
	}
	if (u->undone.remaining > 0)
		(void)job_run(page->admin->jobs, &u->id, JOB_UNDO,
		    &page->who->op); /* else the button is still there */
	go_to_job(page, &u->id, "job_undone");
}

/* The first of them here and now, whatever else runs: each second counts. */
void
handle_job_undo_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct undoing));
	struct undoing *u;

	if (page == NULL)
		return;
	u = page->mine;
	if (!job_id(page, &u->id))
		return;
	job_undo(&page->who->op, &u->id, JOB_UNDO_ROWS, &u->undone,
	    page_arrived, page_wait(page));
	page_then(page, on_undone);
}

void
handle_job_stop_post(struct http_request *req)
{
	const char *to = http_request_field(req, "to", 0);
	struct page *page = page_new_action(req, sizeof(struct moving));
	struct moving *m;

	if (page == NULL)
		return;
	m = page->mine;
	if (!job_id(page, &m->id))
		return;
	if (to == NULL ||
	    (strcmp(to, "pause") != 0 && strcmp(to, "cancel") != 0)) {
		page_bad(req, "What to do");
		return;
	}
	m->to = strcmp(to, "pause") == 0 ? JOB_PAUSED : JOB_CANCELED;
	job_stop(&page->who->op, &m->id, m->to, &m->stopped, page_arrived,
	    page_wait(page));
	page_then(page, on_stopped);
}
