/* SPDX-License-Identifier: ISC */
/*
 * address.c - RFC 5321 4.1.2 with RFC 6531, and one form for comparison.
 */
#include "mail/address.h"

#include <stdio.h>
#include <string.h>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include "base/xalloc.h"
#include "mail/domain.h"
#include "mail/header.h"

#define DOMAIN_MAX 255

static const char atom_specials[] = "!#$%&'*+-/=?^_`{|}~";

/*
 * Characters no local part may have: controls, formats, spaces, and other
 * shapes of the characters that structure an address.
 */
static bool
utf8_char_allowed(int32_t c)
{
	if (c < 0)
		return false;
	switch (u_charType(c)) {
	case U_CONTROL_CHAR:
	case U_FORMAT_CHAR:
	case U_SURROGATE:
	case U_UNASSIGNED:
	case U_PRIVATE_USE_CHAR:
	case U_SPACE_SEPARATOR:
	case U_LINE_SEPARATOR:
	case U_PARAGRAPH_SEPARATOR:
		return false;
	default:
		break;
	}
	return c != 0xff20 && c != 0xfe6b && c != 0xff1c && c != 0xff1e &&
	       c != 0xff0c && c != 0xff1b;
}

static bool
is_atext(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr(atom_specials, c) != NULL);
}

/* One character of `s` taken, or a result that says what is wrong. */
static enum address_result
take_utf8(struct str *s)
{
	int32_t c = utf8_next(s);

	if (c < 0)
		return ADDRESS_NOT_UTF8;
	return utf8_char_allowed(c) ? ADDRESS_OK : ADDRESS_SYNTAX;
}

/* Dot-atom; `*s` is left behind it. */
static enum address_result
take_dot_atom(struct str *s, struct buf *text)
{
	enum address_result r;
	const char *from;
	bool dot = true; /* one may not come next */

	while (s->n > 0) {
		from = s->p;
		if (s->p[0] == '.') {
			if (dot)
				return ADDRESS_SYNTAX;
			dot = true;
		} else {
			if (!is_atext(s->p[0]) && s->p[0] >= 0)
				break;
			dot = false;
		}
		if (s->p[0] >= 0) {
			s->p++;
			s->n--;
		} else if ((r = take_utf8(s)) != ADDRESS_OK) {
			return r;
		}
		buf_add(text, from, (size_t)(s->p - from));
	}
	return dot ? ADDRESS_SYNTAX : ADDRESS_OK;
}

/* Quoted string, the first quote gone; `text` is what it means. */
static enum address_result
take_quoted(struct str *s, struct buf *text)
{
	enum address_result r;
	const char *from;

	while (s->n > 0 && s->p[0] != '"') {
		if (s->p[0] == '\\') {
			s->p++;
			s->n--;
			if (s->n == 0 || s->p[0] < 0)
				return ADDRESS_SYNTAX;
		}
		from = s->p;
		if (s->p[0] >= 0) {
			if (s->p[0] < 32 || s->p[0] > 126)
				return ADDRESS_SYNTAX;
			s->p++;
			s->n--;
		} else if ((r = take_utf8(s)) != ADDRESS_OK) {
			return r;
		}
		buf_add(text, from, (size_t)(s->p - from));
	}
	if (s->n == 0)
		return ADDRESS_SYNTAX;
	s->p++;
	s->n--;
	return text->n == 0 ? ADDRESS_SYNTAX : ADDRESS_OK;
}

/* Unicode NFC of `b` in place; ASCII is NFC already. */
static bool
to_nfc(struct buf *b)
{
	UErrorCode e = U_ZERO_ERROR;
	const UNormalizer2 *nfc = unorm2_getNFCInstance(&e);
	UChar wide[ADDRESS_MAX], out[2 * ADDRESS_MAX];
	char text[4 * ADDRESS_MAX];
	int32_t n;

	(void)u_strFromUTF8(
	    wide, ADDRESS_MAX, &n, (const char *)b->p, (int32_t)b->n, &e);
	n = unorm2_normalize(nfc, wide, n, out, 2 * ADDRESS_MAX, &e);
	(void)u_strToUTF8(text, sizeof(text), &n, out, n, &e);
	if (U_FAILURE(e))
		return false;
	buf_clear(b);
	buf_add(b, text, (size_t)n);
	return true;
}

/* Can `text` stand without quotes? */
static bool
is_dot_atom(struct str text)
{
	struct buf scrap = { 0 };
	bool ok = take_dot_atom(&text, &scrap) == ADDRESS_OK && text.n == 0;

	buf_free(&scrap);
	return ok;
}

/* The local part in the form that is compared. */
static bool
local_canonical(struct buf *out, struct buf *text, bool utf8)
{
	size_t i;

	str_lower((char *)text->p, text->n);
	if (utf8 && !to_nfc(text))
		return false;
	if (is_dot_atom(buf_str(text))) {
		buf_add(out, text->p, text->n);
		return true;
	}
	buf_putc(out, '"');
	for (i = 0; i < text->n; i++) {
		if (text->p[i] == '"' || text->p[i] == '\\')
			buf_putc(out, '\\');
		buf_u8(out, text->p[i]);
	}
	buf_putc(out, '"');
	return true;
}

