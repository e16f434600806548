/* SPDX-License-Identifier: ISC */
/*
 * structure.h - the MIME structure of a message, found once for everybody.
 *
 * Streaming and iterative: give all bytes from the first header byte to the
 * end, in any pieces. A callback tells of each part when it ends, with its
 * place in the bytes, so that a page can show, and fetch, exactly these.
 * What recipients' programs might read differently (two Content-Types,
 * unclear boundaries, encodings of containers, ...) is an error, not a
 * guess. Limits: decision D21.
 */
#ifndef MAIL_STRUCTURE_H
#define MAIL_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/str.h"
#include "mail/header.h"

#define STRUCTURE_DEPTH_MAX 50
#define STRUCTURE_PARTS_MAX 1000
#define STRUCTURE_BOUNDARY_MAX 70
#define STRUCTURE_NAME_MAX 256 /* filename, with the NUL */
#define STRUCTURE_PATH_MAX 256
#define STRUCTURE_TYPE_MAX 256

enum mime_kind {
	MIME_LEAF,
	MIME_MULTIPART,
	MIME_MESSAGE, /* message/rfc822, message/global: has a part inside */
	MIME_PREAMBLE, /* text before the first boundary, when not blank */
	MIME_EPILOGUE, /* text after the last one, when not blank */
};

enum mime_encoding {
	MIME_7BIT,
	MIME_8BIT,
	MIME_BINARY,
	MIME_QP,
	MIME_BASE64,
};

enum mime_disposition {
	MIME_DISPOSITION_NONE,
	MIME_DISPOSITION_INLINE,
	MIME_DISPOSITION_ATTACHMENT,
};

/* Text is UTF-8, NUL-terminated, "" for absent. */
struct mime_part {
	unsigned ix; /* 0 = the message itself, then in order of beginning */
	unsigned parent; /* ix; the message itself has its own */
	unsigned depth;
	char path[STRUCTURE_PATH_MAX]; /* "", "1", "1.2": as in IMAP */
	enum mime_kind kind;
	char type[STRUCTURE_TYPE_MAX]; /* lower case: "text/plain" */
	char charset[41]; /* lower case, as declared */
	bool joins; /* lines that end with a space go on (RFC 3676 DelSp) */
	enum mime_encoding encoding;
	enum mime_disposition disposition;
	char filename[STRUCTURE_NAME_MAX]; /* decoded: what programs show */
	char filename_ascii[STRUCTURE_NAME_MAX]; /* plain one beside a
		non-ASCII one in RFC 2231 form; else "" */
	char content_id[128]; /* without <> */
	uint64_t header_at, header_size; /* with the empty line */
	uint64_t body_at, body_size; /* encoded bytes, without the CRLF that
		belongs to the boundary */
};

typedef void structure_part_fn(void *arg, const struct mime_part *part);

struct structure;

/* `part` may be NULL: only the rules and the counts. */
struct structure *structure_new(structure_part_fn *part, void *arg);
void structure_free(struct structure *s);
/*
 * Look into parts while their bytes pass: `begin` runs when the header of a
 * leaf or of a message inside is over, and returns true to have its body,
 * encoded as it is, given to `data` piece by piece: lines, and their CRLFs by
 * themselves. Only one part is watched at a time; what is inside a watched
 * message is not offered. The `part` callback then tells of its end.
 */
struct structure_watch {
	bool (*begin)(void *arg, const struct mime_part *part);
	void (*data)(void *arg, const void *p, size_t n);
};
void structure_set_watch(
    struct structure *s, const struct structure_watch *watch);

/* Bytes above 127 in the header of a part are refused: smtputf8_needed. */
void structure_ascii_headers(struct structure *s);
/*
 * E_NONE, else the same code for ever: message_malformed, mime_too_complex,
 * smtputf8_needed. Neither the code nor the reason depends on how the bytes
 * are cut.
 */
enum err_code structure_feed(struct structure *s, const void *p, size_t n);
enum err_code structure_finish(struct structure *s);
/* One sentence for what is wrong; "" when nothing is. */
const char *structure_why(const struct structure *s);

/* After finish. */
unsigned structure_parts(const struct structure *s);
/* The header of the mail or of a part has bytes above 127. */
bool structure_utf8_headers(const struct structure *s);
/* Leaves that are not the text or HTML of the mail. */
unsigned structure_attachments(const struct structure *s);

/* All parts of a message, sorted by ix: for pages. */
struct mime_list {
	struct mime_part *part;
	size_t count, cap;
};
/* A structure_part_fn; `arg` is a struct mime_list. */
void mime_list_add(void *arg, const struct mime_part *part);
void mime_list_sort(struct mime_list *l);
void mime_list_free(struct mime_list *l);
/* Shown as part of the text: a text leaf that is not an attachment. */
bool mime_part_is_text(const struct mime_part *p);
/*
 * `filename` once more, with help for other charsets, see
 * header_decode_with(); as it was where that leads to no clear name. `bytes`
 * are those of the whole message.
 */
void mime_part_name(char out[STRUCTURE_NAME_MAX], const struct mime_part *p,
    struct str bytes, header_word_fn *fn, void *arg);

#endif
