/* SPDX-License-Identifier: ISC */
/*
 * compose.c - a message from fields, so plain that every program reads it
 * alike: UTF-8 in base64, encoded words, RFC 2231 names.
 *
 *	mixed( related( alternative( text, html ), inline... ), attached... )
 *
 * with each container only where it has more than one part.
 */
#include "mail/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "mail/header.h"
#include "mail/mailbox.h"
#include "mail/param.h"
#include "mail/transfer.h"

struct work {
	struct buf *out;
	const struct compose *c;
	struct compose_error *err;
	size_t inlined, attached;
	size_t holes;
};

static bool fail(struct compose_error *err, enum err_code code,
    const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);

static bool
fail(struct compose_error *err, enum err_code code, const char *field,
    const char *fmt, ...)
{
	va_list ap;

	err->code = code;
	(void)snprintf(err->field, sizeof(err->field), "%s", field);
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return false;
}

/* Valid UTF-8 without anything that ends or hides a line. */
static bool
text_check(struct work *w, struct str s, size_t max, const char *field)
{
	int32_t c;

	if (s.n > max)
		return fail(w->err, E_VALIDATION_ERROR, field,
		    "It is longer than %zu bytes.", max);
	while (s.n > 0) {
		c = utf8_next(&s);
		if (c < 0)
			return fail(w->err, E_VALIDATION_ERROR, field,
			    "It is not valid UTF-8.");
		if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 ||
		    c == 0x2029)
			return fail(w->err, E_VALIDATION_ERROR, field,
			    "It has a control character (U+%04X).",
			    (unsigned)c);
	}
	return true;
}

bool
compose_text_valid(struct str text)
{
	struct compose_error err;
	struct work w = { .err = &err };

	return text_check(&w, text, SIZE_MAX, "");
}

/* Fields that are ours to write, or that mean something to relays. */
static const char *const denied[] = { "From", "Sender", "To", "Cc", "Bcc",
	"Subject", "Date", "Message-ID", "Reply-To", "In-Reply-To",
	"References", "Received*", "Return-*", "Resent-*", "DKIM-*", "ARC-*",
	"Authentication-Results", "Content-*", "MIME-*", "X-Postern-*",
	"Postern-*", "Domainkey-*", "Apparently-To", "Delivered-To",
	"Envelope-To", "X-Envelope-*", "X-Original-To", "Errors-To",
	"X-Confirm-Reading-To", "Disposition-Notification-*", "X-SMTPAPI",
	"X-MC-*", "X-Mailgun-*", "X-SES-*", "X-PM-*", "X-MJ-*", "X-Mailjet-*",
	"X-MSYS-API", "X-Sib-*", "Mailin-*", "X-Rcpt-*" };

bool
compose_header_allowed(struct str name)
{
	size_t i, n;

	if (name.n == 0 || name.n > 76)
		return false;
	for (i = 0; i < name.n; i++) {
		if (name.p[i] < 33 || name.p[i] > 126 || name.p[i] == ':')
			return false;
	}
	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
		n = strlen(denied[i]);
		if (denied[i][n - 1] == '*'
			? str_istarts(name, (struct str){ denied[i], n - 1 })
			: str_ieq(name, str_of(denied[i])))
			return false;
	}
	return true;
}

/*
 * "a@b" or "Name <a@b>". The name is text, not RFC 5322: it is what stands
 * before the last '<', without quotes around it.
 */
static bool
address_split(struct str given, struct str *name, struct address *a,
    struct compose_error *err)
{
	struct str spec;
	enum address_result r;
	size_t i;

	given = str_trim(given);
	spec = given;
	*name = str_lit("");
	if (given.n > 0 && given.p[given.n - 1] == '>') {
		for (i = given.n; i > 0 && given.p[i - 1] != '<'; i--)
			;
		if (i == 0)
			return fail(err, E_INVALID_ADDRESS, "",
			    "Not \"a@b\" or \"Name <a@b>\".");
		spec = (struct str){ given.p + i, given.n - i - 1 };
		*name = str_trim((struct str){ given.p, i - 1 });
		if (name->n >= 2 && name->p[0] == '"' &&
		    name->p[name->n - 1] == '"')
			*name = (struct str){ name->p + 1, name->n - 2 };
	}
	r = address_parse(a, spec);
	if (r != ADDRESS_OK)
		return fail(
		    err, E_INVALID_ADDRESS, "", "%s", address_result_text(r));
	return true;
}

/* What stands in header and envelope: ASCII unless that cannot be. */
static void
spec_put(struct buf *out, const struct address *a)
{
	char text[ADDRESS_MAX];

	address_carried(text, a);
	buf_puts(out, text);
}

