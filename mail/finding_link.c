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

/*
 * Endings of files, each between spaces. Some are endings of domains too, but
 * rare ones; ".pl", ".ai" and ".cc" are more often those of a host.
 */
static const char files[] =
    " md js py sh rs ps so zip mov pdf txt text log csv tsv json jsonl xml "
    "yaml "
    "yml toml ini conf cfg lock html htm xhtml css scss ts tsx jsx mjs java "
    "kt go rb php sql cpp hpp diff patch doc docx docm xls xlsx xlsm ppt pptx "
    "odt ods odp rtf tex epub eml msg ics vcf png jpg jpeg gif svg webp bmp "
    "tif tiff heic ico psd mp3 wav ogg flac mp4 webm avi mkv gz tgz bz2 xz tar "
    "rar iso exe msi dmg pkg deb rpm apk jar bat cmd dll bin dat db sqlite "
    "parquet ipynb bak tmp ";

/*
 * Endings that make a host of a word with capitals in it; those of `said` do
 * so in the middle of a sentence too.
 */
static const char known[] =
    " info biz name pro mobi app dev cloud online site shop store xyz top club "
    "live vip work tech email io ai co me tv cc us uk ca au nz ie se no dk fi "
    "cz sk hu ro bg gr pt tr ua ru kz il ae sa in id sg my th vn kr hk tw za "
    "mx ar cl pe mil int ";
static const char said[] =
    " com org net edu gov bank de fr it es nl ch at be pl eu br cn jp ";

/* Names of things, which nobody takes for hosts. */
static const char things[] = " asp.net ado.net vb.net ";

/* Brackets, quotes and stops around a word are not it. */
static struct str
bare(struct str s)
{
	while (s.n > 0 && strchr("(<[{\"'", s.p[0]) != NULL)
		s = skip(s, 1);
	while (s.n > 0 && strchr(".,;:!?)>]}\"'", s.p[s.n - 1]) != NULL)
		s.n--;
	return s;
}

/* The last label of what can be a host by its characters; else empty. */
static struct str
top_label(struct str host, bool *capitals)
{
	struct str rest = host, label = { NULL, 0 }, none = { host.p, 0 };
	size_t i, labels = 0;

	*capitals = false;
	for (i = 0; i < host.n; i++) {
		if (host.p[i] >= 'A' && host.p[i] <= 'Z')
			*capitals = true;
		else if (!is_alpha(host.p[i]) &&
			 !(host.p[i] >= '0' && host.p[i] <= '9') &&
			 host.p[i] != '-' && host.p[i] != '.' && host.p[i] >= 0)
			return none;
	}
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
	return label;
}

/*
 * A host without scheme, as people write it: "shop.example/x"; `alone`: it is
 * all of the link's text.
 */
static struct str
bare_host(struct str s, bool alone)
{
	struct str host = until(bare(s), "/?#:"), none = { s.p, 0 }, label;
	bool capitals;

	label = top_label(host, &capitals);
	if (label.n == 0)
		return none;
	if (str_istarts(host, str_lit("www.")))
		return host;
	if (finding_listed(things, host))
		return none;
	if (!alone)
		return finding_listed(said, label) && host.n - label.n > 3
			   ? host
			   : none;
	if (finding_listed(files, label))
		return host.n < bare(s).n ? host : none;
	if (capitals)
		return finding_listed(said, label) ||
			       finding_listed(known, label)
			   ? host
			   : none;
	return host;
}

/* The host that a link's text names, if it does. */
static struct str
shown_host(struct str text)
{
	struct str rest = text, word, host;
	bool one = memchr(text.p, ' ', text.n) == NULL;

	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		host = finding_link_host(bare(word));
		if (host.n == 0)
			host = bare_host(word, one);
		if (host.n > 0)
			return host;
	}
	return (struct str){ text.p, 0 };
}

/* Is `one` among addresses with commas between them? */
static bool
is_among(struct str list, struct str one)
{
	while (list.n > 0)
		if (str_ieq(str_trim(str_split(&list, ',')), one))
			return true;
	return false;
}

/* "Ann <ann@x.example>": the text names another address than the link. */
static bool
mail_differs(struct str target, struct str text)
{
	struct str to = until(skip(target, strlen("mailto:")), "?"), word;

	while (to.n > 0 && text.n > 0) {
		word = bare(str_split(&text, ' '));
		if (memchr(word.p, '@', word.n) != NULL && word.p[0] != '@' &&
		    !is_among(to, word))
			return true;
	}
	return false;
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
