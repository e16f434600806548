/* SPDX-License-Identifier: ISC */
/*
 * reply.h - the only way text goes to the client.
 *
 * A refusal reads "550 5.7.1 [slug] what was given and expected. What to do."
 * with code, slug and advice from base/errors.def, at most 512 octets.
 */
#ifndef SMTPD_REPLY_H
#define SMTPD_REPLY_H

#include "base/errors.h"
#include "base/str.h"

struct smtpd_session;

/* `text` as it is, one line, with its code; adds CRLF. */
void reply_line(struct smtpd_session *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Refuse with the table's code. Counts as an error if it is permanent. */
void reply_refuse(struct smtpd_session *s, enum err_code code, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

/* As above where an entry has more than one form ("501 5.1.7"). */
void reply_refuse_as(struct smtpd_session *s, enum err_code code,
    const char *numbers, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Refuse and leave. */
void reply_expel(struct smtpd_session *s, enum err_code code,
    const char *numbers, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define REPLY_QUOTED_MAX 120
/* Network text fit to be quoted in a reply or a log. */
const char *reply_quote(char out[REPLY_QUOTED_MAX], struct str text);

#endif
