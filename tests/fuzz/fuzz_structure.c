/* SPDX-License-Identifier: ISC */
/* Parts lie inside the message, and pieces do not change the answer. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/xalloc.h"
#include "mail/structure.h"

static size_t total;

static void
on_part(void *arg, const struct mime_part *p)
{
	BUG_ON(p->body_at + p->body_size > total);
	BUG_ON(p->header_at + p->header_size > total);
	BUG_ON(p->depth > STRUCTURE_DEPTH_MAX + 1);
	mime_list_add(arg, p);
}

struct outcome {
	enum err_code code;
	const char *why; /* a literal of structure.c */
	struct mime_list parts;
};

static struct outcome
run(const uint8_t *p, size_t n, size_t step, bool ascii)
{
	struct outcome o = { 0 };
	struct structure *s = structure_new(on_part, &o.parts);
	size_t i;

	if (ascii)
		structure_ascii_headers(s);
	total = n;
	for (i = 0; i < n; i += step)
		(void)structure_feed(s, p + i, n - i < step ? n - i : step);
	o.code = structure_finish(s);
	o.why = structure_why(s);
	BUG_ON((o.code == E_NONE) != (o.why[0] == '\0'));
	structure_free(s);
	return o;
}

static void
same(const struct outcome *a, struct outcome b)
{
	BUG_ON(a->code != b.code || strcmp(a->why, b.why) != 0);
	BUG_ON(a->parts.count != b.parts.count);
	BUG_ON(a->parts.count > 0 &&
	       memcmp(a->parts.part, b.parts.part,
		   a->parts.count * sizeof(*a->parts.part)) != 0);
	mime_list_free(&b.parts);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	bool ascii = n > 0 && p[n - 1] % 2 == 0;
	struct outcome o = run(p, n, n + 1, ascii);

	same(&o, run(p, n, 1, ascii));
	same(&o, run(p, n, 2 + n % 61, ascii));
	mime_list_free(&o.parts);
	return 0;
}
