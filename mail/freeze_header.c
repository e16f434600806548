/* SPDX-License-Identifier: ISC */
#include "mail/freeze_header.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/xalloc.h"
#include "mail/header.h"
#include "mail/mailbox.h"

static const char *const singletons[] = { "Sender", "Reply-To", "Mail-Reply-To",
	"Mail-Followup-To", "To", "Cc", "Bcc", "Date", "Subject", "Message-ID",
	"In-Reply-To", "References", "MIME-Version", "Content-Type",
	"Content-Transfer-Encoding", "Content-Disposition", "Content-ID",
	"Content-Description" };

/*
 * Removed. A '*' at the end stands for any rest. What relays of other
 * companies take as orders (more recipients, other bodies) is here too: no
 * approver would read it so.
 */
static const char *const removed[] = { "Bcc", "Return-Path",
	"Authentication-Results", "ARC-*", "X-Postern-*", "Postern-*",
	"Errors-To", "X-Confirm-Reading-To", "Disposition-Notification-*",
	"Return-Receipt-To", "Apparently-To", "X-Original-To", "Delivered-To",
	"X-Envelope-*", "Envelope-To", "X-SMTPAPI", "X-MC-*", "X-Mailgun-*",
	"X-SES-*", "X-PM-*", "X-MJ-*", "X-Mailjet-*", "X-MSYS-API", "X-Sib-*",
	"Mailin-*", "X-Rcpt-*", "Return-*" };

static bool refuse(struct freeze_header *f, enum err_code code, const char *fmt,
    ...) PRINTF_LIKE(3, 4);

static bool
refuse(struct freeze_header *f, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	f->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(f->why, sizeof(f->why), fmt, ap);
	va_end(ap);
	return false;
}

/* Copy valid UTF-8, cut between characters. */
static void
text_copy(char *out, size_t size, struct str s)
{
	struct str rest = s;
	size_t n = 0;

	while (rest.n > 0) {
		(void)utf8_next(&rest);
		if ((size_t)(rest.p - s.p) >= size)
			break;
		n = (size_t)(rest.p - s.p);
	}
	if (n > 0)
		memcpy(out, s.p, n);
	out[n] = '\0';
}

static bool
is_blank(struct str value)
{
	size_t i;

	for (i = 0; i < value.n; i++) {
		if (strchr(" \t\r\n", value.p[i]) == NULL)
			return false;
	}
	return true;
}

/* From or Sender is this inbox and nothing else. */
static bool
check_identity(
    struct freeze_header *f, const struct header *h, const char *name)
{
	const struct header_field *field = header_find(h, name, 0);
	const char *why = "", *mine = f->conf->inbox->wire;
	struct buf text = { 0 };
	struct mailbox m;

	if (header_count(h, name) != 1)
		return refuse(f, E_SENDER_MISMATCH,
		    "There must be exactly one %s, and it is %s.", name, mine);
	if (!mailbox_parse_strict(field->value, &m, &why))
		return refuse(f, E_SENDER_MISMATCH, "%s is not exactly %s: %s",
		    name, mine, why);
	if (!address_eq(&m.address, f->conf->inbox))
		return refuse(f, E_SENDER_MISMATCH,
		    "%s is %.80s; this key may send only as %.80s", name,
		    m.address.wire, mine);
	if (strcmp(name, "From") != 0)
		return true;
	mailbox_name_text(&text, &m);
	finding_search_header(buf_str(&text), finding_note, &f->info->findings);
	if (text.n > 0)
		buf_printf(&text, " <%s>", m.address.wire);
	else
		buf_puts(&text, m.address.wire);
	text_copy(
	    f->info->header_from, sizeof(f->info->header_from), buf_str(&text));
	buf_free(&text);
	return true;
}

struct rcpt_arg {
	struct freeze_header *f;
	char kind; /* 'r' = Reply-To, or what programs take for it */
};

/* Only a name that is not plain ASCII can deceive. */
static void
search_name(struct freeze_info *info, const struct mailbox *m)
{
	struct buf text = { 0 };

	if (!str_has_8bit(m->name) &&
	    memmem(m->name.p, m->name.n, "=?", 2) == NULL)
		return;
	mailbox_name_text(&text, m);
	finding_search_header(buf_str(&text), finding_note, &info->findings);
	buf_free(&text);
}

static bool
rcpt_add(void *arg, const struct mailbox *m)
{
	struct rcpt_arg *a = arg;
	char text[ADDRESS_MAX];

	address_carried(text, &m->address);
	search_name(a->f->info, m);
	if (a->kind != 'r') {
		buf_putc(&a->f->info->rcpt, a->kind);
		buf_putc(&a->f->info->rcpt, ' ');
		buf_puts(&a->f->info->rcpt, text);
		buf_putc(&a->f->info->rcpt, '\n');
		return true;
	}
	finding_search_reply(&m->address, a->f->conf->inbox, finding_note,
	    &a->f->info->findings);
	return true;
}