bool
compose_address(struct buf *wire, struct str given, struct compose_error *err)
{
	struct address a = { 0 };
	struct str name;

	if (!address_split(given, &name, &a, err))
		return false;
	spec_put(wire, &a);
	return true;
}

/* One mailbox of a list; `column` is kept up to date. */
static bool
mailbox_put(struct work *w, struct str given, const char *field)
{
	struct address a = { 0 };
	struct str name;

	if (!text_check(w, given, 1000, field))
		return false;
	if (!address_split(given, &name, &a, w->err)) {
		(void)snprintf(
		    w->err->field, sizeof(w->err->field), "%s", field);
		return false;
	}
	if (name.n == 0) {
		spec_put(w->out, &a);
		return true;
	}
	transfer_words(w->out, name, true, 40);
	buf_puts(w->out, "\r\n <");
	spec_put(w->out, &a);
	buf_putc(w->out, '>');
	return true;
}

static bool
list_put(struct work *w, const char *header, const char *field,
    const struct str *list, size_t n)
{
	char at[64];
	size_t i;

	if (n == 0)
		return true;
	if (n > MAILBOX_LIST_MAX)
		return fail(w->err, E_TOO_MANY_RECIPIENTS, field,
		    "It has more than %d addresses.", MAILBOX_LIST_MAX);
	buf_puts(w->out, header);
	buf_puts(w->out, ": ");
	for (i = 0; i < n; i++) {
		(void)snprintf(at, sizeof(at), "%s[%zu]", field, i);
		if (i > 0)
			buf_puts(w->out, ",\r\n ");
		if (!mailbox_put(w, list[i], at))
			return false;
	}
	buf_puts(w->out, "\r\n");
	return true;
}

static bool
from_put(struct work *w)
{
	if (!text_check(w, w->c->from_name, 256, "from"))
		return false;
	buf_puts(w->out, "From: ");
	if (w->c->from_name.n > 0) {
		transfer_words(w->out, w->c->from_name, true, 6);
		buf_puts(w->out, "\r\n ");
	}
	buf_putc(w->out, '<');
	buf_add_str(w->out, w->c->from);
	buf_puts(w->out, ">\r\n");
	return true;
}

bool
compose_name_valid(struct str name, struct str from)
{
	const struct compose c = { .from_name = name, .from = from };
	struct compose_error err;
	struct buf field = { 0 };
	struct work w = { .out = &field, .c = &c, .err = &err };
	struct str value;
	struct mailbox m;
	const char *why;
	bool ok = from_put(&w);

	if (ok) {
		value = buf_str(&field);
		(void)str_split(&value, ':');
		ok = mailbox_parse_strict(value, &m, &why);
	}
	buf_free(&field);
	return ok;
}

static bool
ids_put(struct work *w)
{
	size_t i;

	if (w->c->in_reply_to.n > 0) {
		if (!header_id_valid(w->c->in_reply_to))
			return fail(w->err, E_VALIDATION_ERROR, "in_reply_to",
			    "Not a message-id <left@right>.");
		buf_printf(w->out, "In-Reply-To: %.*s\r\n",
		    (int)w->c->in_reply_to.n, w->c->in_reply_to.p);
	}
	if (w->c->reference_count == 0)
		return true;
	if (w->c->reference_count > 100)
		return fail(w->err, E_VALIDATION_ERROR, "references",
		    "It has more than 100 message-ids.");
	buf_puts(w->out, "References:");
	for (i = 0; i < w->c->reference_count; i++) {
		if (!header_id_valid(w->c->references[i]))
			return fail(w->err, E_VALIDATION_ERROR, "references",
			    "Not a message-id <left@right>.");
		buf_printf(w->out, "%s %.*s", i > 0 ? "\r\n" : "",
		    (int)w->c->references[i].n, w->c->references[i].p);
	}
	buf_puts(w->out, "\r\n");
	return true;
}

static bool
extra_put(struct work *w)
{
	const struct compose_header *h;
	char field[64];
	size_t i;

	if (w->c->header_count > COMPOSE_HEADERS_MAX)
		return fail(w->err, E_VALIDATION_ERROR, "headers",
		    "It has more than %d fields.", COMPOSE_HEADERS_MAX);
	for (i = 0; i < w->c->header_count; i++) {
		h = &w->c->header[i];
		if (!compose_header_allowed(h->name))
			return fail(w->err, E_HEADER_FORBIDDEN, "headers",
			    "Field %zu is not a name an agent may set.", i);
		(void)snprintf(field, sizeof(field), "headers.%.*s",
		    (int)(h->name.n < 50 ? h->name.n : 50), h->name.p);
		if (!text_check(w, h->value, 4096, field))
			return false;
		buf_add_str(w->out, h->name);
		buf_puts(w->out, ": ");
		transfer_words(w->out, h->value, false, h->name.n + 2);
		buf_puts(w->out, "\r\n");
	}
	return true;
}

