/* SPDX-License-Identifier: ISC */
#include "base/errors.h"

#include "base/xalloc.h"

static const struct error_info table[E_COUNT] = {
	[E_NONE] = { "", 0, 0, "", "no", "", "" },
#define ERR(id, code, http, smtp, enhanced, retry, what, fix)                  \
	[E_##id] = { code, http, smtp, enhanced, retry, what, fix },
#include "base/errors.def"
#undef ERR
};

static const struct {
	int http;
	const char *name;
} http_names[] = {
	{ 400, "BadRequestError" },
	{ 401, "UnauthorizedError" },
	{ 403, "ForbiddenError" },
	{ 404, "NotFoundError" },
	{ 405, "MethodNotAllowedError" },
	{ 408, "RequestTimeoutError" },
	{ 409, "ConflictError" },
	{ 410, "GoneError" },
	{ 412, "PreconditionFailedError" },
	{ 413, "PayloadTooLargeError" },
	{ 415, "UnsupportedMediaTypeError" },
	{ 422, "UnprocessableEntityError" },
	{ 423, "LockedError" },
	{ 429, "TooManyRequestsError" },
	{ 431, "RequestHeaderFieldsTooLargeError" },
	{ 500, "InternalServerError" },
	{ 501, "NotImplementedError" },
	{ 503, "ServiceUnavailableError" },
};

const struct error_info *
error_get(enum err_code code)
{
	BUG_ON(code >= E_COUNT);
	return &table[code];
}

enum err_code
error_find(struct str code)
{
	int i;

	for (i = E_NONE + 1; i < E_COUNT; i++) {
		if (str_eq(code, str_of(table[i].code)))
			return (enum err_code)i;
	}
	return E_INTERNAL_ERROR;
}

const char *
error_http_name(int http)
{
	size_t i;

	for (i = 0; i < sizeof(http_names) / sizeof(http_names[0]); i++) {
		if (http_names[i].http == http)
			return http_names[i].name;
	}
	return "Error";
}
