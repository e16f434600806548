/* SPDX-License-Identifier: ISC */
/*
 * view_watch.h - the audit log and health, as pages
 */
#ifndef ADMIN_VIEW_WATCH_H
#define ADMIN_VIEW_WATCH_H

#include "admin/view.h"
#include "store/review.h"
#include "store/watch.h"

/*
 * Rows of a page: each is at most 15 elements (told by posternctl, not sealed
 * yet, about a message), and a page at most 1,500.
 */
#define VIEW_AUDIT_ROWS 80

struct view_audit {
	const struct watch_rows *rows; /* at most VIEW_AUDIT_ROWS */
	const char *who, *what, *message; /* the search, as typed */
	const char *next; /* key to go on from; NULL: the end */
	bool first;
};
void view_audit(struct buf *out, const struct view_shell *shell,
    const struct view_audit *audit);

#define VIEW_HOURS 24
/* One hour each, the last one not over yet. */
struct view_hours {
	int64_t from_us;
	int64_t a[VIEW_HOURS], b[VIEW_HOURS];
};
struct view_health {
	const struct watch_facts *facts;
	struct view_hours sent; /* a submitted, b sent of them */
	struct view_hours decided; /* a approved, b rejected */
};
void view_health(struct buf *out, const struct view_shell *shell,
    const struct view_health *health);

#endif
