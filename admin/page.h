/* SPDX-License-Identifier: ISC */
/*
 * page.h - what every handler of a signed-in person shares
 *
 * A page asks the database several things at once, each with page_arrived()
 * as its `done`, and is drawn when the last answer is there. It lives as long
 * as its request, so nothing needs to be cancelled.
 */
#ifndef ADMIN_PAGE_H
#define ADMIN_PAGE_H

#include "admin/admin.h"
#include "admin/session.h"
#include "admin/view.h"
#include "base/arena.h"
#include "base/buf.h"
#include "store/review.h"

struct http_request;
struct page;

typedef void page_fn(struct page *page);

struct page {
	struct http_request *req;
	struct admin *admin;
	struct admin_who *who;
	struct arena mem;
	struct buf out;
	int waiting;
	page_fn *then;
	struct view_shell shell;
	struct view_undo undo;
	struct review_count held;
	struct review_pauses pauses;
	struct review_tenants tenants;
	struct view_only view_only;
	int64_t only; /* the tenant whose mail alone is shown; 0: all */
	bool signs; /* a passkey's assertion is over a message's digest */
	const char *step_up_error; /* set when a step-up was wrong */
	const char *tenant, *inbox; /* set: only pauses of this one are shown */
	void *mine; /* the handler's, in the arena */
	void (*clear)(void *mine); /* wipes it, may be NULL */
};

/* A page of this request; `size` zeroed bytes hang on it as `mine`. */
struct page *page_new(struct http_request *req, size_t size);

/*
 * For actions: as page_new(), but NULL after a reply when the form's token is
 * not this session's. The request is gone then: read its fields before.
 */
struct page *page_new_action(struct http_request *req, size_t size);

/* Ask for what the frame shows (count, pauses, tenants); a wait for each. */
void page_ask_shell(struct page *page);
/* One more answer is awaited; `page` is the argument of its done. */
struct page *page_wait(struct page *page);
void page_arrived(void *page);
/* Go on with `then` when nothing is awaited any more. */
void page_then(struct page *page, page_fn *then);

/* Is the chosen tenant none of those that this person sees (any more)? */
bool page_only_is_gone(const struct page *page);
/* For page_shell(): the tenants to choose from (page_only.c). */
void page_only_fill(struct page *page, enum view_nav nav);
/* The frame, filled. Its strings are in the arena. */
const struct view_shell *page_shell(
    struct page *page, const char *title, enum view_nav nav);
void page_send(struct page *page, int status);

/* End the request with a page that only says something. */
void page_problem(struct http_request *req, int status, const char *heading,
    const char *text);
void page_problem_send(
    struct http_request *req, int status, struct view_problem *problem);
/* 400 for `what` of the address or form that cannot be one. */
void page_bad(struct http_request *req, const char *what);
/* The same for an answer that is not "done": 404, 403, 409, 503, ... */
void page_refuse(struct page *page, const struct review_answer *is);

/* "Approved by maria 12 s ago. ": how it was decided, else its last event. */
void page_winner(
    struct buf *out, const struct review_events *events, int64_t now_us);
/* Who an event is from, in words; borrowed from it. */
const char *page_actor(const struct review_event *e);

/* 303 to `path` with a fixed notice by name (page.c). */
void page_done(struct page *page, const char *path, const char *said);

/* After the password: on, or to the second factor. */
void page_login_next(struct http_request *req, bool factor_due);

/* Held longer than it may be, and not swept away yet: no approval counts. */
#define PAGE_OVER "The time it may wait is over: it expires, and is not sent."
/* As api.decide_1 refuses it: message_rejected. */
#define PAGE_ALL_LISTED                                                        \
	"Everybody it would go to is suppressed or blocked by now: nothing "   \
	"of it would leave."
bool page_is_over(const struct review_message *m);

/* {id} of the route; false after a 400 page. */
bool page_message_id(struct page *page, struct uuid *message);

#endif
