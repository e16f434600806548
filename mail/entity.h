/* SPDX-License-Identifier: ISC */
/*
 * entity.h - what the header of one MIME entity says about its body.
 *
 * Used inside mail/ only: one header section in, one struct mime_part and
 * the boundary out, or why that would be a guess.
 */
#ifndef MAIL_ENTITY_H
#define MAIL_ENTITY_H

#include <stdbool.h>

#include "base/str.h"
#include "mail/header.h"
#include "mail/structure.h"

struct entity {
	struct mime_part *part; /* kind, type, ... are filled */
	char boundary[STRUCTURE_BOUNDARY_MAX + 1]; /* multiparts */
	bool is_message; /* set before: the header of a message inside */
	bool has_8bit; /* in this header */
	bool is_digest; /* parts inside are messages unless they say else */
};

/*
 * `section` without the empty line. `default_type` counts when the header
 * has no Content-Type: "text/plain", in a digest "message/rfc822".
 */
bool entity_read(struct entity *e, struct str section, const char *default_type,
    const char **why);

/*
 * Only the file's name, with help for other charsets (header_decode_with()).
 * False: it cannot be read in one way.
 */
bool entity_filename(struct str section, header_word_fn *fn, void *arg,
    char out[STRUCTURE_NAME_MAX]);

#endif
