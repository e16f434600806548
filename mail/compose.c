/* SPDX-License-Identifier: ISC */
/*
 * compose.c - a message from fields. Addresses are parsed and written anew,
 * words are encoded, every body is base64: nothing a caller gave reaches the
 * header without having been checked byte by byte.
 */
#include "mail/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "mail/header.h"
#include "mail/mailbox.h"
#include "mail/transfer.h"

#define BOUNDARY_MAX 48
#define PARAM_LINE 60 /* encoded bytes of one RFC 2231 section */

struct composer {
	struct buf *out;
	const struct compose *c;
	struct compose_error *err;
	char boundary[BOUNDARY_MAX]; /* "=_" + random; a level is appended */
};

static bool
fail(struct compose_error *err, enum err_code code, const char *field,
    const char *text)
{
	err->code = code;
	(void)snprintf(err->field, sizeof(err->field), "%s", field);
	(void)snprintf(err->text, sizeof(err->text), "%s", text);
	return false;
}

static bool
fail_at(struct compose_error *err, enum err_code code, const char *list,
    size_t i, const char *member, const char *text)
{
	char field[64];

	(void)snprintf(field, sizeof(field), "%s[%zu]%s", list, i, member);
	return fail(err, code, field, text);
}

/* Valid UTF-8 without C0, DEL, C1 and the line separators of Unicode. */
static bool
is_clean(struct str s)
{
	while (s.n > 0) {
		int32_t c = utf8_next(&s);

		if (c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x2028 ||
		    c == 0x2029)
			return false;
	}
	return true;
}

static bool
is_ascii(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if ((unsigned char)s.p[i] >= 0x80)
			return false;
	}
	return true;
}

struct one_mailbox {
	struct buf *name;
	struct address address;
	size_t count;
};

static bool
keep_mailbox(void *arg, const struct mailbox *m)
{
	struct one_mailbox *one = arg;

	if (one->count++ == 0) {
		mailbox_name_text(one->name, m);
		one->address = m->address;
	}
	return true;
}

/* "a@b" or "Name <a@b>", exactly one; the name decoded into `name`. */
static bool
read_mailbox(struct one_mailbox *one, struct str given, bool allow_utf8,
    struct compose_error *err)
{
	const char *why = "not an address";

	if (!is_clean(given))
		return fail(err, E_VALIDATION_ERROR, "",
		    "control characters are not allowed");
	if (given.n > 2000 ||
	    !mailbox_list_parse(given, keep_mailbox, one, &why))
		return fail(err, E_INVALID_ADDRESS, "", why);
	if (one->count != 1)
		return fail(
		    err, E_INVALID_ADDRESS, "", "each entry is one address");
	if (one->address.utf8_local && !allow_utf8)
		return fail(err, E_INVALID_ADDRESS, "",
		    "a local part beyond ASCII cannot be carried");
	return true;
}

/* The address for wire and header: with A-labels where no UTF-8 may be. */
static void
wire_of(struct buf *out, const struct address *a, bool allow_utf8)
{
	const char *at = strrchr(a->wire, '@');

	if (!allow_utf8 && a->utf8_domain && at != NULL) {
		buf_add(out, a->wire, (size_t)(at - a->wire) + 1);
		buf_puts(out, a->canonical + a->domain);
	} else {
		buf_puts(out, a->wire);
	}
}

bool
compose_address(struct buf *wire, struct str given, bool allow_utf8,
    struct compose_error *err)
{
	struct buf name = { 0 };
	struct one_mailbox one = { .name = &name };
	bool ok = read_mailbox(&one, given, allow_utf8, err);

	if (ok)
		wire_of(wire, &one.address, allow_utf8);
	buf_free(&name);
	return ok;
}

/* How many bytes stand on the last line of what was written. */
static size_t
column(const struct buf *out)
{
	size_t i = out->n;

	while (i > 0 && out->p[i - 1] != '\n')
		i--;
	return out->n - i;
}

