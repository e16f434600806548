/* SPDX-License-Identifier: ISC */
/* error.c - see error.h. */
#include "http/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/conn.h"

#define MESSAGE_MAX 400
#define RETRY_SECONDS 2 /* of a 503 that knows no better */

/*
 * A string for JSON out of text that may quote anything: bytes that are not
 * printable ASCII become '?', so that the document is always valid.
 */
static json_t *
quoted(const char *text)
{
	char clean[MESSAGE_MAX];
	size_t i;

	for (i = 0; i < sizeof(clean) - 1 && text[i] != '\0'; i++)
		clean[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
	clean[i] = '\0';
	return json_string(clean);
}

static json_t *
document(const struct http_request *req, const struct error_info *info,
    const char *field, const char *message)
{
	json_t *root = json_object();

	json_object_set_new(
	    root, "name", json_string(error_http_name(info->http)));
	json_object_set_new(root, "code", json_string(info->code));
	json_object_set_new(root, "message", quoted(message));
	json_object_set_new(root, "fix", json_string(info->fix));
	json_object_set_new(
	    root, "field", field != NULL ? quoted(field) : json_null());
	json_object_set_new(root, "request_id", json_string(req->id));
	json_object_set_new(root, "retry", json_string(info->retry));
	return root;
}

/* Every 503 says when to try again. */
static json_t *
come_back(struct http_request *req, unsigned seconds)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", seconds);
	http_reply_header(req, "Retry-After", text);
	return json_pack("{s:I}", "retry_after", (json_int_t)seconds);
}

static void
ask_who(struct http_request *req)
{
	http_reply_header(req, "WWW-Authenticate", "Bearer realm=\"postern\"");
}

static void fail(struct http_request *req, enum err_code code,
    const char *field, json_t *more, const char *fmt, va_list ap)
    PRINTF_LIKE(5, 0);

/* The members of `more` win nothing: what is there already stays. */
static void
fail(struct http_request *req, enum err_code code, const char *field,
    json_t *more, const char *fmt, va_list ap)
{
	const struct error_info *info = error_get(code);
	int status = info->http != 0 ? info->http : 400;
	const struct http_conf *conf;
	char message[MESSAGE_MAX];
	json_t *root;

	vsnprintf(message, sizeof(message), fmt, ap);
	req->why = info->code;
	if (status == 503 && more == NULL)
		more = come_back(req, RETRY_SECONDS);
	if (status == 401)
		ask_who(req);
	conf = req->conn != NULL ? &req->conn->server->conf : NULL;
	if (conf != NULL && conf->problem != NULL && !req->failing) {
		req->failing = true;
		json_decref(more);
		conf->problem(req, code, status, message);
		return;
	}
	root = document(req, info, field, message);
	if (more != NULL)
		json_object_update_missing(root, more);
	json_decref(more);
	conf = req->inner != NULL ? &req->inner->server->conf : conf;
	if (conf != NULL && conf->dress != NULL)
		conf->dress(req, &status, root);
	http_reply_json(req, status, root);
}

void
http_fail(struct http_request *req, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(req, code, NULL, NULL, fmt, ap);
	va_end(ap);
}

void
http_fail_field(struct http_request *req, enum err_code code, const char *field,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(req, code, field, NULL, fmt, ap);
	va_end(ap);
}

void
http_fail_retry(struct http_request *req, enum err_code code, unsigned seconds,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(req, code, NULL, come_back(req, seconds), fmt, ap);
	va_end(ap);
}

void
http_fail_more(struct http_request *req, enum err_code code, json_t *more,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(req, code, NULL, more, fmt, ap);
	va_end(ap);
}

void
http_fail_as(struct http_request *req, int status, json_t *doc)
{
	json_t *seconds = json_object_get(doc, "retry_after");

	if (seconds != NULL)
		json_decref(
		    come_back(req, (unsigned)json_integer_value(seconds)));
	if (status == 401)
		ask_who(req);
	json_object_set_new(doc, "request_id", json_string(req->id));
	http_reply_json(req, status, doc);
}
