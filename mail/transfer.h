/* SPDX-License-Identifier: ISC */
/*
 * transfer.h - base64, quoted-printable, encoded words, both directions.
 *
 * Decoders are liberal (they serve what people are shown); encoders make
 * lines of at most 76 characters.
 */
#ifndef MAIL_TRANSFER_H
#define MAIL_TRANSFER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* Of each byte: 0, or its value as a digit of base64 with this bit. */
#define TRANSFER_DIGIT 64
extern const unsigned char transfer_digits[256];

/* Bytes outside the alphabet are skipped; stops at '='. */
void transfer_base64(struct buf *out, struct str s);
/* The Q encoding of RFC 2047. */
void transfer_q(struct buf *out, struct str s);
/* A line of quoted-printable without its end and without a soft break. */
void transfer_qp(struct buf *out, struct str s);
/* %XX of RFC 2231. False when a % is not followed by two digits. */
bool transfer_percent(struct buf *out, struct str s);

#define TRANSFER_LINE_BYTES 57 /* become 76 characters */
/* Lines of 76 characters, each with CRLF. */
void transfer_base64_lines(struct buf *out, struct str s);
/*
 * UTF-8 text as it may stand in an unstructured field or a phrase: as it is
 * when plain ASCII (`phrase`: quoted when needed), else encoded words,
 * folded so that no line exceeds 76 characters. `column` is where the line
 * stands already.
 */
void transfer_words(struct buf *out, struct str s, bool phrase, size_t column);
/*
 * RFC 3676 4.5 with DelSp: a line that ends with a space goes on in the next of
 * the same quote depth, without that space. Quote marks and the space in front
 * of a line that goes on are not kept.
 */
void transfer_join(struct buf *out, struct str text);
/* LF, CR and CRLF all become CRLF, as text must have it. */
void transfer_crlf(struct buf *out, struct str s);

#endif
