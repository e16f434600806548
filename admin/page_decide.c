/* SPDX-License-Identifier: ISC */
/*
 * page_decide.c - approve, reject, undo
 *
 * The form names version, round and fingerprint of what its page showed. An
 * approval opens the message key, seals it to the relay together with all
 * that is released, and tags it: without both the worker sends nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/foreign.h"
#include "admin/handlers.h"
#include "admin/message_open.h"
#include "admin/page_change.h"
#include "admin/step_up.h"
#include "admin/words.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/digest.h"
#include "policy/vocabulary.h"
#include "seal/release.h"
#include "store/decide.h"
#include "store/redis.h"

#define SECONDS_MAX 86400

struct deciding {
	struct decide_request request;
	struct decide_answer answer;
	struct review_message m;
	struct review_keys keys;
	struct review_events events;
	unsigned char box[SEAL_RELAY_BOX], tag[SEAL_TAG_LEN];
	int64_t opened_us;
};

static int
int_field(struct http_request *req, const char *name)
{
	const char *text = http_request_field(req, name, 0);
	unsigned long long v;

	return text != NULL && str_to_u64(str_of(text), 32767, &v) ? (int)v : 0;
}

static char *
id_text(struct page *page, const struct uuid *message)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", message);
	return arena_strdup(&page->mem, id);
}

static void
log_decision(struct page *page, const char *event)
{
	struct deciding *d = page->mine;

	log_info(event, KV("operator", page->who->session.operator_id),
	    KV("message", id_text(page, &d->request.message)),
	    KV("version", d->request.version), KV("code", d->answer.is.text));
}

/* Somebody was faster, or it is another version now: say who and what. */
static void
draw_conflict(struct page *page)
{
	struct deciding *d = page->mine;
	struct view_problem problem = { .heading = "Nothing was done",
		.name = d->answer.is.text };
	struct buf text = { 0 }, link = { 0 };
	bool over = d->m.is.status < 300 && page_is_over(&d->m);

	if (d->answer.is.status == 412)
		buf_puts(&text, "The message changed after your page was made: "
				"its fingerprint is another one. Open it again "
				"and look at it before you decide. ");
	else if (d->answer.is.status == 423)
		buf_puts(&text, "You approved it already; another person has "
				"to approve it too. ");
	else if (over)
		buf_puts(&text, PAGE_OVER);
	else
		page_winner(&text, &d->events, page->who->session.now_us);
	if (d->m.is.status < 300 && d->m.state == STATE_HELD && !over)
		buf_puts(&text, "It waits for a decision again.");
	else if (d->m.is.status < 300 && !over)
		buf_printf(&text, "Its state is now: %s.",
		    view_state_label(words_state(d->m.state)));
	buf_printf(&link, "/m/%s", id_text(page, &d->request.message));
	problem.text = buf_cstr(&text);
	problem.link = buf_cstr(&link);
	problem.link_label = d->m.is.status < 300 && d->m.state == STATE_HELD
				 ? "Open it as it is now"
				 : "See what happened";
	page_problem_send(page->req, d->answer.is.status, &problem);
	buf_free(&text);
	buf_free(&link);
}

/* What the page knew is old: look again. */
static void
send_conflict(struct page *page)
{
	struct deciding *d = page->mine;
	const struct store_operator *who = &page->who->op;

	log_decision(page, "admin.conflict");
	memset(&d->m, 0, sizeof(d->m));
	review_get(who, &d->request.message, NULL, &page->mem, &d->m,
	    page_arrived, page_wait(page));
	review_events(who, &d->request.message, &page->mem, &d->events,
	    page_arrived, page_wait(page));
	page_then(page, draw_conflict);
}