static bool
write_mailbox(struct composer *w, struct str given, const char *list, size_t i)
{
	struct buf name = { 0 };
	struct one_mailbox one = { .name = &name };
	bool ok = read_mailbox(&one, given, w->c->allow_utf8_address, w->err);

	if (!ok) {
		char field[64];

		(void)snprintf(field, sizeof(field), "%s[%zu]", list, i);
		memcpy(w->err->field, field, sizeof(field));
	} else {
		if (name.n > 0) {
			transfer_words(
			    w->out, buf_str(&name), true, column(w->out));
			buf_puts(w->out, column(w->out) > 40 ? "\r\n <" : " <");
		}
		wire_of(w->out, &one.address, w->c->allow_utf8_address);
		if (name.n > 0)
			buf_putc(w->out, '>');
	}
	buf_free(&name);
	return ok;
}

/* To, Cc, Bcc, Reply-To: an address a line. */
static bool
write_list(struct composer *w, const char *name, const char *list,
    const struct str *v, size_t n)
{
	size_t i;

	if (n == 0)
		return true;
	buf_printf(w->out, "%s: ", name);
	for (i = 0; i < n; i++) {
		if (i > 0)
			buf_puts(w->out, ",\r\n ");
		if (!write_mailbox(w, v[i], list, i))
			return false;
	}
	buf_puts(w->out, "\r\n");
	return true;
}

static bool
write_from(struct composer *w)
{
	if (!is_clean(w->c->from_name))
		return fail(w->err, E_VALIDATION_ERROR, "from",
		    "the display name has control characters");
	buf_puts(w->out, "From: ");
	if (w->c->from_name.n > 0) {
		transfer_words(w->out, w->c->from_name, true, 6);
		buf_puts(w->out, column(w->out) > 40 ? "\r\n <" : " <");
	}
	buf_add_str(w->out, w->c->from);
	buf_puts(w->out, w->c->from_name.n > 0 ? ">\r\n" : "\r\n");
	return true;
}

static bool
write_text_field(
    struct composer *w, const char *name, const char *field, struct str value)
{
	if (value.n == 0)
		return true;
	if (!is_clean(value) || value.n > COMPOSE_SUBJECT_MAX)
		return fail(w->err, E_VALIDATION_ERROR, field,
		    "UTF-8 without control characters, at most 998 bytes");
	buf_printf(w->out, "%s: ", name);
	transfer_words(w->out, value, false, strlen(name) + 2);
	buf_puts(w->out, "\r\n");
	return true;
}

static bool
write_references(struct composer *w)
{
	const struct compose *c = w->c;
	size_t i;

	if (c->in_reply_to.n > 0) {
		if (!header_id_valid(c->in_reply_to))
			return fail(w->err, E_VALIDATION_ERROR, "in_reply_to",
			    "not a message-id");
		buf_printf(w->out, "In-Reply-To: %.*s\r\n",
		    (int)c->in_reply_to.n, c->in_reply_to.p);
	}
	for (i = 0; i < c->reference_count; i++) {
		if (!header_id_valid(c->references[i]))
			return fail_at(w->err, E_VALIDATION_ERROR, "references",
			    i, "", "not a message-id");
		buf_printf(w->out, "%s%.*s", i == 0 ? "References: " : "\r\n ",
		    (int)c->references[i].n, c->references[i].p);
	}
	if (c->reference_count > 0)
		buf_puts(w->out, "\r\n");
	return true;
}

bool
compose_header_allowed(struct str name)
{
	static const char *const exact[] = { "From", "Sender", "To", "Cc",
		"Bcc", "Reply-To", "Subject", "Date", "Message-ID",
		"In-Reply-To", "References", "Received", "Return-Path",
		"Authentication-Results", "MIME-Version", "Errors-To",
		"Disposition-Notification-To", "Return-Receipt-To",
		"X-Confirm-Reading-To" };
	static const char *const prefix[] = { "Resent-", "DKIM-", "ARC-",
		"Content-", "X-Postern-", "Postern-" };
	size_t i;

	if (name.n == 0 || name.n > 76)
		return false;
	for (i = 0; i < name.n; i++) {
		if (name.p[i] < 33 || name.p[i] > 126 || name.p[i] == ':')
			return false;
	}
	for (i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		if (str_ieq(name, str_of(exact[i])))
			return false;
	}
	for (i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++) {
		if (str_istarts(name, str_of(prefix[i])))
			return false;
	}
	return true;
}

