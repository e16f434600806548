/* SPDX-License-Identifier: ISC */
/*
 * fuzz_form.c - a multipart/form-data body through its parser, twice: whole,
 * and cut into pieces of a length the input chooses. Both must see the same
 * parts. The first line of the input is a Content-Type; when it names no
 * boundary, "b" is taken.
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "http/form.h"

struct seen {
	struct buf text;
	size_t mark; /* behind the last whole part */
};

static void
show(struct buf *out, const char *what, struct str s)
{
	buf_printf(out, "%s%zu:", what, s.n);
	buf_add(out, s.p != NULL ? s.p : "", s.n);
}

static bool
on_begin(void *arg, const struct http_form_part *part)
{
	struct seen *s = arg;

	buf_puts(&s->text, "[");
	show(&s->text, "n", part->name);
	show(&s->text, part->filename.p != NULL ? "f" : "-", part->filename);
	show(&s->text, "t", part->type);
	show(&s->text, "i", part->id);
	return true;
}

static bool
on_data(void *arg, const void *p, size_t n)
{
	struct seen *s = arg;

	buf_add(&s->text, p, n);
	return true;
}

static bool
on_end(void *arg)
{
	struct seen *s = arg;

	buf_puts(&s->text, "]");
	s->mark = s->text.n;
	return true;
}

static const struct http_form_calls calls = { on_begin, on_data, on_end };

static bool
run(struct seen *s, const char *boundary, const char *p, size_t n, size_t piece)
{
	static struct http_form f;
	size_t at, len;
	bool good = true;

	http_form_init(&f, boundary, &calls, s);
	for (at = 0; good && at < n; at += len) {
		len = n - at < piece ? n - at : piece;
		good = http_form_feed(&f, p + at, len);
	}
	BUG_ON(good != (f.wrong == NULL));
	BUG_ON(http_form_is_whole(&f) && !good);
	/* of a part that does not end, how much came depends on cuts */
	s->text.n = s->mark;
	buf_puts(&s->text, f.wrong != NULL ? f.wrong : "");
	return http_form_is_whole(&f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct seen whole = { .mark = 0 }, cut = { .mark = 0 };
	char type[300], boundary[HTTP_FORM_BOUNDARY + 1];
	const char *text = (const char *)data + 1, *line;
	size_t len;

	if (n < 2)
		return 0;
	line = memchr(text, '\n', n - 1);
	len = line != NULL ? (size_t)(line - text) : 0;
	if (len >= sizeof(type))
		return 0;
	memcpy(type, text, len);
	type[len] = '\0';
	if (!http_form_boundary(boundary, type))
		snprintf(boundary, sizeof(boundary), "b");
	BUG_ON(boundary[0] == '\0' || boundary[strlen(boundary) - 1] == ' ');
	if (line != NULL)
		text = line + 1;
	n -= (size_t)(text - (const char *)data);
	BUG_ON(run(&whole, boundary, text, n, SIZE_MAX) !=
	       run(&cut, boundary, text, n, 1 + data[0] % 64));
	BUG_ON(whole.text.n != cut.text.n);
	BUG_ON(whole.text.n > 0 &&
	       memcmp(whole.text.p, cut.text.p, cut.text.n) != 0);
	buf_free(&whole.text);
	buf_free(&cut.text);
	return 0;
}
