/* SPDX-License-Identifier: ISC */
/*
 * step_up.h - who is there, shown again, before something that opens a gate
 *
 * By the form's `code` or `assertion` (which postern-auth judges), or, of
 * those who have no second factor, by its `password`.
 */
#ifndef ADMIN_STEP_UP_H
#define ADMIN_STEP_UP_H

#include "admin/page.h"

/* Is one of the three fields there and filled? */
bool step_up_given(struct page *page);

/*
 * Judge it and mark the session for some minutes. Then `ok` runs, or `wrong`
 * with page->step_up_error set to the name of a sentence (page_change.c);
 * neither when a page was sent instead.
 */
void step_up_start(struct page *page, page_fn *ok, page_fn *wrong);

#endif
