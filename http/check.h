/* SPDX-License-Identifier: ISC */
/*
 * check.h - what a syntactically correct head must also satisfy before it is
 * acted upon: version, target, Host, one reading of its length.
 */
#ifndef HTTP_CHECK_H
#define HTTP_CHECK_H

#include <stdbool.h>

struct http_parser;

/*
 * Fill in version, method, length, close and expect of the parser's head.
 * False: fault and why are set.
 */
bool http_check_head(struct http_parser *p);

#endif
