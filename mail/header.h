/* SPDX-License-Identifier: ISC */
/*
 * header.h - a header section taken apart, and text in its fields.
 *
 * Views into the caller's bytes; nothing is copied. Strict: `name:` without
 * space before the colon, CRLF, no line above 998 bytes, no NUL, no
 * continuation line of white space alone, no field before the first name.
 */
#ifndef MAIL_HEADER_H
#define MAIL_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/errors.h"
#include "base/str.h"

#define HEADER_BYTES_MAX (100 * 1024)
#define HEADER_FIELDS_MAX 1000
#define HEADER_LINE_MAX 998 /* without CRLF */

struct header_field {
	struct str name;
	struct str value; /* after the colon, folds inside, no final CRLF */
	struct str raw; /* all of it with the final CRLF */
};

struct header {
	struct header_field *field;
	size_t count;
	bool has_8bit; /* some byte above 127 */
	bool is_utf8; /* and all of them are valid UTF-8 */
};

/*
 * `section` is what stands before the empty line, each field ending in CRLF.
 * False: `why` is set and `h` is empty. Release with header_free().
 */
bool header_parse(struct header *h, struct str section, const char **why);
void header_free(struct header *h);
/*
 * Take the next field off a section that was checked before: folds inside,
 * without its final line end, which may be CRLF or LF.
 */
struct str header_take_field(struct str *section);
/* The `nth` (0, 1, ..) field of that name in any case; NULL when none. */
const struct header_field *header_find(
    const struct header *h, const char *name, size_t nth);
size_t header_count(const struct header *h, const char *name);

/*
 * Is it that name, in any case? A '*' at the end of the pattern stands for any
 * rest.
 */
bool header_name_is(struct str name, const char *pattern);

/* Without white space and folds around it. */
struct str header_trim(struct str value);
/* Without folds, trimmed; bytes otherwise as they are. */
void header_unfold(struct buf *out, struct str value);
/*
 * For people: unfolded, encoded words in UTF-8, ASCII, Latin-1 and
 * windows-1252 decoded, adjacent ones joined. The result is valid UTF-8;
 * control characters and wrong bytes become U+FFFD. Words in other charsets
 * stay as they are, and `undecoded` (may be NULL) is set.
 */
void header_decode(struct buf *out, struct str value, bool *undecoded);
/*
 * Bytes of a text in UTF-8, ASCII (or no charset: ""), Latin-1 or
 * windows-1252, appended as valid UTF-8: wrong bytes and NUL become U+FFFD.
 * False, and nothing appended, for other charsets, and for bytes without a
 * charset that are not UTF-8.
 */
bool header_charset_text(struct buf *out, struct str charset, struct str bytes);
/*
 * header_decode() with help for other charsets. `run` is what was written: one
 * encoded word, or adjacent ones in that charset, without the space between
 * them. True: its text is in `text`, whatever the bytes (they are cleaned
 * here). False: it stays as it is.
 */
typedef bool header_word_fn(
    void *arg, struct str charset, struct str run, struct buf *text);
void header_decode_with(struct buf *out, struct str value, bool *undecoded,
    header_word_fn *fn, void *arg);
/* An encoded word at the start of `s`: its length, else 0. */
size_t header_word_split(
    struct str s, struct str *charset, char *encoding, struct str *text);

/* Message-ids `<...@...>` in a value, at most `max`; returns how many. */
size_t header_ids(struct str value, struct str *id, size_t max);
bool header_id_valid(struct str id);
/* RFC 5322 date-time. */
bool header_date_valid(struct str value);
/* "Sat, 28 Nov 2026 03:42:25 +0000" and a NUL. */
void header_date_format(char out[40], int64_t us);

bool utf8_valid(struct str s);
/* Append `s` as valid UTF-8 without controls: wrong bytes become U+FFFD. */
void utf8_clean(struct buf *out, struct str s);
/* The next code point, or -1 for a wrong byte (which is skipped). */
int32_t utf8_next(struct str *s);

#endif
