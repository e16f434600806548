/* SPDX-License-Identifier: ISC */
/*
 * finding_skip.h - pass over what can be none of what is searched for.
 */
#ifndef MAIL_FINDING_SKIP_H
#define MAIL_FINDING_SKIP_H

#include "base/str.h"

/*
 * The first place in `text` at or behind `from` that finding_search() has to
 * look at; its end when there is none. What begins there may yet be nothing.
 */
const char *finding_skip(struct str text, const char *from);

#endif