static void
remember(struct page *page)
{
	struct deciding *d = page->mine;
	struct admin_recent r = {
		.operator_id = page->who->session.operator_id,
		.until_us = d->answer.undo_until_us,
		.message = d->request.message,
		.version = d->request.version,
		.round = d->request.round,
	};
	/* not asked about here: what a list has shown is known */
	struct foreign words = { .mem = &page->mem,
		.cache = page->admin->words };
	const char *subject = foreign_subject(&words, d->m.subject);
	size_t n;

	snprintf(r.label, sizeof(r.label), "%s",
	    subject != NULL && subject[0] != '\0' ? subject : "a message");
	n = strlen(r.label);
	/* do not end inside a character */
	while (n == sizeof(r.label) - 1 && n > 0 && (r.label[n - 1] & 0x80)) {
		r.label[--n] = '\0';
		if ((r.label[n] & 0xc0) != 0x80)
			break;
	}
	admin_recent_add(page->admin, &r);
}

/*
 * The database did not say whether it is done. The same form again, with the
 * same key, does it once. What confirms a person is not repeated.
 */
static void
offer_again(struct page *page)
{
	static const char *const names[] = { "version", "round", "digest",
		"opened", "once", "next", "verdict", "category", "note", "hint",
		"domain" };
	struct view_again again[sizeof(names) / sizeof(names[0])];
	struct view_problem problem = {
		.heading = "The database does not answer",
		.text = "It may or may not be done. Try again in a moment: the "
			"same press is only ever done once.",
		.again = again,
		.again_at = http_request_path(page->req),
	};
	const char *value;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		value = http_request_field(page->req, names[i], 0);
		if (value != NULL)
			again[problem.again_count++] =
			    (struct view_again){ names[i], value };
	}
	page_problem_send(page->req, 503, &problem);
}

static void
on_decided(struct page *page)
{
	struct deciding *d = page->mine;
	const char *next = http_request_field(page->req, "next", 0);
	struct uuid to;
	char path[UUID_ID_MAX + 8];

	if (d->answer.is.status == 409 || d->answer.is.status == 412 ||
	    d->answer.is.status == 423) {
		send_conflict(page);
		return;
	}
	if (d->answer.is.status >= 500) {
		offer_again(page);
		return;
	}
	if (d->answer.is.status >= 300) {
		page_refuse(page, &d->answer.is);
		return;
	}
	log_decision(page, "admin.decide");
	metrics_inc(M_DECISIONS,
	    d->request.verdict == 'r' ? "reject" : "approve", NULL);
	if (d->request.verdict == 'a' && d->answer.is.status == 200) {
		remember(page);
		redis_wake(
		    page->admin->redis, (unsigned)d->request.undo_s * 1000);
	}
	if (next != NULL && uuid_from_id(&to, "msg_", str_of(next)))
		snprintf(path, sizeof(path), "/m/%s", next);
	else
		snprintf(path, sizeof(path), "/q");
	page_done(page, path,
	    d->request.verdict == 'r'    ? "rejected"
	    : d->answer.is.status == 202 ? "counted"
					 : "approved");
}

static void
send_decision(struct page *page)
{
	struct deciding *d = page->mine;
	int64_t seconds =
	    d->keys.now_us != 0
		? (d->keys.now_us - d->opened_us) / 1000000
		: (page->who->session.now_us - d->opened_us) / 1000000;

	d->request.seconds = seconds < 0             ? 0
			     : seconds > SECONDS_MAX ? SECONDS_MAX
						     : (int)seconds;
	d->request.undo_s = page->admin->undo_s;
	decide(&page->who->op, &d->request, &d->answer, page_arrived,
	    page_wait(page));
	page_then(page, on_decided);
}

