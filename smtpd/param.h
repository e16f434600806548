/* SPDX-License-Identifier: ISC */
/*
 * param.h - parts of parse.c: words, and the parameters of MAIL and RCPT.
 */
#ifndef SMTPD_PARAM_H
#define SMTPD_PARAM_H

#include <stdbool.h>

#include "base/str.h"

struct smtp_command;

/* What stands behind the path; sets fields and fault of `cmd`. */
void smtp_params_parse(struct smtp_command *cmd, struct str rest);

struct str smtp_trim(struct str in);
/* Up to the next space, taken off `in`. */
struct str smtp_word_take(struct str *in);
/* `word` is in capitals; `in` in any case. */
bool smtp_is_word(struct str in, const char *word);

#endif
