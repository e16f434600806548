/* SPDX-License-Identifier: ISC */
/* rcpt.c - the recipient list as digest and store have it. */
#include "mail/address.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct entry {
	struct address_rcpt r;
	size_t ix;
	char canonical[ADDRESS_MAX];
};

static int
by_canonical(const void *va, const void *vb)
{
	const struct entry *a = va, *b = vb;
	int c = strcmp(a->canonical, b->canonical);

	if (c != 0)
		return c;
	return a->ix < b->ix ? -1 : a->ix > b->ix;
}

static int
by_wire(const void *va, const void *vb)
{
	const struct address_rcpt *a = va, *b = vb;
	size_t n = a->wire.n < b->wire.n ? a->wire.n : b->wire.n;
	int c = memcmp(a->wire.p, b->wire.p, n);

	if (c != 0)
		return c;
	return a->wire.n < b->wire.n ? -1 : a->wire.n > b->wire.n;
}

static int
rank(char kind)
{
	const char order[] = "tcbo";
	const char *at = kind == '\0' ? NULL : strchr(order, kind);

	return at == NULL ? 4 : (int)(at - order);
}

static void
entry_init(struct entry *e, const struct address_rcpt *r, size_t ix)
{
	struct address a;

	e->r = *r;
	e->ix = ix;
	if (address_parse(&a, r->wire) == ADDRESS_OK)
		memcpy(e->canonical, a.canonical, ADDRESS_MAX);
	else
		(void)memcpy(e->canonical, r->wire.p,
		    r->wire.n < ADDRESS_MAX ? r->wire.n : ADDRESS_MAX - 1);
}

size_t
address_rcpt_fold(struct address_rcpt *r, size_t n)
{
	struct entry *e = xcalloc(n + 1, sizeof(*e));
	size_t i, out = 0;

	for (i = 0; i < n; i++)
		entry_init(&e[i], &r[i], i);
	qsort(e, n, sizeof(*e), by_canonical);
	for (i = 0; i < n; i++) {
		if (i == 0 || strcmp(e[i].canonical, e[i - 1].canonical) != 0)
			r[out++] = e[i].r;
		else if (rank(e[i].r.kind) < rank(r[out - 1].kind))
			r[out - 1].kind = e[i].r.kind;
	}
	qsort(r, out, sizeof(*r), by_wire);
	free(e);
	return out;
}
