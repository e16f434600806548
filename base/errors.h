/* SPDX-License-Identifier: ISC */
/*
 * errors.h - the refusals of errors.def, one table for every door.
 */
#ifndef BASE_ERRORS_H
#define BASE_ERRORS_H

#include "base/str.h"

enum err_code {
	E_NONE,
#define ERR(id, code, http, smtp, enhanced, retry, what, fix) E_##id,
#include "base/errors.def"
#undef ERR
	E_COUNT
};

struct error_info {
	const char *code; /* "sender_mismatch" */
	int http; /* 0 = never said by REST */
	int smtp; /* 0 = never said by SMTP */
	const char *enhanced; /* "5.7.1" */
	const char *retry; /* "no", "after" or "same_key" */
	const char *what; /* one sentence, without its full stop */
	const char *fix; /* one sentence */
};

/* Never NULL; E_NONE is an empty entry. */
const struct error_info *error_get(enum err_code code);
/* The code a database function returned; E_INTERNAL_ERROR when unknown. */
enum err_code error_find(struct str code);
/* "NotFoundError": the class of an HTTP status in CamelCase. */
const char *error_http_name(int http);

#endif
