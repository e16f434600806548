/* SPDX-License-Identifier: ISC */
/*
 * page.c - asking, waiting, drawing
 */
#include "admin/page.h"

#include <stdlib.h>
#include <string.h>

#include "admin/words.h"
#include "base/xalloc.h"
#include "http/reply.h"
#include "http/request.h"
#include "policy/vocabulary.h"

/* What a redirect may say; the address bar carries only the name. */
static const struct {
	const char *name, *text;
	bool refusal;
} notices[] = {
	{ "rejected", "Rejected. The agent has been told.", false },
	{ "approved", "Approved.", false },
	{ "counted", "Your approval counts. Another person has to approve too.",
	    false },
	{ "undone", "Undone. The message is held again; nothing was sent.",
	    false },
	{ "late", "Too late to undo: the relay has it already.", true },
	{ "waits", "It is held already. Nothing of it leaves.", false },
	{ "moved",
	    "Nothing was undone: something else happened to it since. "
	    "What it is now stands below.",
	    true },
	{ "paused", "Paused. Nothing leaves.", false },
	{ "resumed", "Running again.", false },
	{ "canceled", "Canceled. It does not leave any more.", false },
	{ "doubtful",
	    "Canceled. Nothing more leaves, but it may have been "
	    "sent before: say what is so once you know.",
	    true },
	{ "settled", "Settled, and written down with your name.", false },
	{ "changed", "Done, and written down with your name.", false },
	{ "taken", "You have it now. The other person has been told.", false },
	{ "commented", "Said to the other operators.", false },
	{ "job_begun", "It runs. It goes on while you stay signed in.", false },
	{ "job_paused", "Paused. What is decided stays decided.", false },
	{ "job_canceled", "Canceled. What is decided stays decided.", false },
	{ "job_undone", "Taken back what had not left yet.", false },
};

static void
free_page(void *arg)
{
	struct page *page = arg;

	if (page->clear != NULL)
		page->clear(page->mine);
	buf_wipe(&page->out);
	buf_free(&page->out);
	arena_free(&page->mem);
	free(page);
}

struct page *
page_new(struct http_request *req, size_t size)
{
	struct page *page = xcalloc(1, sizeof(*page));

	page->req = req;
	page->admin = http_request_app(req);
	page->who = http_request_who(req);
	page->only = session_only(req);
	page->mine = arena_get(&page->mem, size);
	http_request_keep(req, page, free_page);
	return page;
}

struct page *
page_new_action(struct http_request *req, size_t size)
{
	if (!session_token_ok(req)) {
		page_problem(req, 403, "Refused",
		    "The form is not from this session, so nothing was done. "
		    "Open the page again.");
		return NULL;
	}
	return page_new(req, size);
}

struct page *
page_wait(struct page *page)
{
	page->waiting++;
	return page;
}

/*
 * All that was asked for is here. What was asked of a tenant that is gone, or
 * out of reach by now, is asked once more without it.
 */
static void
go_on(struct page *page)
{
	struct http_request *req = page->req;

	if (!page_only_is_gone(page) ||
	    strcmp(http_request_method(req), "POST") == 0) {
		page->then(page);
		return;
	}
	session_drop_only(req);
	http_request_keep(req, NULL, NULL);
	free_page(page);
	http_request_route(req)->handler(req);
}

void
page_arrived(void *arg)
{
	struct page *page = arg;

	BUG_ON(page->waiting <= 0);
	if (--page->waiting == 0)
		go_on(page);
}

void
page_then(struct page *page, page_fn *then)
{
	page->then = then;
	if (page->waiting == 0)
		go_on(page);
}

void
page_ask_shell(struct page *page)
{
	const struct review_query held = { .tenant = page->only };

	review_count(
	    &page->who->op, &held, &page->held, page_arrived, page_wait(page));
	review_tenants(&page->who->op, &page->mem, &page->tenants, page_arrived,
	    page_wait(page));
	review_pauses(&page->who->op, &page->mem, &page->pauses, page_arrived,
	    page_wait(page));
}

static bool
concerns(const struct page *page, const struct review_pause *p)
{
	if (page->tenant != NULL && p->tenant_slug[0] != '\0' &&
	    strcmp(p->tenant_slug, page->tenant) != 0)
		return false;
	return page->inbox == NULL || p->address[0] == '\0' ||
	       strcmp(p->address, page->inbox) == 0;
}

