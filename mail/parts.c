/* SPDX-License-Identifier: ISC */
/* parts.c - lists of parts for those who show them. */
#include "mail/structure.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "mail/entity.h"

void
mime_list_add(void *arg, const struct mime_part *part)
{
	struct mime_list *l = arg;

	if (l->count == l->cap) {
		l->cap = l->cap == 0 ? 8 : l->cap * 2;
		l->part = xreallocarray(l->part, l->cap, sizeof(*part));
	}
	l->part[l->count++] = *part;
}

static int
by_ix(const void *va, const void *vb)
{
	const struct mime_part *a = va, *b = vb;

	return a->ix < b->ix ? -1 : a->ix > b->ix;
}

void
mime_list_sort(struct mime_list *l)
{
	if (l->count > 0)
		qsort(l->part, l->count, sizeof(*l->part), by_ix);
}

void
mime_list_free(struct mime_list *l)
{
	free(l->part);
	memset(l, 0, sizeof(*l));
}

bool
mime_part_is_text(const struct mime_part *p)
{
	return (strcmp(p->type, "text/plain") == 0 ||
		   strcmp(p->type, "text/html") == 0) &&
	       p->kind != MIME_MULTIPART && p->kind != MIME_MESSAGE &&
	       p->disposition != MIME_DISPOSITION_ATTACHMENT &&
	       p->filename[0] == '\0';
}

void
mime_part_name(char out[STRUCTURE_NAME_MAX], const struct mime_part *p,
    struct str bytes, header_word_fn *fn, void *arg)
{
	struct str section = { bytes.p + p->header_at, p->header_size };

	if (p->header_at > bytes.n || p->header_size > bytes.n - p->header_at ||
	    section.n < 2) {
		section.n = 0;
	} else {
		section.n -= 2; /* the empty line */
	}
	if (section.n == 0 || !entity_filename(section, fn, arg, out))
		memcpy(out, p->filename, sizeof(p->filename));
}