static bool
check_lists(struct freeze_header *f, const struct header *h)
{
	static const struct {
		const char *name;
		char kind;
	} lists[] = { { "To", 't' }, { "Cc", 'c' }, { "Bcc", 'b' },
		{ "Reply-To", 'r' }, { "Mail-Reply-To", 'r' },
		{ "Mail-Followup-To", 'r' } };
	const struct header_field *field;
	struct rcpt_arg arg = { .f = f };
	const char *why;
	size_t i;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		field = header_find(h, lists[i].name, 0);
		if (field == NULL || is_blank(field->value))
			continue;
		arg.kind = lists[i].kind;
		if (!mailbox_list_parse(field->value, rcpt_add, &arg, &why))
			return refuse(f, E_MESSAGE_MALFORMED, "%s: %s",
			    lists[i].name, why);
	}
	return true;
}

static bool
check_fields(struct freeze_header *f, const struct header *h)
{
	size_t i, received = 0;

	for (i = 0; i < sizeof(singletons) / sizeof(singletons[0]); i++) {
		if (header_count(h, singletons[i]) > 1)
			return refuse(f, E_MESSAGE_MALFORMED,
			    "%s stands more than once.", singletons[i]);
	}
	for (i = 0; i < h->count; i++) {
		if (header_name_is(h->field[i].name, "Resent-*"))
			return refuse(f, E_MESSAGE_MALFORMED,
			    "Resent fields are not accepted.");
		received += str_ieq(h->field[i].name, str_lit("Received"));
	}
	if (received >= FREEZE_RECEIVED_MAX)
		return refuse(f, E_LOOP,
		    "The message passed more than %d hosts.",
		    FREEZE_RECEIVED_MAX);
	return true;
}

static void
read_subject(struct freeze_info *info, const struct header *h)
{
	const struct header_field *f = header_find(h, "Subject", 0);
	struct buf text = { 0 };

	if (f != NULL)
		header_decode(&text, f->value, NULL);
	text_copy(info->subject, sizeof(info->subject), buf_str(&text));
	finding_search_header(buf_str(&text), finding_note, &info->findings);
	buf_free(&text);
}

static void
read_thread(struct freeze_info *info, const struct header *h)
{
	struct str id[FREEZE_REFERENCES_MAX];
	const struct header_field *f = header_find(h, "In-Reply-To", 0);
	size_t i, n;

	if (f != NULL && header_ids(f->value, id, 1) == 1)
		text_copy(info->in_reply_to, sizeof(info->in_reply_to), id[0]);
	f = header_find(h, "References", 0);
	n = f == NULL ? 0 : header_ids(f->value, id, FREEZE_REFERENCES_MAX);
	for (i = 0; i < n; i++) {
		if (i > 0)
			buf_putc(&info->references, '\n');
		buf_add_str(&info->references, id[i]);
	}
}

/* Date and Message-ID, when given, must be ones. */
static bool
check_origin(struct freeze_header *f, const struct header *h)
{
	const struct header_field *field = header_find(h, "Date", 0);
	struct buf flat = { 0 };
	bool ok;

	if (field != NULL && !header_date_valid(field->value))
		return refuse(
		    f, E_MESSAGE_MALFORMED, "Date is not a date of RFC 5322.");
	field = header_find(h, "Message-ID", 0);
	if (field == NULL)
		return true;
	header_unfold(&flat, field->value);
	ok = header_id_valid(buf_str(&flat));
	if (ok)
		text_copy(f->info->message_id, sizeof(f->info->message_id),
		    buf_str(&flat));
	f->info->has_message_id = ok;
	buf_free(&flat);
	return ok || refuse(f, E_MESSAGE_MALFORMED,
			 "Message-ID is not <left@right>.");
}

/* DKIM-Signature of our domain, or of none that can be read. */
static bool
dkim_is_ours(const struct freeze_header *f, struct str value)
{
	struct str own = address_domain(f->conf->inbox), tag, name;
	struct buf flat = { 0 };
	struct str rest;
	char d[256] = "";
	bool ours = true;

	header_unfold(&flat, value);
	rest = buf_str(&flat);
	while (rest.n > 0) {
		tag = str_split(&rest, ';');
		name = str_trim(str_split(&tag, '='));
		if (!str_eq(name, str_lit("d")))
			continue;
		ours = d[0] != '\0' ||
		       !address_domain_canonical(d, str_trim(tag)) ||
		       str_eq(str_of(d), own);
		if (ours)
			break;
	}
	buf_free(&flat);
	return ours;
}

static bool
is_removed(const struct freeze_header *f, const struct header_field *field)
{
	size_t i;

	for (i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
		if (header_name_is(field->name, removed[i]))
			return true;
	}
	return str_ieq(field->name, str_lit("DKIM-Signature")) &&
	       dkim_is_ours(f, field->value);
}