/* One line for everything, one a tenant, one for all inboxes together. */
static void
fill_pauses(struct page *page)
{
	struct view_pause *pauses =
	    arena_array(&page->mem, page->pauses.n + 1, sizeof(*pauses));
	struct view_pause *inboxes = NULL;
	size_t i, n = 0;

	for (i = 0; i < page->pauses.n; i++) {
		const struct review_pause *p = &page->pauses.row[i];

		if (!concerns(page, p))
			continue;
		if (p->address[0] == '\0') {
			pauses[n++] =
			    (struct view_pause){ p->level, p->tenant_slug, 0,
				    p->at_us, p->who, p->reason };
		} else if (inboxes != NULL) {
			inboxes->more++;
		} else {
			inboxes = &pauses[n++];
			*inboxes = (struct view_pause){ p->level, p->address, 0,
				p->at_us, p->who, p->reason };
		}
	}
	page->shell.pauses = pauses;
	page->shell.pause_count = n;
}

static void
fill_undo(struct page *page)
{
	const struct operator_session *s = &page->who->session;
	const struct admin_recent *recent =
	    admin_recent_find(page->admin, s->operator_id, s->now_us);
	char id[UUID_ID_MAX];

	if (recent == NULL)
		return;
	uuid_to_id(id, "msg_", &recent->message);
	page->undo.id = arena_strdup(&page->mem, id);
	page->undo.label = arena_strdup(&page->mem, recent->label);
	page->undo.version = recent->version;
	page->undo.round = recent->round;
	page->undo.left_s =
	    (int)((recent->until_us - s->now_us + 999999) / 1000000);
	page->undo.window_s = page->admin->undo_s;
	page->shell.undo = &page->undo;
}

static void
fill_notice(struct page *page)
{
	const char *said = http_request_query(page->req, "said");
	size_t i;

	for (i = 0; said != NULL && i < sizeof(notices) / sizeof(notices[0]);
	     i++) {
		if (strcmp(said, notices[i].name) != 0)
			continue;
		if (notices[i].refusal)
			page->shell.refusal = notices[i].text;
		else if (page->shell.undo == NULL ||
			 strcmp(said, "approved") != 0)
			page->shell.notice = notices[i].text;
	}
}

/* Where news begins for this page: when its session was looked at. */
static void
fill_mark(struct page *page)
{
	struct uuid mark = uuid_of_ms(page->who->session.now_us / 1000);
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &mark);
	page->shell.mark = arena_strdup(&page->mem, id);
}

const struct view_shell *
page_shell(struct page *page, const char *title, enum view_nav nav)
{
	struct view_shell *shell = &page->shell;

	shell->title = title;
	shell->nav = nav;
	shell->operator_name = page->who->session.name;
	shell->csrf = page->who->csrf;
	shell->now_us = page->who->session.now_us;
	fill_mark(page);
	shell->step_up =
	    page->who->session.step_up_us <= page->who->session.now_us;
	shell->totp = page->who->session.totp;
	shell->passkeys = page->who->session.passkeys > 0;
	shell->admin = session_has_role(page->who, "admin");
	shell->audits = shell->admin || session_has_role(page->who, "senior") ||
			session_has_role(page->who, "auditor");
	shell->decides = session_has_role(page->who, "reviewer") ||
			 session_has_role(page->who, "senior");
	shell->config = shell->admin || session_has_role(page->who, "auditor");
	shell->people = session_has_role(page->who, "*:*:admin") ||
			session_has_role(page->who, "*:*:auditor");
	shell->stops = shell->decides || shell->admin;
	shell->held = page->held.capped ? 1001 : page->held.n;
	page_only_fill(page, nav);
	fill_pauses(page);
	fill_undo(page);
	fill_notice(page);
	return shell;
}

void
page_send(struct page *page, int status)
{
	struct buf out = page->out;

	/* The reply may end the request, and the page with it. */
	page->out = (struct buf){ 0 };
	http_reply_html(page->req, status, &out);
	buf_free(&out);
}

/* What took a person's time to write, of a form that was refused. */
static const char *
typed_text(struct http_request *req)
{
	static const char *const names[] = { "note", "text", "reason" };
	const char *text = NULL;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]) && text == NULL; i++)
		text = http_request_field(req, names[i], 0);
	return text;
}

void
page_problem_send(
    struct http_request *req, int status, struct view_problem *problem)
{
	struct admin_who *who = http_request_who(req);
	struct view_shell shell = { .title = problem->heading };
	struct buf out = { 0 };

	if (problem->again_at == NULL)
		problem->typed = typed_text(req);
	problem->code = status;
	problem->request_id = http_request_id(req);
	if (who != NULL) {
		shell.operator_name = who->session.name;
		shell.csrf = who->csrf;
		shell.now_us = who->session.now_us;
	}
	if (problem->link == NULL) {
		problem->link = status == 401 ? "/login" : "/q";
		problem->link_label =
		    status == 401 ? "Sign in" : "Back to the queue";
	}
	view_problem(&out, &shell, problem);
	http_reply_html(req, status, &out);
	buf_free(&out);
}

