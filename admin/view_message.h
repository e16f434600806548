/* SPDX-License-Identifier: ISC */
/*
 * view_message.h - the sections of a message page, for view_message.c only
 */
#ifndef ADMIN_VIEW_MESSAGE_H
#define ADMIN_VIEW_MESSAGE_H

struct buf;
struct view_message;
struct view_shell;

/* Tabs: text, headers, raw. (view_body.c) */
void view_message_body(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
void view_message_files(struct buf *out, const struct view_message *m);

/* Where it leads, what it fetches and hides. (view_links.c) */
void view_message_links(struct buf *out, const struct view_message *m);

/* What became of one recipient, and each try. (view_delivery.c) */
struct view_rcpt;
void view_message_fate(struct buf *out, const struct view_shell *shell,
    const struct view_rcpt *rcpt);
void view_message_delivery(struct buf *out, const struct view_message *m);

/* Approve, reject, undo, or what was decided. (view_decide.c) */
void view_message_decide(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
/* Beside an address: it is on a list, and gets nothing. (view_decide.c) */
void view_message_listed(struct buf *out, const struct view_rcpt *rcpt);
/* Settle what may have been sent; cancel what has not left. (view_settle.c) */
void view_message_settle(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
void view_message_facts(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
/* Who else looks at it, and comments. (view_together.c) */
void view_message_look(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
void view_message_revises(struct buf *out, const struct view_message *m);
void view_message_comments(struct buf *out, const struct view_shell *shell,
    const struct view_message *m);
void view_message_bar(struct buf *out, const struct view_message *m);

#endif
