/* SPDX-License-Identifier: ISC */
/*
 * charset.h - the charsets that postern-decode knows, opened ahead
 *
 * glibc loads a converter from a file when it is first asked for, so all are
 * opened before the sandbox closes; later a name is only looked up, never
 * opened. Names follow what mail programs mean by them (the WHATWG table):
 * "shift_jis" is windows-31j, "iso-8859-1" is windows-1252. UTF-7, HZ,
 * ISO-2022-KR and ISO-2022-CN are left out: they hide ASCII in ASCII, and
 * their converters have had holes.
 */
#ifndef DECODE_CHARSET_H
#define DECODE_CHARSET_H

#include <iconv.h>
#include <stddef.h>

struct charset {
	iconv_t to_utf8;
	size_t unit; /* bytes to skip at a wrong one */
};

/* Once. A converter that this system lacks is then not found. */
void charset_open_all(void);
void charset_close_all(void);

/*
 * NULL: not known. `name` as declared, in any case, `n` bytes. For UTF-16
 * the mark at the start of the text says which, big-endian without one (RFC
 * 2781 4.3). `mark` is how many bytes of text the mark takes.
 */
const struct charset *charset_find(const char *name, size_t n,
    const unsigned char *text, size_t text_n, size_t *mark);

#endif
