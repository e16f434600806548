/* SPDX-License-Identifier: ISC */
/*
 * page_message_view.c - what was gathered, as a person should see it
 *
 * Who gets the message is the envelope; headers only explain it. So every
 * recipient of the envelope is looked up in To and Cc, and what is in them
 * but not in the envelope is said too.
 */
#include "admin/page_message.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "admin/foreign.h"
#include "admin/words.h"
#include "http/request.h"
#include "mail/address.h"
#include "mail/digest.h"
#include "policy/vocabulary.h"

#define AROUND 30 /* rows of the queue beside a message */
#define BEFORE 4 /* of those, at most so many before it */

static void
found(struct page *page, enum finding f, const char *what)
{
	struct message_page *mp = page->mine;

	findings_add(&mp->read.findings, f, str_of(what));
}

static struct read_mailbox *
find_named(struct message_read *read, const char *canonical)
{
	size_t i;

	for (i = 0; i < read->named_count; i++)
		if (strcmp(read->named[i].canonical, canonical) == 0)
			return &read->named[i];
	return NULL;
}

static enum view_rcpt_kind
kind_of(char stored, const struct read_mailbox *named, bool is_open)
{
	if (stored == 'o')
		return VIEW_RCPT_OVERSIGHT;
	if (is_open)
		stored = named != NULL ? named->kind : 'b';
	if (stored == 't')
		return VIEW_RCPT_TO;
	return stored == 'c' ? VIEW_RCPT_CC : VIEW_RCPT_BCC;
}

static bool
same_domain(const char *a, const char *b)
{
	const char *x = strrchr(a, '@'), *y = strrchr(b, '@');

	return x != NULL && y != NULL && strcasecmp(x, y) == 0;
}

/* Nothing final is known of it: what leaves now, or once approved, goes there.
 */
static bool
is_to_come(int state, int delivery)
{
	switch (state) {
	case STATE_HELD: /* an approval opens again what was taken back */
		return delivery < 0 || delivery == DELIVERY_PENDING ||
		       delivery == DELIVERY_DEFERRED ||
		       delivery == DELIVERY_CANCELED;
	case STATE_APPROVED:
	case STATE_SENDING:
	case STATE_DEFERRED:
		return delivery == DELIVERY_PENDING ||
		       delivery == DELIVERY_DEFERRED;
	}
	return false;
}

static void
fill_rcpt(
    struct page *page, struct view_rcpt *to, const char *address, char stored)
{
	struct message_page *mp = page->mine;
	struct address parsed;
	struct read_mailbox *named = NULL;
	size_t i;

	if (address_parse(&parsed, str_of(address)) == ADDRESS_OK)
		named = find_named(&mp->read, parsed.canonical);
	if (named != NULL)
		named->is_rcpt = true;
	to->address = address;
	to->delivery = -1;
	to->name = named != NULL ? named->name : NULL;
	to->kind = kind_of(stored, named, mp->is_open);
	to->external = !same_domain(address, mp->m.address);
	for (i = 0; i < mp->rcpts.n; i++) {
		const struct review_recipient *r = &mp->rcpts.row[i];
		struct buf reply = { 0 };

		if (strcmp(r->address, address) != 0)
			continue;
		to->delivery = r->delivery;
		to->ix = r->ix;
		to->attempts = r->attempts;
		to->next_us = r->delivery == DELIVERY_DEFERRED ? r->next_us : 0;
		if (r->listed != '\0' && is_to_come(mp->m.state, r->delivery))
			to->listed =
			    r->listed == 'b' ? "blocked" : "suppressed";
		if (r->reply_code != 0)
			buf_printf(
			    &reply, "%d %s ", r->reply_code, r->enhanced);
		buf_puts(&reply, r->reply);
		to->reply = arena_str(&page->mem, buf_str(&reply));
		buf_free(&reply);
	}
}

/*
 * Of many only the first are in sight: no hidden one hides behind them, none
 * that reads as another, none of which one should know what became of it.
 */
