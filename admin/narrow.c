/* SPDX-License-Identifier: ISC */
#include "admin/narrow.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"

const struct narrow_term narrow_terms[] = {
	{ "links", "has:links", "Has links" },
	{ "files", "has:files", "Has files" },
	{ "new", "new:recipient", "New recipient" },
	{ "seen", "seen:nobody", "Nobody has it open" },
	{ "seen", "seen:me", "You have it open" },
	{ "seen", "seen:anyone", "Somebody has it open" },
	{ "age", "newer:1h", "Waiting less than an hour" },
	{ "age", "newer:1d", "Waiting less than a day" },
	{ "age", "older:1h", "Waiting more than an hour" },
	{ "age", "older:1d", "Waiting more than a day" },
	{ "age", "older:3d", "Waiting more than 3 days" },
	{ "left", "left:1h", "Expires within an hour" },
	{ "left", "left:1d", "Expires within a day" },
	{ "left", "left:3d", "Expires within 3 days" },
};
const size_t narrow_term_count = sizeof(narrow_terms) / sizeof(narrow_terms[0]);

/* older:36h and the like: as d.asked reads it. */
static bool
is_span(struct str word, const char *name)
{
	unsigned long long n;

	if (!str_istarts(word, str_of(name)))
		return false;
	word.p += strlen(name);
	word.n -= strlen(name);
	return word.n >= 2 && word.n <= 5 &&
	       strchr("hHdD", word.p[word.n - 1]) != NULL &&
	       str_to_u64((struct str){ word.p, word.n - 1 }, 9999, &n);
}

const struct narrow_term *
narrow_find(struct str word)
{
	size_t i;

	for (i = 0; i < narrow_term_count; i++)
		if (str_ieq(word, str_of(narrow_terms[i].term)))
			return &narrow_terms[i];
	return NULL;
}

const char *
narrow_field(struct str word)
{
	const struct narrow_term *t = narrow_find(word);

	if (t != NULL)
		return t->field;
	if (is_span(word, "older:") || is_span(word, "newer:"))
		return "age";
	return is_span(word, "left:") ? "left" : NULL;
}

bool
narrow_has(const struct narrow *n, const char *term)
{
	struct str rest = str_of(n->terms), word;

	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		if (str_ieq(word, str_of(term)))
			return true;
	}
	return false;
}

static void
add(struct buf *to, struct str word)
{
	if (to->n > 0)
		buf_add(to, " ", 1);
	buf_add(to, word.p, word.n);
}

struct narrow
narrow_split(struct arena *mem, const char *search)
{
	struct str rest = str_of(search != NULL ? search : ""), word;
	struct buf words = { 0 }, terms = { 0 };
	struct narrow n;

	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		if (word.n == 0)
			continue;
		if (narrow_field(word) == NULL) {
			add(&words, word);
			continue;
		}
		n.terms = arena_str(mem, buf_str(&terms));
		if (!narrow_has(&n, arena_str(mem, word)))
			add(&terms, word);
	}
	n.words = arena_str(mem, buf_str(&words));
	n.terms = arena_str(mem, buf_str(&terms));
	buf_free(&words);
	buf_free(&terms);
	return n;
}

char *
narrow_join(struct arena *mem, const struct narrow *n)
{
	struct buf out = { 0 };
	char *search;

	if (n->words[0] != '\0')
		add(&out, str_of(n->words));
	if (n->terms[0] != '\0')
		add(&out, str_of(n->terms));
	search = out.n > 0 ? arena_str(mem, buf_str(&out)) : NULL;
	buf_free(&out);
	return search;
}
