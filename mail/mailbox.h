/* SPDX-License-Identifier: ISC */
/*
 * mailbox.h - address lists of header fields (From, To, Reply-To, ...).
 *
 * Iterative, RFC 5322 without its obsolete forms; comments are skipped to a
 * fixed depth. The strict mode for From and Sender takes one mailbox, no
 * comment, no group, and no display name that poses as another address.
 */
#ifndef MAIL_MAILBOX_H
#define MAIL_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "mail/address.h"
#include "mail/header.h"

#define MAILBOX_LIST_MAX 1000
#define MAILBOX_COMMENT_DEPTH 8

struct mailbox {
	struct str name; /* raw phrase, folded and encoded; may be empty */
	struct str spec; /* raw local@domain */
	struct address address;
};

/* Once per mailbox, in order; return false to stop with an error. */
typedef bool mailbox_fn(void *arg, const struct mailbox *m);

/*
 * `value` is a raw field body. False when it does not parse; `why` says so.
 * Empty lists are refused; a group may be empty ("undisclosed-recipients:;").
 */
bool mailbox_list_parse(
    struct str value, mailbox_fn *fn, void *arg, const char **why);
/* Exactly one mailbox by the strict rules above. */
bool mailbox_parse_strict(
    struct str value, struct mailbox *out, const char **why);
/* The display name decoded for people: valid UTF-8, no control characters. */
void mailbox_name_text(struct buf *out, const struct mailbox *m);
/* With help for other charsets, see header_decode_with(). */
void mailbox_name_text_with(
    struct buf *out, const struct mailbox *m, header_word_fn *fn, void *arg);

#endif