static int
rank(const struct view_rcpt *r, size_t n)
{
	if (n > VIEW_RCPTS_SEEN && r->kind == VIEW_RCPT_BCC)
		return -3;
	if (n > VIEW_RCPTS_SEEN && r->unicode != NULL)
		return -2;
	if (n > VIEW_RCPTS_SEEN &&
	    (r->delivery >= DELIVERY_DEFERRED || r->listed != NULL))
		return -1;
	return (int)r->kind;
}

/* To, then Cc, then hidden ones; as they stood within each. */
static void
sort_rcpts(struct view_rcpt *rcpts, size_t n)
{
	size_t i, j;

	for (i = 1; i < n; i++) {
		struct view_rcpt one = rcpts[i];

		for (j = i; j > 0 && rank(&rcpts[j - 1], n) > rank(&one, n);
		     j--)
			rcpts[j] = rcpts[j - 1];
		rcpts[j] = one;
	}
}

static void
fill_rcpts(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	struct str rest = str_of(mp->m.rcpts);
	size_t n = 1, i;
	struct view_rcpt *rcpts;
	const char **ghosts;

	for (i = 0; i < rest.n; i++)
		n += rest.p[i] == '\n';
	rcpts = arena_array(&page->mem, n, sizeof(*rcpts));
	for (i = 0; rest.n > 0; i++) {
		fill_rcpt(page, &rcpts[i],
		    arena_str(&page->mem, str_split(&rest, '\n')),
		    i < strlen(mp->m.kinds) ? mp->m.kinds[i] : 'b');
		if (rcpts[i].kind == VIEW_RCPT_BCC)
			found(page, FINDING_RCPT_HIDDEN, rcpts[i].address);
		if (rcpts[i].listed != NULL)
			view->listed_count++;
		else
			view->to_send +=
			    is_to_come(mp->m.state, rcpts[i].delivery);
	}
	sort_rcpts(rcpts, i);
	view->rcpts = rcpts;
	view->rcpt_count = i;
	ghosts =
	    arena_array(&page->mem, mp->read.named_count + 1, sizeof(*ghosts));
	for (i = 0; i < mp->read.named_count; i++) {
		if (mp->read.named[i].is_rcpt)
			continue;
		ghosts[view->ghost_count++] = mp->read.named[i].wire;
		found(page, FINDING_RCPT_GHOST, mp->read.named[i].wire);
	}
	view->ghosts = ghosts;
}

static const char *
context_text(struct page *page, json_t *context, const char *name)
{
	const char *s = json_string_value(json_object_get(context, name));

	return arena_strdup(&page->mem, s);
}

static void
fill_context(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	json_t *c = json_loads(mp->m.context, 0, NULL);

	view->purpose = context_text(page, c, "purpose");
	view->run_id = context_text(page, c, "run_id");
	view->task_id = context_text(page, c, "task_id");
	view->model = context_text(page, c, "model");
	view->note = context_text(page, c, "note_to_reviewer");
	json_decref(c);
}

static void
fill_content(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	struct message_read *read = &mp->read;
	const char *tab = http_request_query(page->req, "view");
	size_t i;

	if (tab != NULL && strcmp(tab, "headers") == 0)
		view->tab = VIEW_TAB_HEADERS;
	else if (tab != NULL && strcmp(tab, "raw") == 0)
		view->tab = VIEW_TAB_RAW;
	else if (tab != NULL && strcmp(tab, "html") == 0)
		view->tab = VIEW_TAB_HTML;
	else if (tab != NULL && strcmp(tab, "diff") == 0)
		view->tab = VIEW_TAB_DIFF;
	else if (tab != NULL && strcmp(tab, "revised") == 0 &&
		 view->revises_known)
		view->tab = VIEW_TAB_REVISED;
	for (i = 0; i < read->part_count; i++) {
		view->has_html |= read->parts[i].code;
		view->has_text |= !read->parts[i].code;
		view->html_cut |= read->parts[i].code && read->parts[i].cut;
	}
	view->diff = &mp->diff;
	view->headers = read->headers;
	view->header_count = read->header_count;
	view->parts = read->parts;
	view->part_count = read->part_count;
	view->files = read->files;
	view->file_count = read->file_count;
	view->raw = read->bytes.p;
	view->raw_n =
	    read->bytes.n < READ_RAW_MAX ? read->bytes.n : READ_RAW_MAX;
	view->raw_cut = read->bytes.n > READ_RAW_MAX;
	view->from = read->from;
	if (read->reply_canonical != NULL && read->from_canonical != NULL &&
	    strcmp(read->reply_canonical, read->from_canonical) != 0)
		view->reply_to = read->reply_to;
}

