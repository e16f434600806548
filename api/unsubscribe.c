/* SPDX-License-Identifier: ISC */
/*
 * unsubscribe.c - /u/TOKEN: who got mail says no more (RFC 8058, decision
 * 0085).
 *
 * POST acts, without key, cookie or redirect; GET, which programs that look
 * ahead send too, only shows a button that posts to the same address. The
 * pages are the same for everybody: nothing of a request or of mail is in
 * them, and no script.
 */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/xalloc.h"
#include "http/error.h"
#include "http/reply.h"
#include "http/request.h"
#include "mail/one_click.h"
#include "store/one_click.h"

#define STYLE                                                                  \
	"body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;"           \
	"margin:15vh auto;padding:0 1rem;color-scheme:light dark}"             \
	"button{font:inherit;padding:.5rem 1.25rem}"
/* base64(SHA-256(STYLE)); a test makes it anew. */
#define STYLE_HASH "8ibAvGQ7/bstGGbtWIFmaNYWNH/S2fyOIFSWJGKR0R8="
#define PAGE(title, text)                                                      \
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "                  \
	"charset=\"utf-8\">\n"                                                 \
	"<meta name=\"viewport\" content=\"width=device-width\">\n"            \
	"<title>" title "</title>\n<style>" STYLE "</style>\n</head>\n"        \
	"<body>\n<main>\n<h1>" title "</h1>\n" text                            \
	"</main>\n</body>\n</html>\n"

static const char ask_page[] = PAGE("Unsubscribe",
    "<p>Do you want no more mail from this sender?</p>\n"
    "<form method=\"post\"><input type=\"hidden\" name=\"List-Unsubscribe\" "
    "value=\"One-Click\"><button>Unsubscribe</button></form>\n");
static const char done_page[] =
    PAGE("Unsubscribed", "<p>This sender will write to you no more.</p>\n");
static const char gone_page[] = PAGE("This link does not work",
    "<p>It may be cut short, or the mail that it is from is too old. Nothing "
    "was changed.</p>\n");

struct unsubscribe {
	struct http_request *req;
	struct store_one_click *op;
};

static void
send_page(struct http_request *req, int status, const char *page)
{
	http_reply_header(req, "Content-Security-Policy",
	    "default-src 'none'; style-src 'sha256-" STYLE_HASH "'; "
	    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
	http_reply_header(req, "X-Robots-Tag", "noindex");
	http_reply_static(
	    req, status, "text/html; charset=utf-8", page, strlen(page));
}

/* A person with a browser, and no mail program? */
static bool
wants_page(const struct http_request *req)
{
	const char *accept = http_request_header(req, "accept");

	return accept != NULL && strstr(accept, "text/html") != NULL;
}

void
api_link_invalid(struct http_request *req)
{
	if (wants_page(req))
		send_page(req, error_get(E_LINK_INVALID)->http, gone_page);
	else
		http_fail(req, E_LINK_INVALID, "this link does not work");
}

static bool
read_token(const struct http_request *req, unsigned char token[ONE_CLICK_TOKEN])
{
	return one_click_token(token, str_of(http_request_param(req, "token")));
}

/* No token is looked up here: what it is worth is asked of a POST only. */
void
api_op_unsubscribe_page(struct http_request *req)
{
	unsigned char token[ONE_CLICK_TOKEN];

	if (!read_token(req, token))
		send_page(req, error_get(E_LINK_INVALID)->http, gone_page);
	else
		send_page(req, 200, ask_page);
}

static void
on_gone(void *arg)
{
	struct unsubscribe *u = arg;

	store_unsubscribe_cancel(u->op);
	free(u);
}

static void
on_done(void *arg, enum err_code code)
{
	struct unsubscribe *u = arg;
	struct http_request *req = u->req;

	http_request_on_cancel(req, NULL, NULL);
	free(u);
	if (code == E_LINK_INVALID)
		api_refuse_secret(req, code);
	else if (code != E_NONE)
		api_refuse(req, code);
	else if (wants_page(req))
		send_page(req, 200, done_page);
	else
		http_reply_json(
		    req, 200, json_pack("{s:b}", "unsubscribed", 1));
}

/* RFC 8058 3.2: a form of either kind, with this one field. */
static bool
is_asked(struct http_request *req)
{
	const char *body, *word;
	size_t n;

	if (strcmp(http_request_type(req), "multipart/form-data") == 0) {
		body = http_request_body(req, &n);
		return one_click_is_asked(
		    str_of(http_request_header(req, "content-type")),
		    (struct str){ body, n });
	}
	word = http_request_field(req, "List-Unsubscribe", 0);
	return word != NULL && one_click_is_word(str_of(word)) &&
	       http_request_field(req, "List-Unsubscribe", 1) == NULL;
}

void
api_op_unsubscribe(struct http_request *req)
{
	const char *type = http_request_type(req);
	unsigned char token[ONE_CLICK_TOKEN];
	struct unsubscribe *u;

	if (strcmp(type, "application/x-www-form-urlencoded") != 0 &&
	    strcmp(type, "multipart/form-data") != 0) {
		http_fail(req, E_UNSUPPORTED_MEDIA_TYPE,
		    "application/x-www-form-urlencoded or multipart/form-data "
		    "is expected");
	} else if (!is_asked(req)) {
		http_fail_field(req, E_VALIDATION_ERROR, "List-Unsubscribe",
		    "List-Unsubscribe=One-Click is expected, once");
	} else if (!read_token(req, token)) {
		api_refuse_secret(req, E_LINK_INVALID);
	} else {
		u = xcalloc(1, sizeof(*u));
		u->req = req;
		http_request_on_cancel(req, on_gone, u);
		u->op = store_unsubscribe(
		    api_of(req)->store, token, sizeof(token), on_done, u);
	}
}
