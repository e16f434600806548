/* SPDX-License-Identifier: ISC */
/* identity.c - hashes that survive the way, and the claims about them. */
#include "mail/identity.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/sha256.h"
#include "base/xalloc.h"
#include "mail/address.h"
#include "mail/header.h"
#include "mail/mailbox.h"

#define FOLD 72

#define ALL_NAMES "*" /* too many to be named: all but those of hosts */

/* What hosts on the way add, replace or take away by right: never covered. */
static const char *const of_hosts[] = { "received", "return-path",
	"delivered-to", "authentication-results", "received-spf", "arc-*",
	"dkim-signature", "x-spam-*", "content-length", IDENTITY_NAME, NULL };

/*
 * What a reader shows or acts upon: covered in any message, so that one that
 * was not there shows too.
 */
static const char *const of_readers[] = { "from", "sender", "reply-to", "to",
	"cc", "bcc", "subject", "date", "message-id", "in-reply-to",
	"references", "mime-version", "content-*", "auto-submitted", "list-*",
	"resent-*", "comments", "keywords", "importance", "priority",
	"x-priority", "x-msmail-priority", "x-message-flag", "sensitivity",
	"expires", "expiry-date", "reply-by", "disposition-notification-*",
	"return-receipt-to", "x-confirm-reading-to", "errors-to",
	"mail-reply-to", "mail-followup-to", "followup-to", "author",
	"organization", "archived-at", "autocrypt", "face", "x-face",
	"bimi-selector", "tls-required", NULL };

struct identity_scan {
	struct buf head;
	bool in_body, has_cr;
	size_t empty; /* lines not yet known to be followed by text */
	EVP_MD_CTX *hash; /* NULL: not asked for */
};

struct identity_scan *
identity_scan_new(bool hash)
{
	struct identity_scan *s = xcalloc(1, sizeof(*s));

	if (hash) {
		s->hash = EVP_MD_CTX_new();
		BUG_ON(s->hash == NULL ||
		       EVP_DigestInit_ex(s->hash, sha256_md(), NULL) != 1);
	}
	return s;
}

static void
digest_text(struct identity_scan *s, const char *p, size_t n)
{
	BUG_ON(EVP_DigestUpdate(s->hash, p, n) != 1);
}

static void
end_lines(struct identity_scan *s)
{
	while (s->empty > 0) {
		digest_text(s, "\r\n", 2);
		s->empty--;
	}
}

/* A CR waits until it is known whether a LF follows. */
static void
add_body(struct identity_scan *s, const char *p, size_t n)
{
	size_t i, from = 0;

	if (s->hash == NULL)
		return;
	for (i = 0; i < n; i++) {
		if (p[i] == '\n') {
			if (i > from) {
				end_lines(s);
				digest_text(s, p + from, i - from);
			}
			s->empty++;
			s->has_cr = false;
			from = i + 1;
			continue;
		}
		if (s->has_cr) { /* it was part of the line */
			end_lines(s);
			digest_text(s, "\r", 1);
			s->has_cr = false;
		}
		if (p[i] == '\r') {
			if (i > from) {
				end_lines(s);
				digest_text(s, p + from, i - from);
			}
			s->has_cr = true;
			from = i + 1;
		}
	}
	if (n > from) {
		end_lines(s);
		digest_text(s, p + from, n - from);
	}
}

/* Where the body begins in the head so far; 0: not yet. */
static size_t
find_body(const struct buf *head, size_t *section)
{
	const char *p = (const char *)head->p, *nl = p;
	size_t n = head->n, at;

	while (n > 0 && (nl = memchr(nl, '\n', n - (size_t)(nl - p))) != NULL) {
		at = (size_t)(nl - p) + 1;
		*section = at;
		if (at < n && p[at] == '\n')
			return at + 1;
		if (at + 1 < n && p[at] == '\r' && p[at + 1] == '\n')
			return at + 2;
		nl++;
		if (at >= n)
			break;
	}
	return 0;
}

void
identity_scan_add(struct identity_scan *s, const char *p, size_t n)
{
	size_t body, section = 0;

	if (s->in_body) {
		add_body(s, p, n);
		return;
	}
	buf_add(&s->head, p, n);
	body = find_body(&s->head, &section);
	if (body == 0)
		return;
	s->in_body = true;
	add_body(s, (char *)s->head.p + body, s->head.n - body);
	s->head.n = section;
}

