/* SPDX-License-Identifier: ISC */
/*
 * finding_domain.c - domains that pose as others, as far as small tables go.
 *
 * The tables of confusable letters of all scripts are large; who opens a
 * message has them (see admin/), the hot path does not.
 */
#include "mail/finding.h"

#include <stdlib.h>
#include <string.h>

#include <idn2.h>
#include <unicode/uscript.h>

#include "mail/address.h"
#include "mail/header.h"

#define NEAR_MIN 5 /* letters of a name; shorter ones have real neighbours */

/* ---- scripts */

enum {
	LATIN = 1,
	HAN = 2,
	KANA = 4,
	HANGUL = 8,
	BOPOMOFO = 16,
	FIRST_OTHER = 32,
};

struct scripts {
	unsigned seen;
	UScriptCode other; /* the first of the remaining ones */
	bool many; /* and there was another */
};

static void
see(struct scripts *s, int32_t c)
{
	UErrorCode err = U_ZERO_ERROR;
	UScriptCode code = uscript_getScript(c, &err);

	if (code == USCRIPT_COMMON || code == USCRIPT_INHERITED)
		return;
	if (code == USCRIPT_LATIN) {
		s->seen |= LATIN;
	} else if (code == USCRIPT_HAN) {
		s->seen |= HAN;
	} else if (code == USCRIPT_HIRAGANA || code == USCRIPT_KATAKANA) {
		s->seen |= KANA;
	} else if (code == USCRIPT_HANGUL) {
		s->seen |= HANGUL;
	} else if (code == USCRIPT_BOPOMOFO) {
		s->seen |= BOPOMOFO;
	} else {
		s->many |= (s->seen & FIRST_OTHER) != 0 && s->other != code;
		s->seen |= FIRST_OTHER;
		s->other = code;
	}
}

/* The mixtures of UTS 39, "highly restrictive", are none. */
static bool
label_mixed(struct str label)
{
	struct scripts s = { 0 };
	unsigned seen;

	while (label.n > 0)
		see(&s, utf8_next(&label));
	seen = s.seen;
	if (s.many || ((seen & FIRST_OTHER) != 0 && seen != FIRST_OTHER))
		return true;
	return (seen & ~(unsigned)(LATIN | HAN | KANA)) != 0 &&
	       (seen & ~(unsigned)(LATIN | HAN | HANGUL)) != 0 &&
	       (seen & ~(unsigned)(LATIN | HAN | BOPOMOFO)) != 0 &&
	       seen != FIRST_OTHER;
}

static bool
name_mixed(struct str name)
{
	while (name.n > 0)
		if (label_mixed(str_split(&name, '.')))
			return true;
	return false;
}

bool
finding_domain_mixed(struct str domain)
{
	char name[256], *wide = NULL;
	bool mixed;

	if (domain.n >= sizeof(name))
		return false;
	if (str_has_8bit(domain))
		return name_mixed(domain);
	memcpy(name, domain.p, domain.n);
	name[domain.n] = '\0';
	if (strstr(name, "xn--") == NULL ||
	    idn2_to_unicode_8z8z(name, &wide, IDN2_NO_TR46) != IDN2_OK)
		return false;
	mixed = name_mixed(str_of(wide));
	idn2_free(wide);
	return mixed;
}

/* ---- neighbours */