/* What stands before the '@'. */
static enum address_result
take_local(struct str *s, struct buf *canonical, bool *utf8)
{
	struct buf text = { 0 };
	struct str whole = *s;
	enum address_result r;

	if (s->n > 0 && s->p[0] == '"') {
		s->p++;
		s->n--;
		r = take_quoted(s, &text);
	} else {
		r = take_dot_atom(s, &text);
	}
	whole.n -= s->n;
	*utf8 = str_has_8bit(whole);
	if (r == ADDRESS_OK && whole.n > ADDRESS_LOCAL_MAX)
		r = ADDRESS_TOO_LONG;
	if (r == ADDRESS_OK && !local_canonical(canonical, &text, *utf8))
		r = ADDRESS_TOO_LONG;
	buf_free(&text);
	return r;
}

static enum address_result
parse(struct address *out, struct str s, struct buf *canonical)
{
	char domain[256];
	struct str all = s;
	enum address_result r = take_local(&s, canonical, &out->utf8_local);

	if (r != ADDRESS_OK)
		return r;
	if (s.n < 2 || s.p[0] != '@')
		return ADDRESS_SYNTAX;
	s.p++;
	s.n--;
	if (s.n > DOMAIN_MAX)
		return ADDRESS_TOO_LONG;
	out->utf8_domain = str_has_8bit(s);
	out->literal = domain_is_literal(s);
	if (!out->literal) {
		r = domain_canonical(domain, s);
		if (r != ADDRESS_OK)
			return r;
	} else {
		memcpy(domain, s.p, s.n);
		domain[s.n] = '\0';
		str_lower(domain, s.n);
	}
	buf_putc(canonical, '@');
	out->domain = canonical->n;
	buf_puts(canonical, domain);
	if (canonical->n >= ADDRESS_MAX)
		return ADDRESS_TOO_LONG;
	memcpy(out->wire, all.p, all.n);
	memcpy(out->canonical, canonical->p, canonical->n);
	return ADDRESS_OK;
}

enum address_result
address_parse(struct address *out, struct str s)
{
	struct buf canonical = { 0 };
	enum address_result r;

	memset(out, 0, sizeof(*out));
	if (s.n >= ADDRESS_MAX)
		return ADDRESS_TOO_LONG;
	r = parse(out, s, &canonical);
	buf_free(&canonical);
	if (r != ADDRESS_OK)
		memset(out, 0, sizeof(*out));
	return r;
}

bool
address_entry_canonical(char out[ADDRESS_MAX + 1], struct str text)
{
	struct address a;
	char domain[256];

	/* An address, but who writes it means a domain, and would get none. */
	if (str_istarts(text, str_lit("*@")))
		return false;
	if (address_parse(&a, text) == ADDRESS_OK) {
		(void)snprintf(out, ADDRESS_MAX + 1, "%s", a.canonical);
		return true;
	}
	if (text.n > 0 && text.p[0] == '@') {
		text.p++;
		text.n--;
	}
	if (text.n == 0 || memchr(text.p, '@', text.n) != NULL ||
	    !address_domain_canonical(domain, text))
		return false;
	(void)snprintf(out, ADDRESS_MAX + 1, "@%s", domain);
	return true;
}

/* Bytes up to the '>' that closes the path, quoted strings respected. */
static size_t
path_end(struct str s)
{
	bool quoted = false;
	size_t i;

	for (i = 1; i < s.n; i++) {
		if (quoted && s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			quoted = !quoted;
		else if (s.p[i] == '>' && !quoted)
			return i;
	}
	return 0;
}

enum address_result
address_parse_path(struct address *out, struct str s, size_t *used)
{
	size_t end;

	memset(out, 0, sizeof(*out));
	*used = 0;
	if (s.n == 0 || s.p[0] != '<')
		return ADDRESS_SYNTAX;
	end = path_end(s);
	if (end == 0)
		return ADDRESS_SYNTAX;
	*used = end + 1;
	if (end == 1)
		return ADDRESS_EMPTY;
	if (s.p[1] == '@')
		return ADDRESS_ROUTE;
	return address_parse(out, (struct str){ s.p + 1, end - 1 });
}

const char *
address_result_text(enum address_result r)
{
	switch (r) {
	case ADDRESS_OK:
		return "The address is fine.";
	case ADDRESS_EMPTY:
		return "The address is empty.";
	case ADDRESS_SYNTAX:
		return "Not local-part@domain as RFC 5321 has it.";
	case ADDRESS_TOO_LONG:
		return "The address is too long.";
	case ADDRESS_ROUTE:
		return "Source routes are not accepted.";
	case ADDRESS_NOT_UTF8:
		return "The address is not valid UTF-8.";
	case ADDRESS_IDNA:
		return "The domain is not a valid domain name (IDNA2008).";
	}
	return "";
}

void
address_carried(char out[ADDRESS_MAX], const struct address *a)
{
	size_t local;

	memcpy(out, a->wire, ADDRESS_MAX);
	if (!a->utf8_domain)
		return;
	local = (size_t)(strrchr(a->wire, '@') + 1 - a->wire);
	/* IDNA cannot make it longer than the canonical form, which fits, but
	 * for quotes that were needless */
	if (local + strlen(a->canonical + a->domain) >= ADDRESS_MAX)
		memcpy(out, a->canonical, ADDRESS_MAX);
	else
		memcpy(out + local, a->canonical + a->domain,
		    strlen(a->canonical + a->domain) + 1);
}

bool
address_eq(const struct address *a, const struct address *b)
{
	return strcmp(a->canonical, b->canonical) == 0;
}

struct str
address_domain(const struct address *a)
{
	return str_of(a->canonical + a->domain);
}
