/* SPDX-License-Identifier: ISC */
/*
 * message_read.h - what a person sees of the bytes of a message
 *
 * Pure: bytes in, strings out, in any thread. Structure, headers and
 * addresses come from mail/ alone (decision A8).
 */
#ifndef ADMIN_MESSAGE_READ_H
#define ADMIN_MESSAGE_READ_H

#include "admin/findings.h"
#include "admin/foreign.h"
#include "admin/view.h"
#include "base/arena.h"
#include "base/str.h"
#include "mail/structure.h"

#define READ_TEXT_MAX (256 * 1024) /* shown of one part */
#define READ_RAW_MAX (256 * 1024)

/* An address that a header names. */
struct read_mailbox {
	char *canonical, *wire, *name;
	char kind; /* 't' or 'c' */
	bool is_rcpt; /* for the page: it is an actual recipient */
};

struct message_read {
	struct str bytes; /* in; borrowed */
	struct arena mem;
	const char *problem; /* NULL, or why the structure is not clear */
	struct view_header *headers;
	size_t header_count;
	struct view_part *parts;
	size_t part_count;
	struct view_file *files;
	size_t file_count;
	struct read_mailbox *named; /* in To and Cc */
	size_t named_count;
	char *from, *from_canonical, *reply_to, *reply_canonical, *subject;
	char *replies; /* addresses in Reply-To, each ended by a line feed */
	struct mime_list list;
	struct foreign foreign; /* what only postern-decode can read */
	struct findings findings; /* of texts and files; see page_findings.c */
	struct foreign_text **part_texts; /* one per part; NULL: none */
	struct foreign_text **part_pages; /* reports on HTML; NULL: none */
	struct str plain,
	    shown; /* all text; what HTML shows (page_findings.c) */
	struct foreign_text **file_lists; /* of archives; NULL: none */
};

/* Fills all but `bytes`. Also good as a pool's work function. */
void message_read(void *read);
/* Once more for what `foreign` has answers to; quick. */
void message_read_again(struct message_read *r);
void message_read_clear(struct message_read *r);

/*
 * The decoded bytes of leaf `ix` in `out`, its name in `name` (arena). False
 * when there is no such leaf.
 */
struct buf;
bool message_read_leaf(struct str bytes, unsigned ix, struct arena *mem,
    struct buf *out, char **name);

/* What the first bytes say, in words; "text" or "unknown bytes" else. */
const char *sniff_type(struct str bytes);
/* Does the declared type agree with what was sniffed? */
bool sniff_agrees(const char *declared, const char *name, const char *sniffed);

#endif