/* The relay's box and tag of exactly what the form named. */
static bool
release(struct page *page)
{
	struct deciding *d = page->mine;
	struct seal_release r = {
		.epoch = (uint32_t)d->keys.epoch,
		.tenant = (uint64_t)d->keys.tenant,
		.inbox = (uint64_t)d->keys.inbox,
		.message = d->request.message,
		.version = (uint16_t)d->request.version,
		.round = (uint32_t)d->request.round,
	};
	struct secret message_key = { 0 };
	int64_t expiry = d->keys.now_us + page->admin->approve_ttl_us;

	if (!message_open_key(
		page->admin, &d->keys, &d->request.message, &message_key))
		return false;
	if (d->m.not_after != 0 && d->m.not_after < expiry)
		expiry = d->m.not_after;
	memcpy(r.deployment, d->keys.deployment, sizeof(r.deployment));
	memcpy(r.digest, d->request.digest, sizeof(r.digest));
	r.expiry = (uint64_t)expiry;
	seal_relay_box(d->box, page->admin->relay_pub.b, &message_key, &r);
	seal_tag_approve(d->tag, &page->admin->approve_key, &r);
	secret_wipe(&message_key);
	d->request.relay_box = (struct str){ (char *)d->box, sizeof(d->box) };
	d->request.tag = (struct str){ (char *)d->tag, sizeof(d->tag) };
	d->request.expiry_us = expiry;
	return true;
}

static bool
is_current(const struct deciding *d)
{
	return d->m.version == d->request.version &&
	       d->m.round == d->request.round &&
	       memcmp(d->m.digest, d->request.digest, 32) == 0;
}

static bool
domain_named(const char *rcpts, const char *typed)
{
	struct str rest = str_of(rcpts);

	while (typed != NULL && rest.n > 0) {
		struct str one = str_split(&rest, '\n');
		const char *at = memrchr(one.p, '@', one.n);

		if (at != NULL &&
		    str_ieq((struct str){ at + 1,
				(size_t)(one.p + one.n - at) - 1 },
			str_trim(str_of(typed))))
			return true;
	}
	return false;
}

static void
on_keys(struct page *page)
{
	struct deciding *d = page->mine;

	if (d->m.is.status >= 500 || d->keys.is.status >= 500) {
		offer_again(page);
		return;
	}
	if (d->m.is.status >= 300) {
		page_refuse(page, &d->m.is);
		return;
	}
	if (!is_current(d)) {
		d->answer.is.status = d->m.version == d->request.version &&
					      d->m.round == d->request.round
					  ? 412
					  : 409;
		snprintf(d->answer.is.text, sizeof(d->answer.is.text), "%s",
		    d->answer.is.status == 412 ? "digest_mismatch"
					       : "state_conflict");
		send_conflict(page);
		return;
	}
	/*
	 * Decided already, maybe since it was read, so that its keys need a
	 * reason: the same press again, or a conflict. SQL knows.
	 */
	if (d->request.verdict == 'r' || d->m.state != STATE_HELD ||
	    d->keys.is.status == 403) {
		send_decision(page);
		return;
	}
	if (words_risk(d->m.risk) == VIEW_RISK_HIGH &&
	    !domain_named(
		d->m.rcpts, http_request_field(page->req, "domain", 0))) {
		page_problem(page->req, 422, "Nothing was done",
		    "Its risk is high: type the domain of one of its actual "
		    "recipients to approve it.");
		return;
	}
	if (d->keys.is.status >= 300)
		page_refuse(page, &d->keys.is);
	else if (!message_digest_ok(&d->m, d->keys.body_tag, &page->mem))
		page_problem(page->req, 409, "Nothing was done",
		    "The fingerprint does not fit what the database says. "
		    "Only reject is possible.");
	else if (!release(page))
		page_problem(page->req, 409, "Nothing was done",
		    "The key of this message does not open with the review key "
		    "of this server.");
	else
		send_decision(page);
}

static void
ask_keys(struct page *page)
{
	struct deciding *d = page->mine;

	review_get(&page->who->op, &d->request.message, NULL, &page->mem, &d->m,
	    page_arrived, page_wait(page));
	if (d->request.verdict == 'a')
		review_keys(&page->who->op, &d->request.message,
		    d->request.version, NULL, &page->mem, &d->keys,
		    page_arrived, page_wait(page));
	page_then(page, on_keys);
}

