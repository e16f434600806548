/* SPDX-License-Identifier: ISC */
/*
 * postern-decode without its sandbox. One byte of kind, encoding and "more
 * follows", the charset up to a line end, then the bytes. A reply has no
 * more than it says and is UTF-8, whatever came in.
 */
#include "tests/fuzz/fuzz.h"

#include <gmime/gmime.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "decode/charset.h"
#include "decode/text.h"
#include "mail/header.h"

static void
reply_check(const struct text_request *r)
{
	unsigned char *reply;
	size_t n, text;

	reply = text_reply(r, &n);
	if (reply == NULL)
		return;
	BUG_ON(n < HELPER_REPLY_HEAD);
	text = n - HELPER_REPLY_HEAD;
	BUG_ON(text > HELPER_OUTPUT_MAX);
	BUG_ON(((size_t)reply[9] << 16 | (size_t)reply[10] << 8 | reply[11]) !=
	       text);
	BUG_ON(reply[4] == HELPER_NO_CHARSET && text > 0);
	BUG_ON(!utf8_valid(
	    (struct str){ (char *)reply + HELPER_REPLY_HEAD, text }));
	free(reply);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static bool is_open;
	struct text_request r = { .type = "text/plain", .type_n = 10 };
	const uint8_t *line;

	if (!is_open) {
		g_mime_init();
		charset_open_all();
		is_open = true;
	}
	if (text_request_parse(&r, p, n))
		reply_check(&r);
	line = n > 0 ? memchr(p, '\n', n) : NULL;
	if (line == NULL || line == p)
		return 0;
	r = (struct text_request){ .kind = p[0] & 32   ? HELPER_FILE
					   : p[0] & 16 ? HELPER_HTML
					   : p[0] & 1  ? HELPER_LEAF
						       : HELPER_WORD,
		.encoding = p[0] & 2   ? HELPER_BASE64
			    : p[0] & 4 ? HELPER_QP
				       : HELPER_PLAIN,
		.more = (p[0] & 8) != 0,
		.charset = (const char *)p + 1,
		.charset_n = (size_t)(line - p) - 1,
		.type = "text/html",
		.type_n = 9,
		.bytes = line + 1,
		.n = n - (size_t)(line + 1 - p) };
	reply_check(&r);
	return 0;
}
