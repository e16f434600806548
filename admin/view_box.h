/* SPDX-License-Identifier: ISC */
/*
 * view_box.h - the page of one inbox, and of what is made for it
 *
 * As view.h says; what the store answered is drawn as it is.
 */
#ifndef ADMIN_VIEW_BOX_H
#define ADMIN_VIEW_BOX_H

#include "admin/html.h"
#include "admin/view.h"
#include "store/box.h"

struct view_box {
	struct box_key key;
	const struct box *box;
	const struct box_credentials *credentials;
	const struct box_allows *allows;
	const struct box_blocks *blocks;
	const struct box_plans *plans;
	const char *error; /* why the last change was not made */
	bool can_link; /* deliver.unsubscribe_url is set */
};

void view_box(struct buf *out, const struct view_shell *shell,
    const struct view_box *view);

/* view_box_lists.c: its parts below the switches. */
void view_box_rules(struct buf *out, const struct view_shell *shell,
    const struct view_box *view);
void view_box_blocks(struct buf *out, const struct view_shell *shell,
    const struct view_box *view);
void view_box_keys(struct buf *out, const struct view_shell *shell,
    const struct view_box *view);

/* view_box_own.c: what it has of its own, where its tenant says something
 * else, and how its mail is sent. */
void view_box_own(struct buf *out, const struct view_shell *shell,
    const struct view_box *view);

/* A form of this inbox that posts to /inbox/T.I/<what>. */
void view_box_form(struct buf *out, const struct view_shell *shell,
    const struct view_box *view, struct html_piece what);

struct view_box_new {
	const char *const *tenants; /* slugs */
	const int64_t *keys;
	size_t tenant_count;
	const char *address, *display_name; /* kept */
	const char *error;
};
void view_box_new(struct buf *out, const struct view_shell *shell,
    const struct view_box_new *view);

/* A claim code, shown once. `unreadable` < 0: the inbox is new. */
struct view_claim {
	const char *address, *code;
	int64_t until_us;
	int unreadable;
	int64_t tenant, inbox;
};
void view_claim(struct buf *out, const struct view_shell *shell,
    const struct view_claim *claim);

#endif
