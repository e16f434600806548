/* SPDX-License-Identifier: ISC */
#include "decode/html.h"

#include <gumbo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "decode/style.h"

#define TEXT_MAX (96 * 1024) /* of what a reader sees */
#define PIECE_MAX 300 /* of a link's or a hidden text */
#define TARGET_MAX 1000
#define LINES_MAX 400 /* beside the text */

struct run {
	char p[TEXT_MAX];
	size_t n, cap;
	bool gap; /* white space is owed */
};

/* An element that is open. */
struct open {
	const GumboNode *node;
	unsigned next; /* child */
	struct style style;
	const char *hidden; /* how; inherited */
	bool faint; /* of the colour of its background */
	bool hides; /* the hidden text is told when it ends */
	const char *target; /* of the link that it opened, or NULL */
};

struct page {
	unsigned char *out;
	size_t n, cap, lines;
	bool cut, ok;
	struct open *open;
	size_t depth, room;
	struct run text, link, hidden;
	const char *target; /* of the link that is open, or NULL */
	const char *how; /* the text in `hidden` is hidden, or NULL */
};

/* ---- runs of text, white space made one */

static bool
is_space(unsigned char c)
{
	return c <= ' ' || c == 0x7f;
}

static void
run_gap(struct run *r)
{
	r->gap = r->n > 0;
}

/* A block begins or ends. */
static void
gap_all(struct page *p)
{
	run_gap(&p->text);
	run_gap(&p->link);
	run_gap(&p->hidden);
}

static void
run_add(struct run *r, const char *s)
{
	for (; *s != '\0'; s++) {
		if (is_space((unsigned char)*s)) {
			run_gap(r);
			continue;
		}
		if (r->n + 2 > r->cap)
			return;
		if (r->gap)
			r->p[r->n++] = ' ';
		r->gap = false;
		r->p[r->n++] = *s;
	}
}

/* Is there more than what fills a preview line: joiners, odd spaces? */
static bool
run_says(const struct run *r)
{
	static const char *const blanks[] = { " ", "\xc2\xa0", "\xc2\xad",
		"\xcd\x8f", "\xe2\x80\x8b", "\xe2\x80\x8c", "\xe2\x80\x8d",
		"\xe2\x80\x87", "\xe2\x80\xaf", "\xef\xbb\xbf" };
	size_t i = 0, j, len;

	while (i < r->n) {
		for (j = 0; j < sizeof(blanks) / sizeof(blanks[0]); j++) {
			len = strlen(blanks[j]);
			if (r->n - i >= len &&
			    memcmp(r->p + i, blanks[j], len) == 0)
				break;
		}
		if (j == sizeof(blanks) / sizeof(blanks[0]))
			return true;
		i += len;
	}
	return false;
}

static void
run_clear(struct run *r, size_t cap)
{
	r->n = 0;
	r->cap = cap;
	r->gap = false;
}

/* ---- lines of the report */