void
identity_scan_end(
    struct identity_scan *s, unsigned char body[32], struct str *head)
{
	*head = buf_str(&s->head);
	memset(body, 0, SHA256_LEN);
	if (s->hash == NULL)
		return;
	if (s->has_cr) {
		end_lines(s);
		digest_text(s, "\r", 1);
	}
	digest_text(s, "\r\n", 2);
	BUG_ON(EVP_DigestFinal_ex(s->hash, body, NULL) != 1);
}

void
identity_scan_free(struct identity_scan *s)
{
	if (s == NULL)
		return;
	EVP_MD_CTX_free(s->hash);
	buf_free(&s->head);
	free(s);
}

/* Words with one space between them. */
static void
put_relaxed(struct buf *out, struct str value)
{
	bool space = false;
	size_t i, from = out->n;

	for (i = 0; i < value.n; i++) {
		char c = value.p[i];

		if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
			space = out->n > from;
			continue;
		}
		if (space)
			buf_putc(out, ' ');
		space = false;
		buf_putc(out, c);
	}
}

static bool
is_one_of(struct str name, const char *const *patterns)
{
	for (; *patterns != NULL; patterns++) {
		if (header_name_is(name, *patterns))
			return true;
	}
	return false;
}

static bool
is_among(struct str name, struct str more)
{
	while (more.n > 0) {
		if (str_ieq(name, str_split(&more, ':')))
			return true;
	}
	return false;
}

bool
identity_covers(struct str name, struct str more)
{
	if (is_one_of(name, of_hosts))
		return false;
	return is_one_of(name, of_readers) ||
	       str_eq(more, str_lit(ALL_NAMES)) || is_among(name, more);
}

void
identity_more(struct buf *out, struct str head)
{
	size_t from = out->n, at;

	while (head.n > 0) {
		struct str value = header_take_field(&head);
		struct str name = str_trim(str_split(&value, ':'));
		struct str more = { (char *)out->p + from, out->n - from };

		if (identity_covers(name, more) || is_one_of(name, of_hosts))
			continue;
		if (more.n + 1 + name.n > IDENTITY_MORE_MAX) {
			out->n = from;
			buf_puts(out, ALL_NAMES);
			return;
		}
		if (more.n > 0)
			buf_putc(out, ':');
		at = out->n;
		buf_add_str(out, name);
		str_lower((char *)out->p + at, name.n);
	}
}

static void
put_covered(struct buf *out, struct str head, struct str more)
{
	while (head.n > 0) {
		struct str value = header_take_field(&head);
		struct str name = str_trim(str_split(&value, ':'));
		size_t at = out->n;

		if (!identity_covers(name, more))
			continue;
		buf_add_str(out, name);
		str_lower((char *)out->p + at, name.n);
		buf_putc(out, ':');
		put_relaxed(out, value);
		buf_puts(out, "\r\n");
	}
}

void
identity_head_hash(unsigned char out[32], struct str head, struct str more)
{
	struct buf b = { 0 };

	put_covered(&b, head, more);
	sha256(out, b.p, b.n);
	buf_free(&b);
}

/* All values of that name, each with CRLF. */
static void
put_values(struct buf *out, struct str head, const char *wanted)
{
	while (head.n > 0) {
		struct str value = header_take_field(&head);
		struct str name = str_trim(str_split(&value, ':'));

		if (!str_ieq(name, str_of(wanted)))
			continue;
		put_relaxed(out, value);
		buf_puts(out, "\r\n");
	}
}

static void
put_canonical(struct buf *out, struct str address)
{
	struct address a;

	if (address_parse(&a, address) == ADDRESS_OK)
		buf_puts(out, a.canonical);
	else
		buf_add_str(out, address);
}

void
identity_rcpt_hash(unsigned char out[IDENTITY_RCPT],
    const unsigned char salt[IDENTITY_SALT], struct str address,
    struct str head)
{
	struct buf b = { 0 }, part = { 0 };
	unsigned char full[32];

	buf_lp(&b, "postern.identity.1", 18);
	buf_lp(&b, salt, IDENTITY_SALT);
	put_canonical(&part, address);
	buf_lp(&b, part.p, part.n);
	buf_clear(&part);
	put_values(&part, head, "to");
	buf_lp(&b, part.p, part.n);
	buf_clear(&part);
	put_values(&part, head, "cc");
	buf_lp(&b, part.p, part.n);
	sha256(full, b.p, b.n);
	memcpy(out, full, IDENTITY_RCPT);
	buf_free(&b);
	buf_free(&part);
}

