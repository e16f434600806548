/* SPDX-License-Identifier: ISC */
/*
 * leaf.h - what the lines of a leaf may hold, given what its header says.
 *
 * Used by structure.c only. Refused is what programs read in different ways:
 * bytes above 127 that no encoding or charset announces, base64 and
 * quoted-printable that is not (RFC 2045 6.7, 6.8: some skip, some stop),
 * and files that hide in text (uuencode, yEnc), which some programs show as
 * attachments and others as text.
 */
#ifndef MAIL_LEAF_H
#define MAIL_LEAF_H

#include <stdbool.h>

#include "base/str.h"
#include "mail/structure.h"

/* All zero at first. */
struct leaf {
	unsigned digits; /* of base64 so far, modulo 4 */
	bool padded; /* '=' was seen: nothing may follow */
	bool begun; /* the line before could begin a uuencoded file */
};

/* One line with its line end; false: `why` is set. */
bool leaf_line(struct leaf *l, const struct mime_part *part, struct str line,
    const char **why);
/* The part is over. */
bool leaf_end(
    const struct leaf *l, const struct mime_part *part, const char **why);

#endif
