/* SPDX-License-Identifier: ISC */
/*
 * sniff.c - what a file is, by its first bytes and not by what it says
 */
#include <string.h>

#include "admin/message_read.h"
#include "mail/header.h"

struct magic {
	const char *what;
	size_t at, n;
	const char *bytes;
	const char *types; /* declared types that agree, comma separated */
};

#define ANY_ZIP                                                                \
	"application/zip,application/x-zip-compressed,"                        \
	"application/vnd.openxmlformats,application/vnd.oasis,"                \
	"application/epub+zip,application/java-archive"

static const struct magic magics[] = {
	{ "PDF document", 0, 5, "%PDF-", "application/pdf" },
	{ "PNG image", 0, 8, "\x89PNG\r\n\x1a\n", "image/png" },
	{ "JPEG image", 0, 3, "\xff\xd8\xff", "image/jpeg,image/jpg" },
	{ "GIF image", 0, 4, "GIF8", "image/gif" },
	{ "WebP image", 8, 4, "WEBP", "image/webp" },
	{ "ZIP archive or Office document", 0, 4, "PK\x03\x04", ANY_ZIP },
	{ "gzip archive", 0, 2, "\x1f\x8b",
	    "application/gzip,application/x-gzip,application/x-tar" },
	{ "7-Zip archive", 0, 6, "7z\xbc\xaf\x27\x1c",
	    "application/x-7z-compressed" },
	{ "RAR archive", 0, 4, "Rar!",
	    "application/vnd.rar,application/x-rar-compressed" },
	{ "old Office document", 0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
	    "application/msword,application/vnd.ms-excel,"
	    "application/vnd.ms-powerpoint,application/vnd.ms-outlook" },
	{ "RTF document", 0, 5, "{\\rtf", "application/rtf,text/rtf" },
	{ "Windows program", 0, 2, "MZ",
	    "application/x-msdownload,application/vnd.microsoft."
	    "portable-executable" },
	{ "Linux program", 0, 4,
	    "\x7f"
	    "ELF",
	    "application/x-executable,application/x-sharedlib" },
	{ "script", 0, 2, "#!", "text/x-,application/x-sh" },
	{ "disk image or video", 4, 4, "ftyp", "video/mp4,video/quicktime" },
	{ "MP3 audio", 0, 3, "ID3", "audio/mpeg" },
	{ "SQLite database", 0, 15, "SQLite format 3",
	    "application/vnd.sqlite3,application/x-sqlite3" },
};

static bool
istarts_with_tag(struct str s)
{
	static const char *const tags[] = { "<!doctype html", "<html", "<head",
		"<body", "<script", "<svg", "<?xml" };
	size_t i;

	while (s.n > 0 && strchr(" \t\r\n", *s.p) != NULL) {
		s.p++;
		s.n--;
	}
	for (i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (str_istarts(s, str_of(tags[i])))
			return true;
	return false;
}

const char *
sniff_type(struct str bytes)
{
	struct str head = { bytes.p, bytes.n < 4096 ? bytes.n : 4096 };
	size_t i;

	if (bytes.n == 0)
		return "empty";
	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (bytes.n >= m->at + m->n &&
		    memcmp(bytes.p + m->at, m->bytes, m->n) == 0)
			return m->what;
	}
	if (istarts_with_tag(head))
		return "HTML, SVG or XML";
	if (memchr(head.p, '\0', head.n) == NULL &&
	    (utf8_valid(head) || head.n == 4096))
		return "text";
	return "unknown bytes";
}

/* Is `type` in the list, or does it begin as one of its entries ends? */
static bool
listed(const char *list, const char *type)
{
	struct str rest = str_of(list);

	while (rest.n > 0)
		if (str_istarts(str_of(type), str_split(&rest, ',')))
			return true;
	return false;
}

/* Programs and scripts hide behind names: what runs is never in agreement. */
bool
sniff_agrees(const char *declared, const char *name, const char *sniffed)
{
	size_t i;

	(void)name;
	if (strcmp(declared, "application/octet-stream") == 0)
		return strstr(sniffed, "program") == NULL;
	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (strcmp(magics[i].what, sniffed) == 0)
			return listed(magics[i].types, declared);
	if (strcmp(sniffed, "HTML, SVG or XML") == 0)
		return listed(
		    "text/html,image/svg+xml,text/xml,"
		    "application/xml,application/xhtml+xml,text/plain",
		    declared);
	if (strcmp(sniffed, "text") == 0)
		return listed("text/,application/json,message/,"
			      "application/x-ndjson,application/ics,"
			      "application/pgp,application/pkcs7",
		    declared);
	/* nothing is known of the bytes: only types we would know disagree */
	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (listed(magics[i].types, declared))
			return false;
	return strncmp(declared, "text/", 5) != 0;
}