static void
fill_decision(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	const struct review_decision *d = NULL;
	size_t i;

	for (i = 0; i < mp->decisions.n; i++)
		if (mp->decisions.row[i].version == mp->m.version &&
		    mp->decisions.row[i].round == mp->m.round)
			d = &mp->decisions.row[i];
	if (d == NULL)
		return;
	view->decided_by = d->operator_name;
	view->verdict = d->verdict;
	view->category = d->category[0] != '\0' ? d->category : NULL;
	view->decision_note = d->note;
	view->hint = d->hint;
	view->decided_us = d->at_us;
}

static void
fill_attempts(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	struct view_attempt *attempts =
	    arena_array(&page->mem, mp->attempts.n + 1, sizeof(*attempts));
	size_t i;

	for (i = 0; i < mp->attempts.n; i++) {
		const struct review_attempt *a = &mp->attempts.row[i];

		attempts[i] = (struct view_attempt){ .at_us = a->at_us,
			.dot_us = a->dot_us,
			.ended_us = a->ended_us,
			.domain = a->domain,
			.mx = a->mx,
			.tls = a->tls,
			.result = a->result };
	}
	view->attempts = attempts;
	view->attempt_count = mp->attempts.n;
}

/* What stands beside an event: words of ours where they are codes. */
static const char *
event_detail(struct page *page, const struct review_event *e)
{
	if (strcmp(e->type, policy_event_name(EVENT_HELD)) == 0)
		return words_held(&page->mem, e->detail);
	if (strcmp(e->type, policy_event_name(EVENT_REJECTED)) == 0)
		return view_category_label(e->detail);
	return e->detail;
}

static void
fill_events(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	struct view_event *events =
	    arena_array(&page->mem, mp->events.n + 1, sizeof(*events));
	size_t i;

	for (i = 0; i < mp->events.n; i++) {
		const struct review_event *e = &mp->events.row[i];

		events[i] = (struct view_event){ .at_us = e->at_us,
			.what = words_event(e->type),
			.who = page_actor(e),
			.detail = event_detail(page, e) };
	}
	view->events = events;
	view->event_count = mp->events.n;
}

static const char *
why_not(const struct review_message *m, bool all_listed)
{
	if (page_is_over(m))
		return PAGE_OVER;
	if (all_listed)
		return PAGE_ALL_LISTED;
	if (strcmp(m->may_why, "second_approval_needed") == 0)
		return "You approved this already. Another person has to "
		       "approve it too.";
	if (strcmp(m->may_why, "step_up_required") == 0)
		return NULL; /* the form asks for the password */
	if (strcmp(m->may_why, "missing_permission") == 0)
		return "Its risk is above what your role may approve.";
	return "Your role may look but not decide.";
}

/* Whole pages of them, and never beyond the last. */
static void
fill_settle_from(struct page *page, struct view_message *view)
{
	const char *text = http_request_query(page->req, "settle");
	unsigned long long from;
	size_t i, all = 0;

	for (i = 0; i < view->rcpt_count; i++)
		all += view->rcpts[i].delivery == DELIVERY_UNCERTAIN;
	view->doubt = all > 0;
	if (text != NULL && str_to_u64(str_of(text), 1000000, &from) &&
	    from < all)
		view->settle_from = from - from % VIEW_TICKS;
}

