/* SPDX-License-Identifier: ISC */
/*
 * envelope.h - what an envelope says beside its addresses, as one text.
 *
 * The text is part of the digest (decision D4): lines, none twice. First
 * `<recipient> NOTIFY=...` (RFC 3461) in the order of the recipients, then of
 * `REQUIRETLS=` (RFC 8689), `RET=FULL` or `RET=HDRS` (RFC 3461), `SMTPUTF8=`
 * (RFC 6531: the content needs it, not: the client said so) what there is.
 * ENVID and ORCPT of a client are not among them: nobody would have seen what
 * they carry.
 */
#ifndef MAIL_ENVELOPE_H
#define MAIL_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define ENVELOPE_TEXT_MAX 65536

enum envelope_ret { ENVELOPE_RET_NONE, ENVELOPE_RET_FULL, ENVELOPE_RET_HDRS };

/* What a recipient's sender wants to hear; 0: nothing was said. */
enum {
	ENVELOPE_NEVER = 1, /* alone */
	ENVELOPE_SUCCESS = 2,
	ENVELOPE_FAILURE = 4,
	ENVELOPE_DELAY = 8
};

struct envelope_params {
	enum envelope_ret ret;
	bool require_tls, smtputf8;
};

/* "NEVER", or words of "SUCCESS,FAILURE,DELAY" in any order and case. 0 when
 * it is not that, or names one twice. */
unsigned envelope_notify_parse(struct str value);
/* In that order; at most 22 bytes are put. */
void envelope_notify_put(struct buf *out, unsigned notify);

/*
 * Append the text. `rcpt` is sorted by bytes and has no double; `notify` says
 * what each wants, and may be NULL.
 */
void envelope_params_write(struct buf *out, const struct envelope_params *p,
    const struct str *rcpt, const unsigned char *notify, size_t n);
/* False when `text` is not one of ours. */
bool envelope_params_read(struct envelope_params *p, struct str text);
/* What `rcpt` (as on the wire) wants; 0 when nothing was said. */
unsigned envelope_notify_of(struct str text, struct str rcpt);

/* Append `s` as xtext (RFC 3461 4): what is not printable ASCII, '+' and
 * '=' as +XX. */
void envelope_xtext_put(struct buf *out, struct str s);

#endif
