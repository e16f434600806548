/* SPDX-License-Identifier: ISC */
#include "admin/findings.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/codec.h"
#include "mail/address.h"
#include "mail/finding_spoof.h"
#include "mail/header.h"

#define DETAIL_MAX 96 /* bytes shown of one */

/* ---- collecting */

static void
add_cut(struct buf *out, struct str s, size_t max)
{
	struct str rest = s;
	size_t n = 0;

	while (rest.n > 0) {
		(void)utf8_next(&rest);
		if ((size_t)(rest.p - s.p) > max)
			break;
		n = (size_t)(rest.p - s.p);
	}
	utf8_clean(out, (struct str){ s.p, n });
	if (n < s.n)
		buf_puts(out, "…");
}

/* Enough to find it in the text, too little to use it. */
static void
add_masked(struct buf *out, enum finding f, struct str s)
{
	struct str rest = s, head;

	switch (f) {
	case FINDING_CARD_NUMBER:
	case FINDING_NATIONAL_ID:
		buf_puts(out, "… ");
		add_cut(out, (struct str){ s.p + s.n - 4, 4 }, 4);
		break;
	case FINDING_URL_PASSWORD:
		head = str_split(&rest, ':');
		add_cut(out, head, DETAIL_MAX);
		buf_puts(out, ":…@");
		break;
	default:
		add_cut(out, s, s.n < 12 ? 4 : 8);
		break;
	}
}

static bool
is_secret(enum finding f)
{
	return f == FINDING_ACCESS_TOKEN || f == FINDING_URL_PASSWORD ||
	       f == FINDING_CARD_NUMBER || f == FINDING_BANK_ACCOUNT ||
	       f == FINDING_NATIONAL_ID;
}

static bool
is_told(const struct findings_of *of, struct str text)
{
	size_t i;

	for (i = 0; i < of->details; i++)
		if (str_eq(str_of(of->detail[i]), text))
			return true;
	return false;
}

void
findings_add(void *arg, enum finding f, struct str what)
{
	struct findings *all = arg;
	struct findings_of *of = &all->of[f];
	struct buf text = { 0 };

	finding_mark(&all->marks, f);
	if (what.n == 0)
		return;
	if (is_secret(f))
		add_masked(&text, f, what);
	else
		add_cut(&text, what, DETAIL_MAX);
	if (!is_told(of, buf_str(&text))) {
		of->count++;
		if (of->details < FINDINGS_DETAILS)
			of->detail[of->details++] =
			    arena_str(all->mem, buf_str(&text));
	}
	buf_free(&text);
}

/* ---- text and names */

#define PGP_BEGIN "-----BEGIN PGP MESSAGE-----"
#define PKCS "\x2a\x86\x48\x86\xf7\x0d\x01" /* 1.2.840.113549.1 */

void
findings_text(struct findings *f, struct str text)
{
	finding_search(text, findings_add, f);
	if (text.n > 0 &&
	    memmem(text.p, text.n, PGP_BEGIN, strlen(PGP_BEGIN)) != NULL)
		findings_add(f, FINDING_FILE_ENCRYPTED, str_lit(PGP_BEGIN));
}

void
findings_header(struct findings *f, const char *text)
{
	if (text != NULL)
		finding_search_header(str_of(text), findings_add, f);
}

/* ---- files, by what their bytes show without taking them apart */

static bool
has(struct str bytes, const char *what, size_t n)
{
	return bytes.n > 0 && memmem(bytes.p, bytes.n, what, n) != NULL;
}
#define HAS(bytes, s) has(bytes, s, sizeof(s) - 1)

/* "abc" as UTF-16, as names stand in old Office documents. */
#define WIDE_VBA "_\0V\0B\0A\0_\0P\0R\0O\0J\0E\0C\0T"
#define WIDE_PACKAGE "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e"

/*
 * Is the name `p` in a PDF this one? "#61" stands for "a" in one (ISO 32000
 * 7.3.5), which hides it from whoever compares bytes.
 */
static bool
is_pdf_name(struct str p, const char *name)
{
	unsigned char c;

	for (; *name != '\0'; name++) {
		if (p.n == 0)
			return false;
		if (p.p[0] == '#' && p.n > 2 && hex_decode(&c, 1, p.p + 1, 2))
			p = (struct str){ p.p + 2, p.n - 2 };
		else
			c = (unsigned char)p.p[0];
		if (c != (unsigned char)*name)
			return false;
		p = (struct str){ p.p + 1, p.n - 1 };
	}
	return true;
}

static bool
has_pdf_name(struct str bytes, const char *name)
{
	const char *at, *end = bytes.p + bytes.n;

	for (at = bytes.p;
	     bytes.n > 0 && (at = memchr(at, '/', (size_t)(end - at))) != NULL;
	     at++)
		if (is_pdf_name(
			(struct str){ at + 1, (size_t)(end - at - 1) }, name))
			return true;
	return false;
}

static void
look_inside(
    struct findings *f, struct str name, const char *sniffed, struct str bytes)
{
	if (strcmp(sniffed, "old Office document") == 0) {
		if (HAS(bytes, WIDE_VBA))
			findings_add(f, FINDING_FILE_MACRO, name);
		if (HAS(bytes, WIDE_PACKAGE))
			findings_add(f, FINDING_FILE_ENCRYPTED, name);
	} else if (strcmp(sniffed, "PDF document") == 0) {
		if (has_pdf_name(bytes, "Encrypt"))
			findings_add(f, FINDING_FILE_ENCRYPTED, name);
		if (has_pdf_name(bytes, "JavaScript") ||
		    has_pdf_name(bytes, "Launch"))
			findings_add(f, FINDING_FILE_MACRO, name);
	} else if (strcmp(sniffed, "RTF document") == 0) {
		if (HAS(bytes, "\\objdata"))
			findings_add(f, FINDING_FILE_MACRO, name);
	} else if (HAS(bytes, "vbaProject.bin")) {
		findings_add(f, FINDING_FILE_MACRO, name);
	}
}

