/* SPDX-License-Identifier: ISC */
/* Parts lie inside the message, and pieces do not change the answer. */
#include "tests/fuzz/fuzz.h"

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

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct mime_list a = { 0 }, b = { 0 };
	struct structure *s = structure_new(on_part, &a);
	enum err_code whole;
	size_t i;

	total = n;
	(void)structure_feed(s, p, n);
	whole = structure_finish(s);
	structure_free(s);
	s = structure_new(on_part, &b);
	for (i = 0; i < n; i++)
		(void)structure_feed(s, p + i, 1);
	BUG_ON(structure_finish(s) != whole);
	structure_free(s);
	BUG_ON(a.count != b.count);
	mime_list_free(&a);
	mime_list_free(&b);
	return 0;
}
