/* SPDX-License-Identifier: ISC */
#include "decode/charset.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define NONE ((iconv_t)-1)

/* What is opened, and the names it goes by, separated by spaces. */
static const struct entry {
	const char *iconv, *names;
} entries[] = {
	{ "UTF-8",
	    "utf-8 utf8 us-ascii ascii unicode-1-1-utf-8 ansi_x3.4-1968" },
	{ "UTF-16BE", "utf-16be utf-16" },
	{ "UTF-16LE", "utf-16le" },
	{ "CP1252",
	    "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 "
	    "latin1 l1 cp819 ibm819" },
	{ "ISO-8859-2", "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2" },
	{ "ISO-8859-3", "iso-8859-3 iso8859-3 latin3" },
	{ "ISO-8859-4", "iso-8859-4 iso8859-4 latin4" },
	{ "ISO-8859-5", "iso-8859-5 iso8859-5 cyrillic" },
	{ "ISO-8859-6", "iso-8859-6 iso8859-6 arabic" },
	{ "ISO-8859-7", "iso-8859-7 iso8859-7 greek" },
	{ "ISO-8859-8", "iso-8859-8 iso8859-8 iso-8859-8-i hebrew" },
	{ "ISO-8859-10", "iso-8859-10 iso8859-10 latin6" },
	{ "ISO-8859-13", "iso-8859-13 iso8859-13" },
	{ "ISO-8859-14", "iso-8859-14 iso8859-14" },
	{ "ISO-8859-15", "iso-8859-15 iso8859-15 latin9 latin-9" },
	{ "ISO-8859-16", "iso-8859-16 iso8859-16" },
	{ "CP1250", "windows-1250 cp1250 x-cp1250" },
	{ "CP1251", "windows-1251 cp1251 x-cp1251" },
	{ "CP1253", "windows-1253 cp1253 x-cp1253" },
	{ "CP1254", "windows-1254 cp1254 iso-8859-9 iso8859-9 latin5" },
	{ "CP1255", "windows-1255 cp1255" },
	{ "CP1256", "windows-1256 cp1256" },
	{ "CP1257", "windows-1257 cp1257" },
	{ "CP1258", "windows-1258 cp1258" },
	{ "CP874", "windows-874 tis-620 iso-8859-11" },
	{ "CP866", "ibm866 cp866" },
	{ "KOI8-R", "koi8-r koi8 koi" },
	{ "KOI8-U", "koi8-u koi8-ru" },
	{ "MACINTOSH", "macintosh x-mac-roman mac" },
	{ "CP932", "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j cp932 "
		   "csshiftjis" },
	{ "EUC-JP-MS", "euc-jp x-euc-jp cseucpkdfmtjapanese" },
	{ "ISO-2022-JP", "iso-2022-jp csiso2022jp" },
	{ "UHC", "euc-kr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 korean "
		 "windows-949 cp949 uhc cseuckr" },
	{ "GB18030",
	    "gb18030 gbk gb2312 gb_2312 gb_2312-80 x-gbk chinese euc-cn cp936 "
	    "windows-936" },
	{ "BIG5-HKSCS", "big5 big5-hkscs big-5 x-x-big5 cn-big5 csbig5 cp950" },
	{ "EUC-TW", "euc-tw" },
};

#define COUNT (sizeof(entries) / sizeof(entries[0]))

static struct charset opened[COUNT];

void
charset_open_all(void)
{
	size_t i;

	for (i = 0; i < COUNT; i++) {
		opened[i].to_utf8 = iconv_open("UTF-8", entries[i].iconv);
		opened[i].unit =
		    strncmp(entries[i].iconv, "UTF-16", 6) == 0 ? 2 : 1;
	}
}

void
charset_close_all(void)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		if (opened[i].to_utf8 != NONE)
			(void)iconv_close(opened[i].to_utf8);
}

static bool
has_name(const char *names, const char *name, size_t n)
{
	size_t len;

	for (;;) {
		len = strcspn(names, " ");
		if (len == n && strncasecmp(names, name, n) == 0)
			return true;
		if (names[len] == '\0')
			return false;
		names += len + 1;
	}
}

static const struct charset *
find(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		if (has_name(entries[i].names, name, n))
			return opened[i].to_utf8 != NONE ? &opened[i] : NULL;
	return NULL;
}

static bool
starts(const unsigned char *text, size_t n, const char *mark, size_t len)
{
	return n >= len && memcmp(text, mark, len) == 0;
}

const struct charset *
charset_find(const char *name, size_t n, const unsigned char *text,
    size_t text_n, size_t *mark)
{
	bool utf16 = n == 6 && strncasecmp(name, "utf-16", 6) == 0;
	const struct charset *c = find(name, n);

	*mark = 0;
	if (utf16 && starts(text, text_n, "\xfe\xff", 2)) {
		*mark = 2;
	} else if (utf16 && starts(text, text_n, "\xff\xfe", 2)) {
		*mark = 2;
		c = find("utf-16le", 8);
	} else if (c == &opened[0] && starts(text, text_n, "\xef\xbb\xbf", 3)) {
		*mark = 3;
	}
	return c;
}