static bool
write_custom(struct composer *w)
{
	size_t i;

	if (w->c->header_count > COMPOSE_HEADERS_MAX)
		return fail(
		    w->err, E_VALIDATION_ERROR, "headers", "too many headers");
	for (i = 0; i < w->c->header_count; i++) {
		const struct compose_header *h = &w->c->header[i];
		char field[64], name[80];

		(void)snprintf(field, sizeof(field), "headers.%.*s",
		    (int)(h->name.n < 40 && is_clean(h->name) ? h->name.n : 0),
		    h->name.p);
		if (!compose_header_allowed(h->name))
			return fail(w->err, E_HEADER_FORBIDDEN, field,
			    "this header may not be set");
		(void)snprintf(
		    name, sizeof(name), "%.*s", (int)h->name.n, h->name.p);
		if (!write_text_field(w, name, field, h->value))
			return false;
	}
	return true;
}

/* A multipart's head; parts of `level` are between its boundaries. */
static void
open_multipart(struct composer *w, const char *subtype, int level)
{
	buf_printf(w->out,
	    "Content-Type: multipart/%s;\r\n boundary=\"%s%d\"\r\n\r\n",
	    subtype, w->boundary, level);
}

static void
between(struct composer *w, int level, bool last)
{
	buf_printf(
	    w->out, "--%s%d%s\r\n", w->boundary, level, last ? "--" : "");
}

/* Lines end in CRLF, whatever the text had. */
static void
write_text(struct composer *w, const char *subtype, struct str text)
{
	struct buf canonical = { 0 };
	size_t i;

	for (i = 0; i < text.n; i++) {
		if (text.p[i] == '\r' && i + 1 < text.n &&
		    text.p[i + 1] == '\n')
			continue;
		if (text.p[i] == '\n' || text.p[i] == '\r')
			buf_puts(&canonical, "\r\n");
		else
			buf_putc(&canonical, text.p[i]);
	}
	buf_printf(w->out,
	    "Content-Type: text/%s; charset=utf-8\r\n"
	    "Content-Transfer-Encoding: base64\r\n\r\n",
	    subtype);
	transfer_base64_lines(w->out, buf_str(&canonical));
	buf_free(&canonical);
}

static bool
is_attr_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._", c) != NULL);
}

/* filename="plain" or RFC 2231 sections, each on a line of its own. */
static void
write_filename(struct composer *w, struct str name)
{
	bool plain = is_ascii(name) && name.n <= PARAM_LINE;
	struct buf section = { 0 };
	size_t i = 0, number = 0;

	for (i = 0; plain && i < name.n; i++)
		plain = name.p[i] != '"' && name.p[i] != '\\';
	if (plain) {
		buf_printf(
		    w->out, ";\r\n filename=\"%.*s\"", (int)name.n, name.p);
		return;
	}
	for (i = 0; i < name.n; number++) {
		buf_clear(&section);
		for (; i < name.n && section.n < PARAM_LINE; i++) {
			unsigned char c = (unsigned char)name.p[i];

			if (is_attr_char(c))
				buf_putc(&section, (char)c);
			else
				buf_printf(&section, "%%%02X", c);
		}
		buf_printf(w->out, ";\r\n filename*%zu*=%s%s", number,
		    number == 0 ? "utf-8''" : "", buf_cstr(&section));
	}
	buf_free(&section);
}

/* type "/" subtype, tokens only; parameters are not taken. */
static bool
is_media_type(struct str s)
{
	size_t i, slash = 0;

	for (i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '/')
			slash++;
		else if (!is_attr_char(c) && c != '+')
			return false;
	}
	return slash == 1 && s.n <= 60 && s.p[0] != '/' &&
	       s.p[s.n - 1] != '/' && !str_istarts(s, str_lit("multipart/")) &&
	       !str_istarts(s, str_lit("message/"));
}