struct visit {
	identity_address_fn *fn;
	void *arg;
};

static bool
on_mailbox(void *arg, const struct mailbox *m)
{
	const struct visit *v = arg;

	return v->fn(v->arg, str_of(m->address.canonical));
}

void
identity_visible(struct str head, identity_address_fn *fn, void *arg)
{
	struct visit v = { fn, arg };
	const char *why;

	while (head.n > 0) {
		struct str value = header_take_field(&head);
		struct str name = str_trim(str_split(&value, ':'));

		if (str_ieq(name, str_lit("to")) ||
		    str_ieq(name, str_lit("cc")))
			(void)mailbox_list_parse(value, on_mailbox, &v, &why);
	}
}

struct wanted {
	struct buf canonical;
	bool found;
};

static bool
is_it(void *arg, struct str address)
{
	struct wanted *w = arg;

	w->found |= str_eq(address, buf_str(&w->canonical));
	return !w->found;
}

bool
identity_is_visible(struct str head, struct str address)
{
	struct wanted w = { 0 };

	put_canonical(&w.canonical, address);
	identity_visible(head, is_it, &w);
	buf_free(&w.canonical);
	return w.found;
}

static void
put_base64(struct buf *out, const char *name, const void *p, size_t n)
{
	char text[64];

	base64url_encode(text, p, n);
	buf_printf(out, "%s\"%s\"", name, text);
}

/* Addresses and message-ids have few of what JSON escapes. */
static void
put_text(struct buf *out, const char *name, struct str s)
{
	size_t i;

	buf_printf(out, "%s\"", name);
	for (i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\' || c < 0x20)
			buf_printf(out, "\\u%04x", c);
		else
			buf_putc(out, (char)c);
	}
	buf_putc(out, '"');
}

/* What is said of the header. */
static void
put_header(struct buf *out, const struct identity *id)
{
	struct buf b = { 0 }, more = { 0 };
	unsigned char hash[32];

	identity_more(&more, id->head);
	put_covered(&b, id->front, buf_str(&more));
	put_covered(&b, id->head, buf_str(&more));
	sha256(hash, b.p, b.n);
	put_base64(out, ",\"header_sha256\":", hash, sizeof(hash));
	put_text(out, ",\"header_more\":", buf_str(&more));
	buf_free(&more);
	buf_free(&b);
}

/* The first field of that name; there is one, as submission sees to. */
static void
put_field_text(
    struct buf *out, const char *name, struct str head, const char *wanted)
{
	struct buf value = { 0 };
	struct str lines, first;

	put_values(&value, head, wanted);
	lines = buf_str(&value);
	first = str_split(&lines, '\r');
	put_text(out, name, first);
	buf_free(&value);
}

void
identity_claims(struct buf *out, const struct identity *id)
{
	unsigned char hash[32];
	size_t i;

	put_text(out, "{\"inbox\":", id->inbox);
	buf_printf(
	    out, ",\"reviewed\":\"%s\"", id->by_person ? "human" : "policy");
	put_text(out, ",\"approval\":", str_of(id->approval));
	buf_printf(out, ",\"approved_at\":%lld",
	    (long long)(id->approved_us / 1000000));
	put_field_text(out, ",\"message_id\":", id->head, "message-id");
	put_base64(out, ",\"body_sha256\":", id->body, 32);
	put_header(out, id);
	buf_puts(out, ",\"ai_generated\":true");
	put_base64(out, ",\"salt\":", id->salt, IDENTITY_SALT);
	buf_puts(out, ",\"recipients\":[");
	for (i = 0; i < id->rcpt_count; i++) {
		identity_rcpt_hash(hash, id->salt, id->rcpt[i], id->head);
		put_base64(out, i > 0 ? "," : "", hash, IDENTITY_RCPT);
	}
	buf_puts(out, "]}");
}

void
identity_field(struct buf *out, struct str jws)
{
	buf_puts(out, IDENTITY_NAME ":");
	while (jws.n > 0) {
		size_t n = jws.n < FOLD ? jws.n : FOLD;

		buf_puts(out, out->p[out->n - 1] == ':' ? " " : "\r\n ");
		buf_add(out, jws.p, n);
		jws.p += n;
		jws.n -= n;
	}
	buf_puts(out, "\r\n");
}
