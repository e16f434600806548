/* SPDX-License-Identifier: ISC */
/*
 * markdown.h - CommonMark with tables and strikethrough to HTML for a mail.
 *
 * HTML in the text is text. A link goes to http, https or mailto, or it is
 * none; a picture is its description: nothing is fetched by who reads.
 */
#ifndef MAIL_MARKDOWN_H
#define MAIL_MARKDOWN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define MARKDOWN_MAX (128 * 1024) /* bytes of a text */
#define MARKDOWN_HTML_MAX (16 * MARKDOWN_MAX) /* and of what becomes of it */

/* Appends a whole document; false when either is longer, or memory short. */
MUST_CHECK bool markdown_html(struct buf *out, struct str text);

#endif