/* Bytes of `s` that fit in `max`, not cutting a character. */
static size_t
whole(const char *s, size_t n, size_t max)
{
	if (n <= max)
		return n;
	n = max;
	while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void
put_field(struct page *p, const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p->out[p->n++] =
		    is_space((unsigned char)s[i]) ? ' ' : (unsigned char)s[i];
}

static void
put_line(struct page *p, char letter, const char *a, size_t an, const char *b,
    size_t bn)
{
	if (p->n + an + bn + 4 > p->cap || p->lines == LINES_MAX) {
		p->cut = true;
		return;
	}
	p->lines++;
	p->out[p->n++] = (unsigned char)letter;
	p->out[p->n++] = ' ';
	put_field(p, a, an);
	if (b != NULL) {
		p->out[p->n++] = '\t';
		put_field(p, b, bn);
	}
	p->out[p->n++] = '\n';
}

static void
put_target(struct page *p, char letter, const char *target)
{
	put_line(p, letter, target, whole(target, strlen(target), TARGET_MAX),
	    NULL, 0);
}

/* ---- elements */

static const char *
attribute(const GumboNode *node, const char *name)
{
	const GumboAttribute *a =
	    gumbo_get_attribute(&node->v.element.attributes, name);

	return a != NULL ? a->value : NULL;
}

/* Never shown, whatever it is in. */
static bool
is_silent(GumboTag tag)
{
	return tag == GUMBO_TAG_HEAD || tag == GUMBO_TAG_TITLE ||
	       tag == GUMBO_TAG_STYLE || tag == GUMBO_TAG_SCRIPT ||
	       tag == GUMBO_TAG_TEMPLATE;
}

static bool
is_inline(GumboTag tag)
{
	static const GumboTag tags[] = { GUMBO_TAG_A, GUMBO_TAG_B, GUMBO_TAG_I,
		GUMBO_TAG_U, GUMBO_TAG_S, GUMBO_TAG_EM, GUMBO_TAG_STRONG,
		GUMBO_TAG_SPAN, GUMBO_TAG_FONT, GUMBO_TAG_SMALL, GUMBO_TAG_BIG,
		GUMBO_TAG_SUB, GUMBO_TAG_SUP, GUMBO_TAG_CODE, GUMBO_TAG_TT,
		GUMBO_TAG_ABBR, GUMBO_TAG_MARK, GUMBO_TAG_BDI, GUMBO_TAG_BDO,
		GUMBO_TAG_WBR };
	size_t i;

	for (i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (tags[i] == tag)
			return true;
	return false;
}

static bool
is_active(const GumboNode *node)
{
	static const GumboTag tags[] = { GUMBO_TAG_SCRIPT, GUMBO_TAG_FORM,
		GUMBO_TAG_IFRAME, GUMBO_TAG_FRAME, GUMBO_TAG_OBJECT,
		GUMBO_TAG_EMBED, GUMBO_TAG_APPLET, GUMBO_TAG_BASE };
	const GumboElement *e = &node->v.element;
	const char *equiv;
	size_t i;

	for (i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		if (tags[i] == e->tag)
			return true;
	equiv = attribute(node, "http-equiv");
	if (e->tag == GUMBO_TAG_META && equiv != NULL &&
	    strcasecmp(equiv, "refresh") == 0)
		return true;
	for (i = 0; i < e->attributes.length; i++) {
		const GumboAttribute *a = e->attributes.data[i];

		if (strncasecmp(a->name, "on", 2) == 0)
			return true;
	}
	return false;
}

static bool
is_remote(const char *target)
{
	return strncasecmp(target, "http:", 5) == 0 ||
	       strncasecmp(target, "https:", 6) == 0 ||
	       strncmp(target, "//", 2) == 0;
}

static void
note_element(struct page *p, const GumboNode *node)
{
	const char *name = gumbo_normalized_tagname(node->v.element.tag);
	const char *src = attribute(node, "src");

	if (is_active(node))
		put_target(p, 'A', name);
	if (node->v.element.tag == GUMBO_TAG_IMG && src != NULL &&
	    is_remote(src))
		put_target(p, 'I', src);
}

static bool
grow(struct page *p)
{
	size_t room = p->room == 0 ? 64 : p->room * 2;
	struct open *more;

	if (p->depth < p->room)
		return true;
	more = realloc(p->open, room * sizeof(*more));
	if (more == NULL)
		return p->ok = false;
	p->open = more;
	p->room = room;
	return true;
}

/* What an element's attributes mean for the text in it. */
static void
begin_element(struct page *p, struct open *one)
{
	const GumboNode *node = one->node;
	const bool is_link = node->v.element.tag == GUMBO_TAG_A;
	const struct style_source from = { .style = attribute(node, "style"),
		.bgcolor = attribute(node, "bgcolor"),
		.color = attribute(node, "color"),
		.background = attribute(node, "background"),
		.is_hidden = attribute(node, "hidden") != NULL,
		.is_link = is_link };
	const char *how = style_apply(&one->style, &from);

	if (one->hidden == NULL)
		one->hidden = how;
	one->faint = style_is_faint(&one->style);
	if ((one->hidden != NULL || one->faint) && p->how == NULL) {
		p->how = one->hidden != NULL ? one->hidden
					     : "colour of its background";
		one->hides = true;
		run_clear(&p->hidden, PIECE_MAX);
	}
	if (is_link && attribute(node, "href") != NULL && p->target == NULL) {
		one->target = p->target = attribute(node, "href");
		run_clear(&p->link, PIECE_MAX);
	}
}

static void
enter(struct page *p, const GumboNode *node)
{
	const struct open *up = p->depth > 0 ? &p->open[p->depth - 1] : NULL;
	struct open one = { .node = node };

	one.style = up != NULL ? up->style : style_default();
	one.hidden = up != NULL ? up->hidden : NULL;
	note_element(p, node);
	if (!is_inline(node->v.element.tag))
		gap_all(p);
	begin_element(p, &one);
	if (grow(p))
		p->open[p->depth++] = one;
}

static void
leave(struct page *p)
{
	const struct open *o = &p->open[--p->depth];

	if (o->hides && run_says(&p->hidden))
		put_line(p, 'H', p->how, strlen(p->how), p->hidden.p,
		    whole(p->hidden.p, p->hidden.n, PIECE_MAX - 4));
	if (o->hides)
		p->how = NULL;
	if (o->target != NULL) {
		put_line(p, 'L', o->target,
		    whole(o->target, strlen(o->target), TARGET_MAX), p->link.p,
		    whole(p->link.p, p->link.n, PIECE_MAX - 4));
		p->target = NULL;
	}
	if (!is_inline(o->node->v.element.tag))
		gap_all(p);
}

static void
add_text(struct page *p, const char *s)
{
	const struct open *o = &p->open[p->depth - 1];

	if (o->hidden != NULL || o->faint)
		run_add(&p->hidden, s);
	else
		run_add(&p->text, s);
	if (p->target != NULL)
		run_add(&p->link, s);
}

static void
walk(struct page *p, const GumboNode *root)
{
	enter(p, root);
	while (p->ok && p->depth > 0) {
		struct open *o = &p->open[p->depth - 1];
		const GumboVector *all = &o->node->v.element.children;
		const GumboNode *child;

		if (o->next == all->length) {
			leave(p);
			continue;
		}
		child = all->data[o->next++];
		switch (child->type) {
		case GUMBO_NODE_TEXT:
		case GUMBO_NODE_CDATA:
		case GUMBO_NODE_WHITESPACE:
			add_text(p, child->v.text.text);
			break;
		case GUMBO_NODE_ELEMENT:
			if (is_silent(child->v.element.tag))
				note_element(p, child);
			else
				enter(p, child);
			break;
		case GUMBO_NODE_DOCUMENT:
		case GUMBO_NODE_COMMENT:
		case GUMBO_NODE_TEMPLATE:
			break;
		}
	}
}

/* Heads have nothing to see, but scripts and the like. */
static void
walk_head(struct page *p, const GumboNode *root)
{
	const GumboVector *all, *in;
	unsigned i, j;

	if (root->type != GUMBO_NODE_ELEMENT)
		return;
	all = &root->v.element.children;
	for (i = 0; i < all->length; i++) {
		const GumboNode *head = all->data[i];

		if (head->type != GUMBO_NODE_ELEMENT ||
		    head->v.element.tag != GUMBO_TAG_HEAD)
			continue;
		in = &head->v.element.children;
		for (j = 0; j < in->length; j++) {
			const GumboNode *node = in->data[j];

			if (node->type == GUMBO_NODE_ELEMENT)
				note_element(p, node);
		}
	}
}

size_t
html_report(unsigned char *out, size_t cap, const char *html, size_t n,
    bool *cut, bool *ok)
{
	struct page *p = calloc(1, sizeof(*p));
	GumboOptions options = kGumboDefaultOptions;
	GumboOutput *tree = NULL;
	size_t used = 0;

	options.max_errors = 0;
	if (p != NULL)
		tree = gumbo_parse_with_options(&options, html, n);
	*ok = tree != NULL;
	if (tree != NULL) {
		*p = (struct page){ .out = out, .cap = cap, .ok = true };
		run_clear(&p->text, TEXT_MAX);
		walk_head(p, tree->root);
		walk(p, tree->root);
		put_line(p, 'T', p->text.p,
		    whole(p->text.p, p->text.n, TEXT_MAX - 4), NULL, 0);
		p->cut |= p->text.n + 8 > TEXT_MAX;
		used = p->n;
		*cut = p->cut;
		*ok = p->ok;
		free(p->open);
		gumbo_destroy_output(&options, tree);
	}
	free(p);
	return used;
}
