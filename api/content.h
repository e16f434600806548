/* SPDX-License-Identifier: ISC */
/*
 * content.h - what a message says, as JSON (decision D13).
 */
#ifndef API_CONTENT_H
#define API_CONTENT_H

#include <jansson.h>

#include "base/uuid.h"

struct content;

/*
 * The public name of an attachment: the same whenever it is asked for, and
 * of this version only. `path` as in mail/structure.h.
 */
void api_attachment_id(char out[UUID_ID_MAX], const struct uuid *message,
    int version, const char *path);

/*
 * Adds text, html, attachments, headers, reply_to, and `content`: "complete",
 * or "truncated" when a text is longer than is shown.
 */
void api_content_render(json_t *doc, const struct content *content,
    const struct uuid *message, int version);

#endif