static void
fill_rights(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	const struct review_message *m = &mp->m;
	const struct operator_session *s = &page->who->session;
	bool held = m->state == STATE_HELD;
	bool can = session_has_role(page->who, "reviewer") ||
		   session_has_role(page->who, "senior");
	bool step_up = strcmp(m->may_why, "step_up_required") == 0;
	bool all_listed = view->listed_count > 0 && view->to_send == 0;

	view->may_reject = held && can;
	view->may_approve = held && can && (m->may_decide || step_up) &&
			    !page_is_over(m) && !all_listed;
	view->sign = view->risk == VIEW_RISK_HIGH && s->passkeys > 0;
	view->ask_password = step_up || (view->risk == VIEW_RISK_HIGH &&
					    s->step_up_us <= s->now_us);
	if (held && !view->may_approve)
		view->why_not = why_not(m, all_listed);
	view->may_undo = m->state == STATE_APPROVED && can && !m->leased;
	view->may_cancel =
	    (m->state == STATE_APPROVED || m->state == STATE_DEFERRED) && can &&
	    !m->leased;
	view->may_settle = m->state == STATE_UNCERTAIN && can;
	fill_settle_from(page, view);
	if (m->integrity[0] != '\0' || (held && !mp->digest_ok))
		view->reject_only = true;
}

/* The part of the queue that stands beside a held message. */
static void
fill_around(struct page *page, struct view_message *view, size_t at)
{
	struct message_page *mp = page->mine;
	struct foreign words = { .mem = &page->mem,
		.cache = page->admin->words }; /* what the list has shown */
	struct view_queue_row *to;
	size_t i, n, from = at < mp->around.n && at > BEFORE ? at - BEFORE : 0;

	if (mp->m.state != STATE_HELD)
		return;
	n = mp->around.n - from < AROUND ? mp->around.n - from : AROUND;
	to = arena_array(&page->mem, n + 1, sizeof(*to));
	view->around = to;
	view->around_count = n;
	if (at == mp->around.n) { /* further back, or of a folded inbox */
		*to++ = (struct view_queue_row){ .id = view->id,
			.subject = view->subject,
			.to = arena_str(
			    &page->mem, (struct str){ mp->m.rcpts,
					    strcspn(mp->m.rcpts, "\n") }),
			.risk = words_risk(mp->m.risk),
			.at_us = mp->m.created_us };
		view->around_count++;
	}
	for (i = 0; i < n; i++) {
		const struct review_row *r = &mp->around.row[from + i];
		char id[UUID_ID_MAX];

		uuid_to_id(id, "msg_", &r->message);
		to[i] = (struct view_queue_row){
			.id = arena_strdup(&page->mem, id),
			.subject = foreign_subject(&words, r->subject),
			.to = arena_str(&page->mem,
			    (struct str){ r->rcpts, strcspn(r->rcpts, "\n") }),
			.risk = words_risk(r->risk),
			.at_us = r->created_us,
		};
	}
}

static void
fill_neighbours(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	char id[UUID_ID_MAX];
	size_t i, at = mp->around.n;

	for (i = 0; i < mp->around.n; i++)
		if (uuid_eq(&mp->around.row[i].message, &mp->id))
			at = i;
	if (at < mp->around.n && at > 0) {
		uuid_to_id(id, "msg_", &mp->around.row[at - 1].message);
		view->prev = arena_strdup(&page->mem, id);
	}
	i = at < mp->around.n ? at + 1 : 0;
	if (i < mp->around.n) {
		uuid_to_id(id, "msg_", &mp->around.row[i].message);
		view->next = arena_strdup(&page->mem, id);
	}
	fill_around(page, view, at);
}

