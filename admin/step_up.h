/* SPDX-License-Identifier: ISC */
/*
 * step_up.h - the own password again, before something that opens a gate
 */
#ifndef ADMIN_STEP_UP_H
#define ADMIN_STEP_UP_H

#include "admin/page.h"

/*
 * Check the form's `password` and mark the session for some minutes. Then
 * `ok` runs, or `wrong`; neither when a page was sent instead.
 */
void step_up_start(struct page *page, page_fn *ok, page_fn *wrong);

#endif
