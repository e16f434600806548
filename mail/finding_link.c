/* SPDX-License-Identifier: ISC */
/*
 * finding_link.c - where a link says it leads, and where it does.
 */
#include "mail/finding.h"

#include <string.h>

static bool
is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct str
skip(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.n - n };
}

/* Letters before a colon; empty when it has no scheme. */
static struct str
scheme_of(struct str s)
{
	size_t i;

	for (i = 0; i < s.n; i++) {
		if (s.p[i] == ':')
			return (struct str){ s.p, i };
		if (!is_alpha(s.p[i]) && s.p[i] != '-' && s.p[i] != '+' &&
		    !(i > 0 && s.p[i] >= '0' && s.p[i] <= '9'))
			break;
	}
	return (struct str){ s.p, 0 };
}

/* Up to the first of `stop`. */
static struct str
until(struct str s, const char *stop)
{
	size_t i;

	for (i = 0; i < s.n; i++)
		if (strchr(stop, s.p[i]) != NULL)
			break;
	return (struct str){ s.p, i };
}

static bool
is_web(struct str scheme)
{
	return str_ieq(scheme, str_lit("http")) ||
	       str_ieq(scheme, str_lit("https")) ||
	       str_ieq(scheme, str_lit("ftp"));
}

/* "user@host:port" of a web address; programs take '\' for '/'. */
static struct str
authority_of(struct str s)
{
	struct str scheme = scheme_of(s);

	if (is_web(scheme))
		s = skip(s, scheme.n + 1);
	else if (scheme.n > 0)
		return (struct str){ s.p, 0 };
	if (s.n < 2 || strchr("/\\", s.p[0]) == NULL ||
	    strchr("/\\", s.p[1]) == NULL)
		return (struct str){ s.p, 0 };
	while (s.n > 0 && strchr("/\\", s.p[0]) != NULL)
		s = skip(s, 1);
	return until(s, "/\\?# \t");
}

struct str
finding_link_host(struct str target)
{
	struct str host = authority_of(target);
	const char *at = memrchr(host.p, '@', host.n);

	if (at != NULL)
		host = skip(host, (size_t)(at + 1 - host.p));
	if (host.n > 0 && host.p[0] == '[')
		return host;
	host = until(host, ":");
	while (host.n > 0 && host.p[host.n - 1] == '.')
		host.n--;
	return host;
}

/* "127.0.0.1", "2130706433", "0x7f.1", "[::1]". */
static bool
is_number(struct str host)
{
	struct str rest = host, label = { NULL, 0 };
	size_t i;

	if (host.n > 0 && host.p[0] == '[')
		return true;
	while (rest.n > 0)
		label = str_split(&rest, '.');
	if (label.n == 0)
		return false;
	if (label.n > 1 && label.p[0] == '0' &&
	    (label.p[1] == 'x' || label.p[1] == 'X'))
		return true;
	for (i = 0; i < label.n; i++)
		if (label.p[i] < '0' || label.p[i] > '9')
			return false;
	return true;
}

static bool
is_odd(struct str target)
{
	static const char *const schemes[] = { "javascript", "vbscript", "data",
		"file", "blob", "jar", "view-source" };
	struct str scheme = scheme_of(target), host;
	size_t i;

	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (str_ieq(scheme, str_of(schemes[i])))
			return true;
	if (str_istarts(scheme, str_lit("ms-")) ||
	    str_istarts(scheme, str_lit("search-ms")))
		return true;
	host = authority_of(target);
	return memchr(host.p, '@', host.n) != NULL ||
	       is_number(finding_link_host(target));
}

/* Endings of files that are also endings of domains. */
static bool
is_file_ending(struct str label)
{
	static const char *const endings[] = { "md", "js", "py", "sh", "rs",
		"pl", "ps", "ai", "cc", "so", "zip", "mov", "net" };
	size_t i;

	for (i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (str_ieq(label, str_of(endings[i])))
			return true;
	return false;
}

/* A host without scheme, as people write it: "shop.example/x". */
static struct str
bare_host(struct str s)
{
	struct str host = until(s, "/?#:"), rest = host, label = { NULL, 0 };
	struct str none = { s.p, 0 };
	bool www = str_istarts(host, str_lit("www."));
	size_t i, labels = 0;

	for (i = 0; i < host.n; i++)
		if (!(host.p[i] >= 'a' && host.p[i] <= 'z') &&
		    !(host.p[i] >= '0' && host.p[i] <= '9') &&
		    host.p[i] != '-' && host.p[i] != '.' && host.p[i] >= 0)
			return none;
	while (rest.n > 0) {
		label = str_split(&rest, '.');
		if (label.n == 0)
			return none;
		labels++;
	}
	if (labels < 2 || label.n < 2)
		return none;
	for (i = 0; i < label.n; i++)
		if (label.p[i] >= '0' && label.p[i] <= '9')
			return none;
	return www || !is_file_ending(label) || host.n < s.n ? host : none;
}

/* The host that a link's text names, if it does. */
static struct str
shown_host(struct str text)
{
	struct str rest = text, word, host;
	bool one = memchr(text.p, ' ', text.n) == NULL;

	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		host = finding_link_host(word);
		if (host.n == 0 && (one || str_istarts(word, str_lit("www."))))
			host = bare_host(word);
		if (host.n > 0)
			return host;
	}
	return (struct str){ text.p, 0 };
}

static bool
mail_differs(struct str target, struct str text)
{
	struct str to = until(skip(target, strlen("mailto:")), "?");

	return memchr(text.p, '@', text.n) != NULL &&
	       memchr(text.p, ' ', text.n) == NULL && to.n > 0 &&
	       !str_ieq(to, text);
}

void
finding_search_link(
    struct str target, struct str text, finding_fn *fn, void *arg)
{
	struct str host = finding_link_host(target), shown;

	target = str_trim(target);
	text = str_trim(text);
	if (is_odd(target))
		fn(arg, FINDING_LINK_ODD, target);
	if (str_istarts(target, str_lit("mailto:"))) {
		if (mail_differs(target, text))
			fn(arg, FINDING_LINK_MISMATCH, target);
		return;
	}
	shown = shown_host(text);
	if (host.n > 0 && shown.n > 0 && !finding_domain_same(host, shown))
		fn(arg, FINDING_LINK_MISMATCH, target);
}