static void
fill_row(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	const struct review_message *m = &mp->m;
	char id[UUID_ID_MAX], digest[DIGEST_TEXT_MAX], once[65];
	struct secret random;

	uuid_to_id(id, "msg_", &mp->id);
	digest_format(digest, m->digest);
	secret_random(&random, 32);
	hex_encode(once, random.b, 32);
	view->id = arena_strdup(&page->mem, id);
	view->once = arena_strdup(&page->mem, once);
	view->digest = arena_strdup(&page->mem, digest);
	view->inbox = m->address;
	view->tenant = m->tenant_slug;
	view->subject =
	    mp->read.subject != NULL ? mp->read.subject : m->subject;
	view->state = words_state(m->state);
	view->version = m->version;
	view->round = m->round;
	view->mail_from = m->mail_from;
	view->at_us = m->created_us;
	view->expires_us = m->hold_until_us;
	view->send_at_us = m->send_at;
	view->not_after_us = m->not_after;
	view->lapses_us = m->now_us + page->admin->approve_ttl_us;
	view->size = m->size;
	view->mode = view_mode_label(m->mode);
	view->test = m->test;
	view->approvals = m->approvals;
	view->need = m->need;
	view->undo_s = page->admin->undo_s;
	view->opened_us = m->now_us;
	view->ask_why = m->state != STATE_HELD && mp->why == NULL;
	view->why = mp->why;
	view->body_problem = mp->open.problem;
}

/* What the worker will do about links to unsubscribe, while it still may. */
static void
fill_links_out(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	size_t i;

	view->link_base = page->admin->link_base;
	if (mp->m.state != STATE_HELD && mp->m.state != STATE_APPROVED &&
	    mp->m.state != STATE_SENDING && mp->m.state != STATE_DEFERRED)
		return;
	if (mp->m.one_click)
		view->links_out =
		    mp->is_open ? VIEW_LINKS_ADDED : VIEW_LINKS_UNKNOWN;
	for (i = 0; mp->m.one_click && i < mp->read.header_count; i++) {
		const char *name = mp->read.headers[i].name;

		if (strcasecmp(name, "List-Unsubscribe") == 0 ||
		    strcasecmp(name, "List-Unsubscribe-Post") == 0)
			view->links_out = VIEW_LINKS_OWN;
	}
}

static void
fill_together(struct page *page, struct view_message *view)
{
	struct message_page *mp = page->mine;
	struct view_comment *comments =
	    arena_array(&page->mem, mp->comments.n + 1, sizeof(*comments));
	size_t i;

	for (i = 0; i < mp->comments.n; i++)
		comments[i] = (struct view_comment){
			mp->comments.row[i].at_us,
			mp->comments.row[i].who,
			mp->comments.row[i].text,
		};
	view->comments = comments;
	view->comment_count = mp->comments.n;
	view->may_comment = session_has_role(page->who, "reviewer") ||
			    session_has_role(page->who, "senior") ||
			    session_has_role(page->who, "admin");
	if (mp->look.is.status == 200 && !mp->look.mine)
		view->looked_at_by = mp->look.who;
}

void
page_message_fill(struct page *page)
{
	struct message_page *mp = page->mine;
	struct view_message *view = &mp->view;

	mp->stored_risk = mp->m.risk;
	if (mp->read.findings.mem == NULL)
		mp->read.findings.mem = &page->mem;
	fill_row(page, view);
	fill_rcpts(page, view);
	fill_content(page, view);
	fill_context(page, view);
	fill_decision(page, view);
	fill_attempts(page, view);
	fill_events(page, view);
	fill_neighbours(page, view);
	fill_links_out(page, view);
	fill_together(page, view);
}

void
page_message_finish(struct page *page)
{
	struct message_page *mp = page->mine;
	struct view_message *view = &mp->view;

	view->risk = words_risk(mp->m.risk);
	view->risk_rose = view->risk > words_risk(mp->stored_risk);
	fill_rights(page, view);
	page_findings_show(page);
}
