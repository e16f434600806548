/* SPDX-License-Identifier: ISC */
/* domain.h - the part of an address behind the '@'. */
#ifndef MAIL_DOMAIN_H
#define MAIL_DOMAIN_H

#include <stdbool.h>

#include "base/str.h"
#include "mail/address.h"

/* "[...]", well-formed: IPv4, "IPv6:..." or a general literal. */
bool domain_is_literal(struct str s);
/* Lower A-label with a NUL; ADDRESS_SYNTAX, _IDNA, _NOT_UTF8, _TOO_LONG. */
enum address_result domain_canonical(char out[256], struct str s);

#endif
