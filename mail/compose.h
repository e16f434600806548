/* SPDX-License-Identifier: ISC */
/*
 * compose.h - MIME bytes from the fields of a REST request (decision D16).
 *
 * The result is given to freeze() like any other submission. Control
 * characters in anything that becomes a header are an error that names the
 * field, never stripped. Texts are UTF-8. All is borrowed during the call.
 */
#ifndef MAIL_COMPOSE_H
#define MAIL_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/errors.h"
#include "base/str.h"

#define COMPOSE_HEADERS_MAX 50
#define COMPOSE_ATTACHMENTS_MAX 100
#define COMPOSE_SUBJECT_MAX 998

struct compose_attachment {
	struct str filename;
	struct str content_type; /* empty = application/octet-stream */
	struct str content_id; /* empty = none */
	bool is_inline;
	struct str content; /* decoded bytes */
	bool elsewhere; /* its bytes are not here: see struct compose_hole */
};

/* Where the lines of base64 of an attachment belong that is elsewhere. */
struct compose_hole {
	size_t at; /* before this byte of the message */
	size_t attachment; /* its index */
};

struct compose_header {
	struct str name, value;
};

/* Addresses: "a@b" or "Name <a@b>". Empty and 0 are "none". */
struct compose {
	struct str from_name; /* display name of the inbox */
	struct str from; /* the inbox's address */
	const struct str *to, *cc, *bcc, *reply_to;
	size_t to_count, cc_count, bcc_count, reply_to_count;
	struct str subject, text, html;
	struct str in_reply_to; /* a message-id */
	const struct str *references;
	size_t reference_count;
	const struct compose_header *header;
	size_t header_count;
	const struct compose_attachment *attachment;
	size_t attachment_count;
	/* as many as attachments; in the order of the message */
	struct compose_hole *hole;
	/* boundary: 16 random bytes; the same give the same message */
	unsigned char random[16];
};

struct compose_error {
	enum err_code code; /* validation_error, invalid_address,
		header_forbidden, too_many_recipients */
	char field[64]; /* "to[1]", "attachments[0].filename" */
	char text[160];
};

/*
 * Appends the message to `out`, which is empty if anything is elsewhere. The
 * envelope is to + cc + bcc.
 */
bool compose_build(
    struct buf *out, const struct compose *c, struct compose_error *err);
/* Bytes that an attachment of `n` bytes has as lines of base64. */
uint64_t compose_lines_size(uint64_t n);
/*
 * "Name <a@b>" to its address on the wire (for the envelope); false and
 * `err` (without field) when it is not one. A local part in UTF-8 stays so,
 * here and in the header: such a message needs SMTPUTF8.
 */
bool compose_address(
    struct buf *wire, struct str given, struct compose_error *err);
/* Valid UTF-8 without anything that ends or hides a line. */
bool compose_text_valid(struct str text);
/*
 * May the inbox at `from` be called `name`? With another name, one that looks
 * like an address or hides text, nothing that is composed for it is accepted.
 */
bool compose_name_valid(struct str name, struct str from);
/* May an agent set this field of its own? */
bool compose_header_allowed(struct str name);

#endif
