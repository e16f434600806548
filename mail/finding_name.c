/* SPDX-License-Identifier: ISC */
/*
 * finding_name.c - what names say: subjects, names of people and of files.
 */
#include "mail/finding.h"

#include <string.h>

#include "mail/header.h"

#define GAP_MAX 4 /* spaces in a row; more push the ending out of sight */

static bool
is_alpha(int32_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Turns text, or is never seen, in any script. */
static bool
is_deceiving(int32_t c)
{
	return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
	       c == 0x200b || (c >= 0x2060 && c <= 0x2064) || c == 0xfeff ||
	       c == 0x180e || (c >= 0xe0000 && c <= 0xe007f) || c == 0x3164 ||
	       c == 0x115f || c == 0x1160 || c == 0xffa0;
}

/* Has its use between letters of some scripts, none between a and z. */
static bool
is_joiner(int32_t c)
{
	return c == 0x200c || c == 0x200d || c == 0xad;
}

static bool
deceives(struct str text)
{
	int32_t c = ' ', last = ' ', joined = ' ';

	if (!str_has_8bit(text))
		return false;
	while (text.n > 0) {
		c = utf8_next(&text);
		if (c == 0x1f3f4) { /* flags of regions */
			while (text.n > 0 && (unsigned char)*text.p == 0xf3)
				(void)utf8_next(&text);
			last = c;
			continue;
		}
		if (is_deceiving(c))
			return true;
		if (is_joiner(c)) {
			joined = is_joiner(last) ? joined : last;
		} else if (is_joiner(last) && is_alpha(joined) && is_alpha(c)) {
			return true;
		}
		last = c;
	}
	return false;
}

void
finding_search_header(struct str text, finding_fn *fn, void *arg)
{
	if (deceives(text))
		fn(arg, FINDING_HEADER_CHARACTERS, text);
}

/* Endings, each between spaces. */
static const char runs[] =
    " exe scr com pif bat cmd ps1 psm1 vbs vbe js jse wsf wsh hta msi msp msix "
    "appx jar cpl dll lnk url scf reg inf sct gadget application appref-ms "
    "iso img vhd vhdx dmg pkg apk deb rpm run sh bash command desktop chm "
    "library-ms search-ms settingcontent-ms xll one py pyw pl rb slk iqy rdp "
    "wsc ws msc jnlp diagcab crx xpi ade adp mde accde ";
static const char pages[] = " html htm xhtml xht shtml svg svgz mht mhtml ";
static const char macros[] = " docm dotm xlsm xltm xlam xla xlsb pptm potm "
			     "ppam ppa ppsm sldm wll ";
static const char archives[] = " zip rar 7z gz tgz tar bz2 xz zst cab ace arj "
			       "lzh lha z ";

/* What stands behind the last dot; empty when nothing does. */
static struct str
ending(struct str name)
{
	size_t i;

	while (name.n > 0 && strchr(". \t", name.p[name.n - 1]) != NULL)
		name.n--;
	for (i = name.n; i > 0 && name.p[i - 1] != '.'; i--)
		;
	return i > 0 ? (struct str){ name.p + i, name.n - i }
		     : (struct str){ name.p, 0 };
}

bool
finding_name_runs(struct str name)
{
	return finding_listed(runs, ending(name));
}

bool
finding_name_packs(struct str name)
{
	struct str end = ending(name);

	return finding_listed(archives, end) || str_ieq(end, str_lit("iso")) ||
	       str_ieq(end, str_lit("jar"));
}

static bool
has_gap(struct str name)
{
	size_t i, n = 0;

	for (i = 0; i < name.n; i++) {
		n = name.p[i] == ' ' || name.p[i] == '\t' ? n + 1 : 0;
		if (n > GAP_MAX)
			return true;
	}
	return false;
}

/* "../x", "/x", "c:\\x": a careless program puts it there. */
static bool
leads_out(struct str name)
{
	return memmem(name.p, name.n, "../", 3) != NULL ||
	       memmem(name.p, name.n, "..\\", 3) != NULL ||
	       (name.n > 0 && (name.p[0] == '/' || name.p[0] == '\\')) ||
	       (name.n > 2 && name.p[1] == ':' && name.p[2] == '\\');
}

/* What had no character or was a control, where a program may end the name. */
static bool
has_no_character(struct str name)
{
	return memmem(name.p, name.n, "\xef\xbf\xbd", 3) != NULL;
}

bool
finding_name_deceives(struct str name)
{
	return name.n > 0 && (deceives(name) || has_gap(name) ||
				 leads_out(name) || has_no_character(name));
}

static bool
type_is(const char *type, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(type, *list) == 0)
			return true;
	return false;
}

void
finding_search_file(
    struct str name, const char *type, finding_fn *fn, void *arg)
{
	static const char *const program[] = { "application/x-msdownload",
		"application/x-dosexec", "application/x-executable",
		"application/x-sh", "application/x-msi",
		"application/vnd.microsoft.portable-executable",
		"application/java-archive", "application/x-ms-shortcut",
		"application/javascript", "text/javascript",
		"application/vnd.android.package-archive", NULL };
	static const char *const page[] = { "text/html", "image/svg+xml",
		"application/xhtml+xml", NULL };
	static const char *const archive[] = { "application/zip",
		"application/x-zip-compressed", "application/vnd.rar",
		"application/x-rar-compressed", "application/x-7z-compressed",
		"application/gzip", "application/x-gzip", "application/x-tar",
		NULL };
	struct str end = ending(name);

	if (finding_name_deceives(name))
		fn(arg, FINDING_FILE_NAME, name);
	if (finding_listed(runs, end) || type_is(type, program))
		fn(arg, FINDING_FILE_PROGRAM, name);
	else if (finding_listed(macros, end) ||
		 strstr(type, "macroenabled") != NULL)
		fn(arg, FINDING_FILE_MACRO, name);
	else if (finding_listed(pages, end) || type_is(type, page))
		fn(arg, FINDING_FILE_PAGE, name);
	else if (finding_listed(archives, end) || type_is(type, archive))
		fn(arg, FINDING_FILE_ARCHIVE, name);
}
