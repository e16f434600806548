/* SPDX-License-Identifier: ISC */
/*
 * note.h - a short text about a message, sealed like its body: whoever may
 * open the one opens the other, and nobody else (decision A7).
 *
 * Layout: nonce 24 | XChaCha20-Poly1305-IETF(K, text), K = BLAKE2b-256(key =
 * message key, lp("postern.note.1")), AD = lp("postern.note.1").
 */
#ifndef SEAL_NOTE_H
#define SEAL_NOTE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

#define SEAL_NOTE_EXTRA (24 + 16)

/* Append the sealed text. */
void seal_note(struct buf *out, const struct secret *key, struct str text);
/* Append the text; false, and nothing appended, when it does not open. */
MUST_CHECK bool seal_note_open(
    struct buf *out, const struct secret *key, struct str sealed);

#endif
