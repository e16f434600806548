/* SPDX-License-Identifier: ISC */
/* Fields cover the section without gaps; decoded text is clean UTF-8. */
#include "tests/fuzz/fuzz.h"

#include "base/xalloc.h"
#include "mail/header.h"
#include "mail/param.h"

static void
field_check(const struct header_field *f)
{
	struct param_list l;
	struct buf text = { 0 };
	struct str id[8];
	const char *why;
	size_t i;

	header_decode(&text, f->value, NULL);
	BUG_ON(!utf8_valid(buf_str(&text)));
	for (i = 0; i < text.n; i++)
		BUG_ON(text.p[i] < 0x20 || text.p[i] == 0x7f);
	buf_clear(&text);
	(void)header_ids(f->value, id, 8);
	(void)header_date_valid(f->value);
	if (param_parse(&l, f->value, true, &why)) {
		(void)param_extended(&l, "name", &text);
		param_free(&l);
	}
	if (param_parse(&l, f->value, false, &why)) {
		(void)param_extended(&l, "filename", &text);
		param_free(&l);
	}
	buf_free(&text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct header h;
	const char *why;
	size_t i, sum = 0;

	if (!header_parse(&h, (struct str){ (const char *)p, n }, &why))
		return 0;
	for (i = 0; i < h.count; i++) {
		BUG_ON(h.field[i].raw.p != (const char *)p + sum);
		sum += h.field[i].raw.n;
		field_check(&h.field[i]);
	}
	BUG_ON(sum != n);
	header_free(&h);
	return 0;
}