void
page_problem(
    struct http_request *req, int status, const char *heading, const char *text)
{
	struct view_problem problem = { .heading = heading, .text = text };

	page_problem_send(req, status, &problem);
}

void
page_bad(struct http_request *req, const char *what)
{
	struct view_problem problem = { .heading = "Not understood",
		.name = "validation_error" };
	struct buf text = { 0 };

	buf_printf(&text, "%s is not valid, so nothing was done.", what);
	problem.text = buf_cstr(&text);
	page_problem_send(req, 400, &problem);
	buf_free(&text);
}

/* It was let in; meanwhile the session has ended, or goes on under another
 * secret than that of its cookie. */
static void
say_ended(struct page *page)
{
	if (press_of_other(page->admin, page->who))
		page_problem(page->req, 409, "Nothing was done",
		    "In the same moment you confirmed who you are on another "
		    "page. Do this again.");
	else
		page_problem(page->req, 401, "Signed out",
		    "The session has ended, so nothing was done.");
}

void
page_refuse(struct page *page, const struct review_answer *is)
{
	switch (is->status) {
	case 401:
		say_ended(page);
		return;
	case 403:
		page_problem(page->req, 403, "Not allowed",
		    strcmp(is->text, "step_up_required") == 0
			? "This needs you to confirm who you are again."
		    : strcmp(is->text, "passkey_required") == 0
			? "Its risk is high and you have a passkey: approve "
			  "it with that."
		    : strcmp(is->text, "reason_required") == 0
			? "The message is decided: open it with a reason."
		    : strcmp(is->text, "message_rejected") == 0
			? PAGE_ALL_LISTED
			: "Your role does not allow this, so nothing was "
			  "done.");
		return;
	case 404:
		page_problem(page->req, 404, "Not found",
		    "There is nothing at this address that you may see.");
		return;
	case 409:
		page_problem(page->req, 409, "Changed meanwhile",
		    "Somebody or something else was faster, so nothing was "
		    "done.");
		return;
	case 422:
		page_problem(page->req, 422, "Not understood",
		    "A field is missing or too long, so nothing was done.");
		return;
	default:
		page_problem(page->req, 503, "The database does not answer",
		    "Try again in a moment. What was sent twice is done once.");
	}
}

void
page_done(struct page *page, const char *path, const char *said)
{
	struct buf to = { 0 };

	buf_printf(&to, "%s%csaid=%s", path,
	    strchr(path, '?') != NULL ? '&' : '?', said);
	press_end(page->admin, page->who, buf_cstr(&to));
	http_reply_redirect(page->req, buf_cstr(&to));
	buf_free(&to);
}

bool
page_message_id(struct page *page, struct uuid *message)
{
	const char *id = http_request_param(page->req, "id");

	if (id != NULL && uuid_from_id(message, "msg_", str_of(id)))
		return true;
	page_bad(page->req, "The id of a message");
	return false;
}

/* "agent:1.7" and the like as a person would say it. */
const char *
page_actor(const struct review_event *e)
{
	/* what is no operator's name is a kind and a number */
	if (e->who[0] != '\0' && strchr(e->who, ':') == NULL)
		return e->who;
	if (strncmp(e->actor, "agent", 5) == 0)
		return "the agent";
	if (strncmp(e->actor, "worker", 6) == 0)
		return "the relay";
	return e->actor;
}

static bool
is_decision(const struct review_event *e)
{
	return strcmp(e->type, policy_event_name(EVENT_APPROVED)) == 0 ||
	       strcmp(e->type, policy_event_name(EVENT_REJECTED)) == 0 ||
	       strcmp(e->type, policy_event_name(EVENT_EXPIRED)) == 0 ||
	       strcmp(e->type, policy_event_name(EVENT_CANCELED)) == 0 ||
	       strcmp(e->type, policy_event_name(EVENT_UNDONE)) == 0;
}

void
page_winner(struct buf *out, const struct review_events *events, int64_t now_us)
{
	const struct review_event *e;
	int64_t ago;
	size_t i;

	if (events->n == 0)
		return;
	/* a person who decided, rather than what the relay did then */
	for (i = events->n; i > 0 && !is_decision(&events->row[i - 1]); i--)
		;
	e = &events->row[(i > 0 ? i : events->n) - 1];
	ago = (now_us - e->at_us) / 1000000;
	buf_printf(out, "%s by %s", words_event(e->type), page_actor(e));
	if (ago < 1)
		buf_puts(out, " just now. ");
	else if (ago < 120)
		buf_printf(out, " %lld s ago. ", (long long)ago);
	else
		buf_printf(out, " %lld min ago. ", (long long)(ago / 60));
}

bool
page_is_over(const struct review_message *m)
{
	return m->state == STATE_HELD && m->hold_until_us != 0 &&
	       m->hold_until_us <= m->now_us;
}
