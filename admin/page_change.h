/* SPDX-License-Identifier: ISC */
/*
 * page_change.h - a form that changes something other than mail
 *
 * The form may carry the password again; then the session is marked first.
 * Whether that was needed the database says. Whatever happens, the answer is
 * a redirect to the page the form was on, which says it in one sentence.
 */
#ifndef ADMIN_PAGE_CHANGE_H
#define ADMIN_PAGE_CHANGE_H

#include "admin/page.h"

/* First member of what hangs on the page of a change. */
struct change {
	struct review_answer is;
	page_fn *act; /* asks the store, then page_then(page, change_done) */
	char back[80]; /* local path of the page, without a query */
};

/*
 * The page of a change of `size` bytes; NULL after a reply. Fill it, set
 * `back`, then change_start().
 */
struct page *change_new(struct http_request *req, size_t size);
void change_start(struct page *page, page_fn *act);
/* The last step of every act whose answer is change.is. */
void change_done(struct page *page);

/* Instead: back to the page with the sentence of that name (page_change.c). */
void change_fail(struct page *page, const char *error);

/* The sentence of that name. */
const char *change_sentence(const char *name);
/* What a page says about ?error=NAME; NULL without one. */
const char *change_error(struct http_request *req);

/* Fields of the form; false after a redirect that says it is not valid. */
bool change_number(
    struct page *page, const char *name, int64_t max, int64_t *v);
/* As that, and -1 for a field that is not there or empty. */
bool change_number_if(
    struct page *page, const char *name, int64_t max, int64_t *v);
/* The field's text, or NULL when it is empty. */
const char *change_text(struct page *page, const char *name);
/* Says the form why? More than white space, that is. */
bool change_has_reason(struct http_request *req);

#endif
