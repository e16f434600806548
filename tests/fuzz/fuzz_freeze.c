/* SPDX-License-Identifier: ISC */
/*
 * What was frozen has only CRLF lines of at most 998 bytes, and freezing it
 * again finds nothing more to refuse or remove. Code, reason and bytes are
 * the same however the input is cut.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "mail/content.h"
#include "mail/freeze.h"
#include "mail/header.h"

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

struct outcome {
	enum err_code code;
	char why[256];
	struct buf bytes;
};

/* Pieces of `step` bytes; of size_max only what the input chooses fits. */
static struct outcome
freeze(const uint8_t *p, size_t n, size_t step, uint64_t size_max)
{
	struct address inbox;
	struct outcome o = { 0 };
	struct freeze_conf conf = { .hostname = str_lit("mx.example"),
		.with = "HTTPS",
		.inbox = &inbox,
		.smtputf8 = size_max % 2 == 0,
		.size_max = size_max };
	struct freeze *f;
	size_t i;

	BUG_ON(address_parse(&inbox, str_lit("bot@example.org")) != ADDRESS_OK);
	f = freeze_new(&conf, collect, &o.bytes);
	for (i = 0; i < n; i += step)
		(void)freeze_feed(f, p + i, n - i < step ? n - i : step);
	o.code = freeze_finish(f);
	BUG_ON(o.code == E_NONE && freeze_info(f)->size != o.bytes.n);
	(void)snprintf(o.why, sizeof(o.why), "%s", freeze_why(f));
	freeze_free(f);
	return o;
}

static void
same(const struct outcome *a, struct outcome b)
{
	BUG_ON(a->code != b.code);
	BUG_ON(strcmp(a->why, b.why) != 0);
	BUG_ON(a->code == E_NONE && a->bytes.n != b.bytes.n);
	BUG_ON(a->code == E_NONE &&
	       memcmp(a->bytes.p, b.bytes.p, a->bytes.n) != 0);
	buf_free(&b.bytes);
}

/* What an agent reads back: texts, and sums of attachments, as one string. */
static struct buf
read_back(const struct buf *frozen, size_t step)
{
	struct content *c = content_new();
	const struct content_attachment *a;
	struct buf seen = { 0 };
	size_t i;
	int html;

	for (i = 0; i < frozen->n; i += step)
		BUG_ON(!content_feed(c, frozen->p + i,
		    frozen->n - i < step ? frozen->n - i : step));
	BUG_ON(!content_finish(c));
	for (html = 0; html < 2; html++) {
		BUG_ON(!utf8_valid(buf_str(&content_text(c, html)->text)));
		buf_add_str(&seen, buf_str(&content_text(c, html)->text));
		buf_u8(&seen, content_text(c, html)->present);
	}
	for (i = 0; i < content_attachments(c); i++) {
		a = content_attachment(c, i);
		BUG_ON(a->size > frozen->n);
		buf_puts(&seen, a->path);
		buf_puts(&seen, a->filename);
		buf_add(&seen, a->sha256, sizeof(a->sha256));
	}
	content_free(c);
	return seen;
}

static void
reads_the_same(const struct buf *frozen)
{
	struct buf whole = read_back(frozen, frozen->n);
	struct buf bytes = read_back(frozen, 1);

	BUG_ON(whole.n != bytes.n || memcmp(whole.p, bytes.p, whole.n) != 0);
	buf_free(&whole);
	buf_free(&bytes);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint64_t size_max =
	    n > 0 && p[n - 1] % 8 == 0 ? p[n - 1] * 8U : 1 << 20;
	struct outcome o = freeze(p, n, n + 1, size_max), again;

	same(&o, freeze(p, n, 1, size_max));
	same(&o, freeze(p, n, 2 + n % 61, size_max));
	same(&o, freeze(p, n, n / 2 + 1, size_max));
	if (o.code == E_NONE) {
		lines_check(&o.bytes);
		reads_the_same(&o.bytes);
		again = freeze(o.bytes.p, o.bytes.n, 4096, 1 << 20);
		BUG_ON(again.code != E_NONE && again.code != E_LOOP &&
		       o.bytes.n < 4000);
		buf_free(&again.bytes);
	}
	buf_free(&o.bytes);
	return 0;
}
