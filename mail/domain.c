/* SPDX-License-Identifier: ISC */
/*
 * domain.c - host names (RFC 1123), IDNA2008 through libidn2, and which of
 * them mail may go to.
 */
#include "mail/domain.h"

#include <stdlib.h>
#include <string.h>

#include <idn2.h>

#include "mail/header.h"

#define NAME_MAX_BYTES 253
#define LABEL_MAX 63

bool
domain_is_literal(struct str s)
{
	size_t i;

	if (s.n < 3 || s.p[0] != '[' || s.p[s.n - 1] != ']')
		return false;
	for (i = 1; i < s.n - 1; i++) {
		if (s.p[i] <= 32 || s.p[i] > 126 ||
		    strchr("[]\\", s.p[i]) != NULL)
			return false;
	}
	return true;
}

static bool
label_valid(struct str l)
{
	size_t i;

	if (l.n == 0 || l.n > LABEL_MAX || l.p[0] == '-' || l.p[l.n - 1] == '-')
		return false;
	for (i = 0; i < l.n; i++) {
		if (!((l.p[i] >= 'a' && l.p[i] <= 'z') ||
			(l.p[i] >= '0' && l.p[i] <= '9') || l.p[i] == '-'))
			return false;
	}
	return true;
}

/* Letters, digits and hyphens in labels; no dot at the end. */
static bool
name_valid(struct str s, bool *a_label)
{
	struct str label;

	if (s.n == 0 || s.p[s.n - 1] == '.')
		return false;
	while (s.n > 0) {
		label = str_split(&s, '.');
		if (!label_valid(label))
			return false;
		if (str_starts(label, str_lit("xn--")))
			*a_label = true;
	}
	return true;
}

/* Through libidn2; `name` is lower-cased and NUL-terminated. */
static enum address_result
idna(char out[256], const char *name, int flags)
{
	uint8_t *got = NULL;
	int rc = idn2_lookup_u8((const uint8_t *)name, &got, flags);
	enum address_result r = ADDRESS_OK;
	bool scrap;

	if (rc != IDN2_OK)
		r = rc == IDN2_TOO_BIG_DOMAIN || rc == IDN2_TOO_BIG_LABEL
			? ADDRESS_TOO_LONG
			: ADDRESS_IDNA;
	else if (strlen((char *)got) > NAME_MAX_BYTES)
		r = ADDRESS_TOO_LONG;
	else if (!name_valid(str_of((char *)got), &scrap))
		r = ADDRESS_IDNA;
	else
		memcpy(out, got, strlen((char *)got) + 1);
	idn2_free(got);
	return r;
}

enum address_result
domain_canonical(char out[256], struct str s)
{
	bool eight = false, a_label = false;
	char name[256];
	size_t i;

	if (s.n == 0)
		return ADDRESS_SYNTAX;
	if (s.n > 255)
		return ADDRESS_TOO_LONG;
	for (i = 0; i < s.n; i++) {
		if (s.p[i] == '\0')
			return ADDRESS_SYNTAX;
		eight |= s.p[i] < 0;
	}
	memcpy(name, s.p, s.n);
	name[s.n] = '\0';
	str_lower(name, s.n);
	if (eight) {
		if (!utf8_valid(s))
			return ADDRESS_NOT_UTF8;
		return idna(out, name, IDN2_NFC_INPUT | IDN2_NO_TR46);
	}
	if (!name_valid(str_of(name), &a_label))
		return ADDRESS_SYNTAX;
	if (s.n > NAME_MAX_BYTES)
		return ADDRESS_TOO_LONG;
	if (a_label)
		return idna(out, name, IDN2_NO_TR46);
	memcpy(out, name, s.n + 1);
	return ADDRESS_OK;
}

bool
address_domain_canonical(char out[256], struct str domain)
{
	return domain_canonical(out, domain) == ADDRESS_OK;
}

/* Top labels that are never in public DNS (RFC 6761, 6762, 8375, ...). */
static const char *const private_tops[] = { "local", "localdomain", "localhost",
	"internal", "intranet", "lan", "home", "corp", "private", "onion",
	"arpa" };

bool
address_domain_public(const struct address *a)
{
	struct str d = address_domain(a), top = d;
	bool digits = true;
	size_t i;

	if (a->literal || memchr(d.p, '.', d.n) == NULL)
		return false;
	for (i = 0; i < d.n; i++) {
		if (d.p[i] == '.')
			top = (struct str){ d.p + i + 1, d.n - i - 1 };
	}
	for (i = 0; i < top.n; i++)
		digits &= top.p[i] >= '0' && top.p[i] <= '9';
	if (digits)
		return false;
	for (i = 0; i < sizeof(private_tops) / sizeof(private_tops[0]); i++) {
		if (str_eq(top, str_of(private_tops[i])))
			return false;
	}
	return true;
}

/* RFC 2142, and names other programs give a meaning. */
static const char *const reserved[] = { "abuse", "ftp", "hostmaster", "info",
	"mailer-daemon", "marketing", "news", "noc", "postmaster", "root",
	"sales", "security", "support", "usenet", "uucp", "webmaster", "www" };

static bool
is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* [a-z0-9]([a-z0-9._+-]{0,62}[a-z0-9])? without ".." */
static bool
inbox_name_valid(struct str s)
{
	size_t i;

	if (s.n == 0 || s.n > 64 || !is_alnum(s.p[0]) ||
	    !is_alnum(s.p[s.n - 1]))
		return false;
	for (i = 0; i < s.n; i++) {
		if (!is_alnum(s.p[i]) && strchr("._+-", s.p[i]) == NULL)
			return false;
		if (i > 0 && s.p[i] == '.' && s.p[i - 1] == '.')
			return false;
	}
	return true;
}

bool
address_inbox_valid(const struct address *a, const char **why)
{
	struct str local = { a->canonical, a->domain - 1 };
	size_t i;

	*why = "";
	if (!inbox_name_valid(local)) {
		*why = "An inbox's name is 1-64 of a-z 0-9 . _ + -, beginning "
		       "and ending with a letter or digit, without \"..\".";
		return false;
	}
	for (i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (str_eq(local, str_of(reserved[i]))) {
			*why = "This name is reserved (RFC 2142).";
			return false;
		}
	}
	if (a->literal) {
		*why = "An inbox needs a domain name.";
		return false;
	}
	return true;
}
