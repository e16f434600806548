/* SPDX-License-Identifier: ISC */
/*
 * content.h - what a frozen message says, found while its bytes pass by: its
 * header, its texts as UTF-8, and what else is in it.
 *
 * Structure is that of structure.h; nothing is guessed. Text in UTF-8, ASCII,
 * Latin-1 and windows-1252 is decoded here; other charsets are listed as
 * attachments, whose bytes can be had as they are, without transfer encoding.
 * Memory: the header, at most CONTENT_TEXT_MAX of each text, one line.
 */
#ifndef MAIL_CONTENT_H
#define MAIL_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define CONTENT_TEXT_MAX (512 * 1024) /* bytes of plain text, and of HTML */

/* A leaf that is no text of the mail, or a message inside. Borrowed. */
struct content_attachment {
	char *path; /* of structure.h: "2", "1.2"; "" = the whole body */
	char *filename, *type, *charset, *content_id; /* "" = none */
	bool is_inline; /* meant to be shown, not saved */
	uint64_t size; /* decoded */
	unsigned char sha256[32]; /* of the decoded bytes */
};

struct content_text {
	struct buf text; /* UTF-8, lines end in LF */
	bool present;
	bool truncated; /* the rest is in an attachment */
};

struct content;

/* Decoded bytes of one attachment, in order. */
typedef void content_data_fn(void *arg, const void *p, size_t n);

struct content *content_new(void);
/* NULL is fine. */
void content_free(struct content *c);
/* Before the first byte: hand on the bytes of the part at `path`. */
void content_want(
    struct content *c, const char *path, content_data_fn *data, void *arg);

/* False when the bytes are not a message that freeze() lets pass. */
bool content_feed(struct content *c, const void *p, size_t n);
bool content_finish(struct content *c);

/* After content_finish(). */
struct str content_header(const struct content *c); /* for header_parse() */
/* All plain text, or all HTML, that is part of the mail itself. */
const struct content_text *content_text(const struct content *c, bool html);
size_t content_attachments(const struct content *c);
const struct content_attachment *content_attachment(
    const struct content *c, size_t i);

#endif