/* Under each of these anybody may have a name. */
static bool
is_shared(struct str d)
{
	static const char *const shared[] = { "github.io", "gitlab.io",
		"pages.dev", "workers.dev", "web.app", "firebaseapp.com",
		"appspot.com", "netlify.app", "vercel.app", "herokuapp.com",
		"onrender.com", "azurewebsites.net", "windows.net",
		"cloudfront.net", "amazonaws.com", "blogspot.com",
		"wordpress.com", "weebly.com", "wixsite.com", "myshopify.com",
		"duckdns.org", "ngrok.io", "trycloudflare.com", "r2.dev" };
	size_t i;

	for (i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (str_ieq(d, str_of(shared[i])))
			return true;
	return false;
}

/*
 * Where the part of `d` begins that somebody owns: the last two labels, or
 * three under what looks like "co.uk" or "com.au", or is shared.
 */
static size_t
owned(struct str d)
{
	static const char *const shared[] = { "co", "com", "org", "net", "ac",
		"edu", "gov", "ne", "or", "go" };
	size_t i, dot[3] = { d.n, d.n, d.n }, dots = 0;
	struct str second;

	for (i = d.n; i > 0 && dots < 3; i--)
		if (d.p[i - 1] == '.')
			dot[dots++] = i - 1;
	if (dots < 2)
		return 0;
	second = (struct str){ d.p + dot[1] + 1, dot[0] - dot[1] - 1 };
	for (i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (d.n - dot[0] == 3 && str_ieq(second, str_of(shared[i])))
			return dots == 3 ? dot[2] + 1 : 0;
	if (is_shared((struct str){ d.p + dot[1] + 1, d.n - dot[1] - 1 }))
		return dots == 3 ? dot[2] + 1 : 0;
	return dot[1] + 1;
}

static struct str
from(struct str s, size_t at)
{
	return (struct str){ s.p + at, s.n - at };
}

bool
finding_domain_same(struct str a, struct str b)
{
	return str_ieq(from(a, owned(a)), from(b, owned(b)));
}

/* One letter more, less, other, or two exchanged. */
static bool
one_edit(struct str a, struct str b)
{
	size_t i = 0, j = 0, n = a.n < b.n ? a.n : b.n;

	while (i < n && a.p[i] == b.p[i])
		i++;
	while (j < n - i && a.p[a.n - 1 - j] == b.p[b.n - 1 - j])
		j++;
	if (a.n == b.n)
		return i + j + 1 == n ||
		       (i + j + 2 == n && a.p[i] == b.p[i + 1] &&
			   a.p[i + 1] == b.p[i]);
	return a.n - i - j <= 1 && b.n - i - j <= 1;
}

/* As the eye reads it: rn is m, vv w, 0 o, 1 and i l. */
static size_t
fold(char out[256], struct str s)
{
	size_t i, n = 0;

	for (i = 0; i < s.n && n < 255; i++) {
		char next = i + 1 < s.n ? s.p[i + 1] : '\0';

		if ((s.p[i] == 'r' && next == 'n') ||
		    (s.p[i] == 'v' && next == 'v')) {
			out[n++] = s.p[i] == 'r' ? 'm' : 'w';
			i++;
		} else if (s.p[i] == '0') {
			out[n++] = 'o';
		} else if (s.p[i] == '1' || s.p[i] == 'i') {
			out[n++] = 'l';
		} else {
			out[n++] = s.p[i];
		}
	}
	return n;
}

static bool
same_to_the_eye(struct str a, struct str b)
{
	char x[256], y[256];
	size_t n = fold(x, a), m = fold(y, b);

	return n == m && memcmp(x, y, n) == 0;
}

bool
finding_domain_alike(struct str a, struct str b)
{
	return a.n < 256 && b.n < 256 && !str_eq(a, b) && same_to_the_eye(a, b);
}

/* ".co", ".cm" and ".om" are bought to catch slips of ".com". */
static bool
com_slip(struct str a, struct str b)
{
	static const char *const slips[] = { "co", "cm", "om" };
	size_t i;

	if (!str_eq(a, str_lit("com")))
		return false;
	for (i = 0; i < sizeof(slips) / sizeof(slips[0]); i++)
		if (str_eq(b, str_of(slips[i])))
			return true;
	return false;
}

bool
finding_domain_near(struct str a, struct str b)
{
	struct str top_a, top_b, name_a, name_b;

	top_a = from(a, owned(a));
	top_b = from(b, owned(b));
	if (top_a.n > top_b.n + 3 || top_b.n > top_a.n + 3)
		return false;
	if (str_eq(top_a, top_b))
		return false; /* the same owner */
	name_a = str_split(&top_a, '.');
	name_b = str_split(&top_b, '.');
	if (str_eq(name_a, name_b))
		return com_slip(top_a, top_b) || com_slip(top_b, top_a);
	if (!str_eq(top_a, top_b))
		return false;
	if (name_a.n + 1 < NEAR_MIN || name_b.n + 1 < NEAR_MIN)
		return false;
	return same_to_the_eye(name_a, name_b) ||
	       (name_a.n >= NEAR_MIN && name_b.n >= NEAR_MIN &&
		   one_edit(name_a, name_b));
}

void
finding_search_domain(
    struct str domain, struct str own, finding_fn *fn, void *arg)
{
	if (memmem(domain.p, domain.n, "xn--", 4) != NULL) {
		fn(arg, FINDING_DOMAIN_IDN, domain);
		if (finding_domain_mixed(domain))
			fn(arg, FINDING_DOMAIN_MIXED, domain);
	}
	if (finding_domain_near(domain, own))
		fn(arg, FINDING_DOMAIN_LOOKALIKE, domain);
}

/* ---- addresses */

void
finding_search_rcpt(struct str rcpt, struct str own, finding_fn *fn, void *arg)
{
	const char *at = memrchr(rcpt.p, '@', rcpt.n);
	char domain[256];
	size_t n;

	if (at == NULL)
		return;
	n = rcpt.n - (size_t)(at + 1 - rcpt.p);
	if (n >= sizeof(domain))
		return;
	memcpy(domain, at + 1, n);
	str_lower(domain, n);
	if (str_has_8bit((struct str){ domain, n })) {
		if (!address_domain_canonical(
			domain, (struct str){ at + 1, n }))
			return;
		n = strlen(domain);
	}
	finding_search_domain((struct str){ domain, n }, own, fn, arg);
}

/* Is one the other, or a host below it? */
static bool
same_house(struct str a, struct str b)
{
	if (a.n < b.n)
		return same_house(b, a);
	return str_eq(from(a, a.n - b.n), b) &&
	       (a.n == b.n || a.p[a.n - b.n - 1] == '.');
}

void
finding_search_reply(const struct address *reply, const struct address *own,
    finding_fn *fn, void *arg)
{
	struct str theirs = address_domain(reply), ours = address_domain(own);

	if (address_eq(reply, own))
		return;
	if (same_house(theirs, ours)) {
		fn(arg, FINDING_REPLY_MAILBOX, str_of(reply->wire));
		return;
	}
	fn(arg, FINDING_REPLY_DOMAIN, str_of(reply->wire));
	finding_search_domain(theirs, ours, fn, arg);
}