static bool
starts(struct str bytes, const char *with)
{
	return str_starts(bytes, str_of(with));
}

static bool
ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n > m && strcasecmp(name + n - m, with) == 0;
}

/* Envelopes: of S/MIME by their object identifiers (RFC 5652), PGP, age. */
static void
look_encrypted(struct findings *f, struct str shown, const char *name,
    const char *type, struct str bytes)
{
	struct str head = { bytes.p, bytes.n < 64 ? bytes.n : 64 };

	if (starts(bytes, PGP_BEGIN) || starts(bytes, "age-encryption.org/") ||
	    starts(bytes, "Salted__") || ends(name, ".gpg") ||
	    ends(name, ".pgp") || HAS(head, PKCS "\x07\x03") ||
	    HAS(head, PKCS "\x07\x06") || HAS(head, PKCS "\x09\x10\x01\x17"))
		findings_add(f, FINDING_FILE_ENCRYPTED, shown);
	else if (strstr(type, "pkcs7-mime") != NULL)
		findings_add(f, FINDING_FILE_UNREAD, shown);
}

void
findings_file(struct findings *f, const char *name, const char *type,
    const char *sniffed, struct str bytes)
{
	struct str shown = name[0] != '\0' ? str_of(name) : str_of(type);

	finding_search_file(str_of(name), type, findings_add, f);
	if (strstr(sniffed, "program") != NULL)
		findings_add(f, FINDING_FILE_PROGRAM, shown);
	look_inside(f, shown, sniffed, bytes);
	look_encrypted(f, shown, name, type, bytes);
	if (strcmp(sniffed, "text") == 0 ||
	    strcmp(sniffed, "HTML, SVG or XML") == 0)
		findings_text(f, bytes);
}

/* ---- domains */

static const char *const well_known[] = { "amazon.com", "apple.com",
	"bankofamerica.com", "chase.com", "dhl.com", "docusign.com",
	"docusign.net", "dropbox.com", "facebook.com", "fedex.com",
	"github.com", "gmail.com", "google.com", "hotmail.com", "icloud.com",
	"linkedin.com", "microsoft.com", "netflix.com", "office.com",
	"outlook.com", "paypal.com", "stripe.com", "ups.com", "whatsapp.com",
	"yahoo.com" };

void
findings_domain(struct findings *f, struct str domain)
{
	char name[256];
	size_t i;

	if (!address_domain_canonical(name, domain))
		return;
	for (i = 0; i < f->domains; i++)
		if (strcmp(f->domain[i], name) == 0)
			return;
	if (f->domains < FINDINGS_DOMAINS)
		f->domain[f->domains++] = arena_strdup(f->mem, name);
}

/* "xn--... reads as ..." */
static void
tell_reading(struct findings *f, const char *domain)
{
	char reads[256], line[600];

	if (!finding_domain_reads(reads, domain))
		return;
	(void)snprintf(line, sizeof(line), "%s reads %s", domain, reads);
	findings_add(f, FINDING_DOMAIN_IDN, str_of(line));
	if (finding_domain_mixed(str_of(domain)))
		findings_add(f, FINDING_DOMAIN_MIXED, str_of(line));
}

static void
tell_like(struct findings *f, const char *domain, const char *other)
{
	char line[600];

	(void)snprintf(line, sizeof(line), "%s looks like %s", domain, other);
	findings_add(f, FINDING_DOMAIN_LOOKALIKE, str_of(line));
}

/* The last labels of a host, as many as `of` has: "login.a.b" for "x.y". */
static const char *
same_depth(const char *domain, const char *of)
{
	const char *p = domain + strlen(domain);
	int dots = 0;

	for (; *of != '\0'; of++)
		dots += *of == '.';
	while (p > domain) {
		if (p[-1] == '.' && dots-- == 0)
			break;
		p--;
	}
	return p;
}

static void
compare_known(
    struct findings *f, const struct finding_spoof *spoof, const char *domain)
{
	const char *owned;
	size_t i;

	for (i = 0; i < sizeof(well_known) / sizeof(well_known[0]); i++) {
		owned = same_depth(domain, well_known[i]);
		if (finding_spoof_like(spoof, owned, well_known[i]) ||
		    finding_domain_alike(str_of(owned), str_of(well_known[i])))
			tell_like(f, domain, well_known[i]);
	}
}

void
findings_compare_domains(struct findings *f, struct str own)
{
	struct finding_spoof *spoof = finding_spoof_new();
	char mine[256];
	size_t i, j;

	if (!address_domain_canonical(mine, own))
		mine[0] = '\0';
	for (i = 0; i < f->domains; i++) {
		const char *d = f->domain[i];

		tell_reading(f, d);
		if (finding_domain_near(str_of(d), str_of(mine)) ||
		    (spoof != NULL && finding_spoof_like(spoof, d, mine)))
			tell_like(f, d, mine);
		for (j = 0; j < i; j++)
			if (finding_domain_near(
				str_of(d), str_of(f->domain[j])) ||
			    (spoof != NULL &&
				finding_spoof_like(spoof, d, f->domain[j])))
				tell_like(f, d, f->domain[j]);
		if (spoof != NULL)
			compare_known(f, spoof, d);
	}
	finding_spoof_free(spoof);
}