static bool
check_attachment(struct composer *w, size_t i)
{
	const struct compose_attachment *a = &w->c->attachment[i];

	if (a->filename.n > 200 || !is_clean(a->filename))
		return fail_at(w->err, E_VALIDATION_ERROR, "attachments", i,
		    ".filename", "at most 200 bytes, no control characters");
	if (a->content_type.n > 0 && !is_media_type(a->content_type))
		return fail_at(w->err, E_VALIDATION_ERROR, "attachments", i,
		    ".content_type", "type/subtype without parameters");
	if (a->content_id.n > 100 || !is_ascii(a->content_id) ||
	    !is_clean(a->content_id) ||
	    memchr(a->content_id.p, '<', a->content_id.n) != NULL ||
	    memchr(a->content_id.p, '>', a->content_id.n) != NULL ||
	    memchr(a->content_id.p, ' ', a->content_id.n) != NULL)
		return fail_at(w->err, E_VALIDATION_ERROR, "attachments", i,
		    ".content_id", "printable ASCII without <, > and space");
	return true;
}

static bool
write_attachment(struct composer *w, size_t i)
{
	const struct compose_attachment *a = &w->c->attachment[i];
	struct str type = a->content_type.n > 0
			      ? a->content_type
			      : str_lit("application/octet-stream");

	if (!check_attachment(w, i))
		return false;
	buf_printf(w->out,
	    "Content-Type: %.*s\r\nContent-Transfer-Encoding: base64\r\n",
	    (int)type.n, type.p);
	if (a->content_id.n > 0)
		buf_printf(w->out, "Content-ID: <%.*s>\r\n",
		    (int)a->content_id.n, a->content_id.p);
	buf_printf(w->out, "Content-Disposition: %s",
	    a->is_inline ? "inline" : "attachment");
	if (a->filename.n > 0)
		write_filename(w, a->filename);
	buf_puts(w->out, "\r\n\r\n");
	transfer_base64_lines(w->out, a->content);
	return true;
}

/* text, html, or both as alternatives. */
static void
write_main(struct composer *w)
{
	const struct compose *c = w->c;

	if (c->html.n == 0) {
		write_text(w, "plain", c->text);
	} else if (c->text.n == 0) {
		write_text(w, "html", c->html);
	} else {
		open_multipart(w, "alternative", 2);
		between(w, 2, false);
		write_text(w, "plain", c->text);
		between(w, 2, false);
		write_text(w, "html", c->html);
		between(w, 2, true);
	}
}

static bool
write_body(struct composer *w)
{
	size_t i;

	buf_puts(w->out, "MIME-Version: 1.0\r\n");
	if (w->c->attachment_count > COMPOSE_ATTACHMENTS_MAX)
		return fail(w->err, E_VALIDATION_ERROR, "attachments",
		    "too many attachments");
	if (w->c->attachment_count == 0) {
		write_main(w);
		return true;
	}
	open_multipart(w, "mixed", 1);
	between(w, 1, false);
	write_main(w);
	for (i = 0; i < w->c->attachment_count; i++) {
		between(w, 1, false);
		if (!write_attachment(w, i))
			return false;
	}
	between(w, 1, true);
	return true;
}

bool
compose_build(
    struct buf *out, const struct compose *c, struct compose_error *err)
{
	struct composer w = { .out = out, .c = c, .err = err };

	memcpy(w.boundary, "=_", 2);
	base32_encode(w.boundary + 2, c->random, sizeof(c->random));
	return write_from(&w) &&
	       write_list(&w, "To", "to", c->to, c->to_count) &&
	       write_list(&w, "Cc", "cc", c->cc, c->cc_count) &&
	       write_list(&w, "Bcc", "bcc", c->bcc, c->bcc_count) &&
	       write_list(&w, "Reply-To", "reply_to", c->reply_to,
		   c->reply_to_count) &&
	       write_text_field(&w, "Subject", "subject", c->subject) &&
	       write_references(&w) && write_custom(&w) && write_body(&w);
}