static void
subject_put(struct work *w)
{
	buf_puts(w->out, "Subject: ");
	transfer_words(w->out, w->c->subject, false, 9);
	buf_puts(w->out, "\r\n");
}

static bool
headers_put(struct work *w)
{
	const struct compose *c = w->c;

	if (!text_check(w, c->subject, COMPOSE_SUBJECT_MAX, "subject"))
		return false;
	if (!from_put(w) || !list_put(w, "To", "to", c->to, c->to_count) ||
	    !list_put(w, "Cc", "cc", c->cc, c->cc_count) ||
	    !list_put(w, "Bcc", "bcc", c->bcc, c->bcc_count) ||
	    !list_put(
		w, "Reply-To", "reply_to", c->reply_to, c->reply_to_count))
		return false;
	subject_put(w);
	if (!ids_put(w) || !extra_put(w))
		return false;
	buf_puts(w->out, "MIME-Version: 1.0\r\n");
	return true;
}

/* Level 0, 1, 2: mixed, related, alternative. Base64 never has "=_". */
static void
boundary_put(struct work *w, int level)
{
	char text[BASE32_LEN(16) + 1];

	base32_encode(text, w->c->random, 16);
	buf_printf(w->out, "=_%d_%s", level, text);
}

static void
multipart_begin(struct work *w, int level, const char *subtype)
{
	buf_printf(
	    w->out, "Content-Type: multipart/%s;\r\n boundary=\"", subtype);
	boundary_put(w, level);
	buf_puts(w->out, "\"\r\n\r\n");
}

static void
multipart_next(struct work *w, int level, bool last)
{
	buf_puts(w->out, "--");
	boundary_put(w, level);
	buf_puts(w->out, last ? "--\r\n" : "\r\n");
}

static void
text_put(struct work *w, const char *type, struct str s)
{
	struct buf flat = { 0 };

	transfer_crlf(&flat, s);
	buf_puts(w->out, "Content-Type: text/");
	buf_puts(w->out, type);
	buf_puts(w->out, "; charset=utf-8\r\n"
			 "Content-Transfer-Encoding: base64\r\n\r\n");
	transfer_base64_lines(w->out, buf_str(&flat));
	buf_free(&flat);
}

static void
texts_put(struct work *w)
{
	const struct compose *c = w->c;

	if (c->html.n == 0) {
		text_put(w, "plain", c->text);
	} else if (c->text.n == 0) {
		text_put(w, "html", c->html);
	} else {
		multipart_begin(w, 2, "alternative");
		multipart_next(w, 2, false);
		text_put(w, "plain", c->text);
		multipart_next(w, 2, false);
		text_put(w, "html", c->html);
		multipart_next(w, 2, true);
	}
}

static bool
is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("-._~", c) != NULL);
}

/* filename="..." when simple, else RFC 2231 pieces. */
static void
filename_put(struct work *w, struct str s)
{
	bool simple = s.n <= 60;
	size_t i, n = 0, column = 0;

	for (i = 0; i < s.n; i++)
		simple &= is_token_char(s.p[i]) || s.p[i] == ' ';
	if (simple) {
		buf_printf(w->out, ";\r\n filename=\"%.*s\"", (int)s.n, s.p);
		return;
	}
	for (i = 0; i < s.n; i++) {
		if (i == 0 || column > 50) {
			buf_printf(w->out, ";\r\n filename*%zu*=%s", n,
			    n == 0 ? "utf-8''" : "");
			n++;
			column = 0;
		}
		if (is_token_char(s.p[i]))
			buf_putc(w->out, s.p[i]);
		else
			buf_printf(
			    w->out, "%%%02X", (unsigned)(unsigned char)s.p[i]);
		column += is_token_char(s.p[i]) ? 1 : 3;
	}
}

