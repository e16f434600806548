/* SPDX-License-Identifier: ISC */
/*
 * What was frozen has only CRLF lines of at most 998 bytes, and freezing it
 * again finds nothing more to refuse or remove.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/freeze.h"

static void
collect(void *arg, const void *p, size_t n)
{
	buf_add(arg, p, n);
}

static void
lines_check(const struct buf *b)
{
	size_t i, line = 0;

	for (i = 0; i < b->n; i++) {
		BUG_ON(b->p[i] == '\0');
		BUG_ON(b->p[i] == '\n' && (i == 0 || b->p[i - 1] != '\r'));
		BUG_ON(
		    b->p[i] == '\r' && (i + 1 == b->n || b->p[i + 1] != '\n'));
		line = b->p[i] == '\n' ? 0 : line + 1;
		BUG_ON(line > 999);
	}
	BUG_ON(line != 0);
}

static enum err_code
freeze(struct buf *out, const uint8_t *p, size_t n, size_t step)
{
	struct address inbox;
	struct freeze_conf conf = { .hostname = str_lit("mx.example"),
		.with = "HTTPS",
		.inbox = &inbox,
		.smtputf8 = true,
		.size_max = 1 << 20 };
	struct freeze *f;
	enum err_code code;
	size_t i;

	BUG_ON(address_parse(&inbox, str_lit("bot@example.org")) != ADDRESS_OK);
	f = freeze_new(&conf, collect, out);
	for (i = 0; i < n; i += step)
		(void)freeze_feed(f, p + i, n - i < step ? n - i : step);
	code = freeze_finish(f);
	BUG_ON(code == E_NONE && freeze_info(f)->size != out->n);
	freeze_free(f);
	return code;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf a = { 0 }, b = { 0 };
	enum err_code code = freeze(&a, p, n, n + 1);

	BUG_ON((freeze(&b, p, n, 1) == E_NONE) != (code == E_NONE));
	if (code == E_NONE) {
		BUG_ON(a.n != b.n || memcmp(a.p, b.p, a.n) != 0);
		lines_check(&a);
		buf_clear(&b);
		code = freeze(&b, a.p, a.n, 4096);
		BUG_ON(code != E_NONE && code != E_LOOP && n < 4000);
	}
	buf_free(&a);
	buf_free(&b);
	return 0;
}