/* What the agent said about its purpose goes to the reviewer only. */
static void
read_context(struct freeze_info *info, const struct header_field *field)
{
	struct buf text = { 0 };

	if (!str_istarts(field->name, str_lit("Postern-")) ||
	    info->context.n > 4096)
		return;
	header_decode(&text, field->value, NULL);
	buf_add_str(&info->context, field->name);
	buf_puts(&info->context, ": ");
	buf_add(&info->context, text.p, text.n < 1024 ? text.n : 0);
	buf_putc(&info->context, '\n');
	buf_free(&text);
}

/* vsnprintf() takes longer than all the rest of a header. */
static void
header_put(struct buf *out, const char *name, const char *value)
{
	buf_puts(out, name);
	buf_puts(out, value);
	buf_puts(out, "\r\n");
}

static void
received_put(const struct freeze_header *f, const char *date)
{
	char id[UUID_ID_MAX];

	uuid_to_id(id, "msg_", &f->conf->message);
	buf_puts(f->out, "Received: by ");
	buf_add_str(f->out, f->conf->hostname);
	buf_puts(f->out, " (Postern) with ");
	buf_puts(f->out, f->conf->with);
	buf_puts(f->out, " id ");
	buf_puts(f->out, id);
	header_put(f->out, "; ", date);
}

static void
add_missing(struct freeze_header *f, const struct header *h, const char *date)
{
	char id[BASE32_LEN(16) + 1];

	if (header_find(h, "Date", 0) == NULL)
		header_put(f->out, "Date: ", date);
	if (!f->info->has_message_id) {
		base32_encode(id, f->conf->message.b, 16);
		(void)snprintf(f->info->message_id, sizeof(f->info->message_id),
		    "<%s@%.200s>", id, address_domain(f->conf->inbox).p);
		header_put(f->out, "Message-ID: ", f->info->message_id);
	}
	if (header_find(h, "MIME-Version", 0) == NULL &&
	    (header_find(h, "Content-Type", 0) != NULL ||
		header_find(h, "Content-Transfer-Encoding", 0) != NULL ||
		header_find(h, "Content-Disposition", 0) != NULL))
		buf_puts(f->out, "MIME-Version: 1.0\r\n");
}

static void
write_header(struct freeze_header *f, const struct header *h)
{
	char date[40];
	size_t i;

	header_date_format(date, f->conf->now_us);
	received_put(f, date);
	for (i = 0; i < h->count; i++) {
		if (is_removed(f, &h->field[i]))
			read_context(f->info, &h->field[i]);
		else
			buf_add_str(f->out, h->field[i].raw);
	}
	add_missing(f, h, date);
	buf_puts(f->out, "\r\n");
}

static bool
check_charset(struct freeze_header *f, const struct header *h)
{
	if (!h->has_8bit)
		return true;
	if (!f->conf->smtputf8)
		return refuse(
		    f, E_SMTPUTF8_NEEDED, "The header has bytes above 127.");
	if (!h->is_utf8)
		return refuse(f, E_MESSAGE_MALFORMED,
		    "The header has bytes that are not UTF-8.");
	return true;
}

/* A line meant as From, in a spelling that some programs take for one. */
static bool
has_odd_from(struct str section)
{
	struct str line, word;

	while (section.n > 0) {
		line = str_split(&section, '\n');
		word = str_trim(line);
		if (!str_istarts(word, str_lit("from")) ||
		    str_istarts(line, str_lit("from:")))
			continue;
		word.p += 4;
		word.n -= 4;
		word = str_trim(word);
		if (word.n == 0 || word.p[0] == ':' || word.p[0] == '\r')
			return true;
	}
	return false;
}

bool
freeze_header(struct freeze_header *f, struct str section)
{
	const char *why = "";
	struct header h;
	bool ok;

	if (section.n > HEADER_BYTES_MAX)
		return refuse(f, E_MESSAGE_MALFORMED,
		    "The header is larger than 100 KiB.");
	if (!header_parse(&h, section, &why))
		return refuse(f,
		    has_odd_from(section) ? E_SENDER_MISMATCH
					  : E_MESSAGE_MALFORMED,
		    "%s", why);
	ok = h.count <= HEADER_FIELDS_MAX ||
	     refuse(f, E_MESSAGE_MALFORMED,
		 "The header has more than 1000 fields.");
	ok = ok && check_identity(f, &h, "From");
	if (ok && header_count(&h, "Sender") > 0)
		ok = check_identity(f, &h, "Sender");
	ok = ok && check_fields(f, &h) && check_charset(f, &h) &&
	     check_lists(f, &h) && check_origin(f, &h);
	if (ok) {
		read_subject(f->info, &h);
		read_thread(f->info, &h);
		write_header(f, &h);
	}
	header_free(&h);
	return ok;
}