static bool
attachment_check(struct work *w, size_t i)
{
	const struct compose_attachment *a = &w->c->attachment[i];
	struct param_list l;
	const char *why;
	char at[64];
	bool ok;

	(void)snprintf(at, sizeof(at), "attachments[%zu].filename", i);
	if (!text_check(w, a->filename, 200, at))
		return false;
	(void)snprintf(at, sizeof(at), "attachments[%zu].content_type", i);
	if (a->content_type.n > 0) {
		if (!text_check(w, a->content_type, 200, at))
			return false;
		ok = param_parse(&l, a->content_type, true, &why) &&
		     l.count == 0 && strncmp(l.head, "multipart/", 10) != 0 &&
		     strncmp(l.head, "message/", 8) != 0;
		param_free(&l);
		if (!ok)
			return fail(w->err, E_VALIDATION_ERROR, at,
			    "Not type/subtype, or one that has parts.");
	}
	(void)snprintf(at, sizeof(at), "attachments[%zu].content_id", i);
	if (a->content_id.n > 100)
		return fail(w->err, E_VALIDATION_ERROR, at,
		    "It is longer than 100 bytes.");
	for (size_t k = 0; k < a->content_id.n; k++) {
		if (!is_token_char(a->content_id.p[k]) &&
		    a->content_id.p[k] != '@')
			return fail(w->err, E_VALIDATION_ERROR, at,
			    "Only letters, digits and - . _ ~ @.");
	}
	return true;
}

static void
attachment_put(struct work *w, size_t index)
{
	const struct compose_attachment *a = &w->c->attachment[index];
	struct str type = a->content_type.n > 0
			      ? a->content_type
			      : str_lit("application/octet-stream");

	buf_printf(w->out, "Content-Type: %.*s\r\n", (int)type.n, type.p);
	buf_puts(w->out, "Content-Transfer-Encoding: base64\r\n");
	buf_printf(w->out, "Content-Disposition: %s",
	    a->is_inline ? "inline" : "attachment");
	if (a->filename.n > 0)
		filename_put(w, a->filename);
	buf_puts(w->out, "\r\n");
	if (a->content_id.n > 0)
		buf_printf(w->out, "Content-ID: <%.*s>\r\n",
		    (int)a->content_id.n, a->content_id.p);
	buf_puts(w->out, "\r\n");
	if (a->elsewhere)
		w->c->hole[w->holes++] = (struct compose_hole){ .at = w->out->n,
			.attachment = index };
	else
		transfer_base64_lines(w->out, a->content);
}

static void
attachments_put(struct work *w, int level, bool is_inline)
{
	size_t i;

	for (i = 0; i < w->c->attachment_count; i++) {
		if (w->c->attachment[i].is_inline != is_inline)
			continue;
		multipart_next(w, level, false);
		attachment_put(w, i);
	}
	multipart_next(w, level, true);
}

static void
related_put(struct work *w)
{
	if (w->inlined == 0) {
		texts_put(w);
		return;
	}
	multipart_begin(w, 1, "related");
	multipart_next(w, 1, false);
	texts_put(w);
	attachments_put(w, 1, true);
}

static bool
has_nul(struct str s)
{
	return s.n > 0 && memchr(s.p, '\0', s.n) != NULL;
}

static bool
body_put(struct work *w)
{
	const struct compose *c = w->c;
	size_t i;

	if (!utf8_valid(c->text) || has_nul(c->text))
		return fail(w->err, E_VALIDATION_ERROR, "text",
		    "It is not UTF-8 text.");
	if (!utf8_valid(c->html) || has_nul(c->html))
		return fail(w->err, E_VALIDATION_ERROR, "html",
		    "It is not UTF-8 text.");
	if (c->attachment_count > COMPOSE_ATTACHMENTS_MAX)
		return fail(w->err, E_VALIDATION_ERROR, "attachments",
		    "It has more than %d.", COMPOSE_ATTACHMENTS_MAX);
	for (i = 0; i < c->attachment_count; i++) {
		if (!attachment_check(w, i))
			return false;
		w->inlined += c->attachment[i].is_inline;
		w->attached += !c->attachment[i].is_inline;
	}
	if (w->attached == 0) {
		related_put(w);
		return true;
	}
	multipart_begin(w, 0, "mixed");
	multipart_next(w, 0, false);
	related_put(w);
	attachments_put(w, 0, false);
	return true;
}

bool
compose_build(
    struct buf *out, const struct compose *c, struct compose_error *err)
{
	struct work w = { .out = out, .c = c, .err = err };
	size_t start = out->n;

	memset(err, 0, sizeof(*err));
	if (headers_put(&w) && body_put(&w))
		return true;
	out->n = start;
	return false;
}

uint64_t
compose_lines_size(uint64_t n)
{
	uint64_t lines = (n + TRANSFER_LINE_BYTES - 1) / TRANSFER_LINE_BYTES;

	return (n + 2) / 3 * 4 + 2 * lines;
}
