/* SPDX-License-Identifier: ISC */
/*
 * one_click.h - the link by which who gets a mail says no more (RFC 8058).
 *
 * Two fields name it, one POST uses it. Its token is made and understood by
 * the database alone (decision 0085).
 */
#ifndef MAIL_ONE_CLICK_H
#define MAIL_ONE_CLICK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/str.h"

#define ONE_CLICK_TOKEN 34 /* bytes: message, hidden number, MAC */
#define ONE_CLICK_TEXT (BASE32_LEN(ONE_CLICK_TOKEN) + 1) /* with its NUL */

/* Does the header section name a way out of its own? */
bool one_click_has_own(struct str head);
/*
 * Appends List-Unsubscribe and List-Unsubscribe-Post with CRLF; the link is
 * `base`/u/TOKEN. `base` is what conf_check() lets through.
 */
void one_click_fields(struct buf *out, const char *base,
    const unsigned char token[ONE_CLICK_TOKEN]);
/* The token of a link. False: it is none, whatever the database may say. */
bool one_click_token(unsigned char token[ONE_CLICK_TOKEN], struct str text);

/*
 * Does a multipart/form-data body (RFC 7578) have one field List-Unsubscribe,
 * and that be One-Click (RFC 8058 3.2)? `type` is the whole Content-Type.
 */
bool one_click_is_asked(struct str type, struct str body);
/* The value of that field. */
bool one_click_is_word(struct str value);

#endif