static void
wrong_password(struct page *page)
{
	page_problem(page->req, 403, "Nothing was done",
	    change_sentence(page->step_up_error));
}

static bool
read_form(struct page *page)
{
	struct deciding *d = page->mine;
	struct http_request *req = page->req;
	const char *verdict = http_request_field(req, "verdict", 0);
	const char *digest = http_request_field(req, "digest", 0);
	const char *once = http_request_field(req, "once", 0);
	const char *opened = http_request_field(req, "opened", 0);
	unsigned long long at = 0;

	d->request.version = int_field(req, "version");
	d->request.round = int_field(req, "round");
	d->request.category = http_request_field(req, "category", 0);
	d->request.note = http_request_field(req, "note", 0);
	d->request.hint = http_request_field(req, "hint", 0);
	if (d->request.hint != NULL && d->request.hint[0] == '\0')
		d->request.hint = NULL;
	if (opened != NULL && str_to_u64(str_of(opened), INT64_MAX, &at))
		d->opened_us = (int64_t)at;
	if (verdict == NULL ||
	    (strcmp(verdict, "a") != 0 && strcmp(verdict, "r") != 0))
		return false;
	d->request.verdict = verdict[0];
	return d->request.version > 0 && d->request.round > 0 &&
	       digest != NULL &&
	       digest_parse(d->request.digest, str_of(digest)) &&
	       once != NULL &&
	       hex_decode(d->request.once, sizeof(d->request.once), once,
		   strlen(once)) &&
	       (verdict[0] == 'a' || d->request.category != NULL);
}

void
handle_decide_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct deciding));
	struct deciding *d;

	if (page == NULL)
		return;
	d = page->mine;
	if (!page_message_id(page, &d->request.message))
		return;
	if (!read_form(page)) {
		page_problem(req, 422, "Nothing was done",
		    "The form is not complete. A rejection needs a reason.");
		return;
	}
	page->signs = http_request_field(req, "signs", 0) != NULL;
	if (d->request.verdict == 'a' && step_up_given(page))
		step_up_start(page, ask_keys, wrong_password);
	else
		ask_keys(page);
}

struct undoing {
	struct uuid message;
	int version, round;
	struct undo_answer answer;
};

/*
 * Why it was not undone. Twice pressed, or by two: it is held again. Only what
 * is still of that approval can be with the relay.
 */
static const char *
not_undone(const struct undoing *u)
{
	const struct undo_answer *a = &u->answer;

	if (a->state == STATE_HELD)
		return "waits";
	if (a->version != u->version || a->round != u->round ||
	    a->state == STATE_REJECTED || a->state == STATE_EXPIRED ||
	    a->state == STATE_CANCELED)
		return "moved";
	return "late";
}

static void
on_undone(struct page *page)
{
	struct undoing *u = page->mine;
	char path[UUID_ID_MAX + 8];

	snprintf(path, sizeof(path), "/m/%s", id_text(page, &u->message));
	if (u->answer.is.status == 409) {
		page_done(page, path, not_undone(u));
	} else if (u->answer.is.status >= 300) {
		page_refuse(page, &u->answer.is);
	} else {
		admin_recent_drop(page->admin, &u->message);
		log_info("admin.undo",
		    KV("operator", page->who->session.operator_id),
		    KV("message", id_text(page, &u->message)));
		page_done(page, path, "undone");
	}
}

void
handle_undo_post(struct http_request *req)
{
	struct page *page = page_new_action(req, sizeof(struct undoing));
	struct undoing *u;

	if (page == NULL)
		return;
	u = page->mine;
	if (!page_message_id(page, &u->message))
		return;
	u->version = int_field(req, "version");
	u->round = int_field(req, "round");
	decide_undo(&page->who->op, &u->message, u->version, u->round,
	    &u->answer, page_arrived, page_wait(page));
	page_then(page, on_undone);
}
