/* SPDX-License-Identifier: ISC */
#include "decode/html.h"

#include <gumbo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "decode/run.h"
#include "decode/sheet.h"
#include "decode/style.h"

#define PIECE_MAX 300 /* of a link's or a hidden text */
#define TARGET_MAX 1000
#define LINES_MAX 400 /* beside the text */
#define HIDDEN_MAX 64 /* pieces of hidden text */
#define STYLES_MAX (32 * 1024) /* of one element */

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

/* A piece of hidden text, told when all that is shown is known. */
struct piece {
	const char *how;
	char p[PIECE_MAX];
	size_t n;
};

struct page {
	unsigned char *out;
	size_t n, cap, lines;
	bool cut, ok;
	struct open *open;
	size_t depth, room;
	struct run text, link, hidden, aside;
	struct piece piece[HIDDEN_MAX];
	size_t pieces;
	struct sheet *sheet;
	char styles[STYLES_MAX];
	const char *target; /* of the link that is open, or NULL */
	const char *how; /* the text in `hidden` is hidden, or NULL */
};

/* ---- lines of the report */

/* A block begins or ends. */
static void
gap_all(struct page *p)
{
	run_gap(&p->text);
	run_gap(&p->link);
	run_gap(&p->hidden);
}

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
		p->out[p->n++] = run_is_space((unsigned char)s[i])
				     ? ' '
				     : (unsigned char)s[i];
}

/* Where a link leads: programs drop tabs and line ends inside. */
static void
put_url(struct page *p, const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strchr("\t\r\n", s[i]) == NULL)
			put_field(p, &s[i], 1);
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
	if (letter == 'L' || letter == 'I')
		put_url(p, a, an);
	else
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
	equiv = sheet_attribute(node, "http-equiv");
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
	target += strspn(target, " \t\r\n\f'\"");
	return strncmp(target, "\\\\", 2) == 0 ||
	       strncasecmp(target, "http:", 5) == 0 ||
	       strncasecmp(target, "https:", 6) == 0 ||
	       strncmp(target, "//", 2) == 0;
}

/* What css fetches: "url(https://...)", "@import 'https://...'". */
static void
note_css(struct page *p, const char *css)
{
	static const char *const words[] = { "url(", "@import" };
	char target[TARGET_MAX];
	const char *at;
	size_t i, n;

	for (i = 0; i < 2; i++) {
		for (at = css; (at = strcasestr(at, words[i])) != NULL;) {
			at += strlen(words[i]);
			at += strspn(at, " \t\r\n\f'\"");
			n = strcspn(at, " \t\r\n\f'\")");
			if (n >= sizeof(target) || !is_remote(at))
				continue;
			memcpy(target, at, n);
			target[n] = '\0';
			put_target(p, 'I', target);
		}
	}
}

/* What is fetched to be shown, be it by other elements than <img>. */
static void
note_fetched(struct page *p, const GumboNode *node)
{
	static const char *const names[] = { "src", "srcset", "poster",
		"background", "xlink:href", "href" };
	const GumboTag tag = node->v.element.tag;
	const char *value;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		value = sheet_attribute(node, names[i]);
		if (value == NULL || !is_remote(value) ||
		    (strcmp(names[i], "href") == 0 && tag != GUMBO_TAG_LINK &&
			tag != GUMBO_TAG_IMAGE && tag != GUMBO_TAG_UNKNOWN))
			continue;
		put_target(p, 'I', value);
	}
	if (sheet_attribute(node, "style") != NULL)
		note_css(p, sheet_attribute(node, "style"));
}

static void
note_element(struct page *p, const GumboNode *node)
{
	const GumboVector *all = &node->v.element.children;
	const GumboNode *text = all->length > 0 ? all->data[0] : NULL;

	if (is_active(node))
		put_target(
		    p, 'A', gumbo_normalized_tagname(node->v.element.tag));
	else
		note_fetched(p, node);
	if (node->v.element.tag == GUMBO_TAG_STYLE && text != NULL &&
	    text->type == GUMBO_NODE_TEXT)
		note_css(p, text->v.text.text);
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

/* Those of style sheets, then its own. */
static const char *
all_styles(struct page *p, const GumboNode *node)
{
	const char *own = sheet_attribute(node, "style");
	size_t n;

	if (!sheet_of(p->sheet, node, p->styles, sizeof(p->styles)))
		p->cut = true;
	n = strlen(p->styles);
	if (own == NULL)
		return n > 0 ? p->styles : NULL;
	if (strlen(own) >= sizeof(p->styles) - n)
		return own;
	memcpy(p->styles + n, own, strlen(own) + 1);
	return p->styles;
}

/* What an element's attributes mean for the text in it. */
static void
begin_element(struct page *p, struct open *one)
{
	const GumboNode *node = one->node;
	const bool is_link = node->v.element.tag == GUMBO_TAG_A;
	const bool leads = is_link || node->v.element.tag == GUMBO_TAG_AREA;
	const struct style_source from = { .style = all_styles(p, node),
		.bgcolor = sheet_attribute(node, "bgcolor"),
		.color = sheet_attribute(node, "color"),
		.background = sheet_attribute(node, "background"),
		.is_hidden = sheet_attribute(node, "hidden") != NULL,
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
	if (leads && sheet_attribute(node, "href") != NULL &&
	    p->target == NULL) {
		one->target = p->target = sheet_attribute(node, "href");
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
keep_hidden(struct page *p, const char *how, const struct run *r)
{
	struct piece *one = &p->piece[p->pieces];

	if (p->pieces == HIDDEN_MAX) {
		p->cut = true;
		return;
	}
	p->pieces++;
	one->how = how;
	one->n = whole(r->p, r->n, PIECE_MAX - 4);
	memcpy(one->p, r->p, one->n);
}

/*
 * What is shown elsewhere, too, hides nothing: a line for small screens, a
 * button as Outlook draws it.
 */
static void
put_hidden(struct page *p)
{
	const struct piece *one = p->piece;

	for (; one < p->piece + p->pieces; one++)
		if (memmem(p->text.p, p->text.n, one->p, one->n) == NULL)
			put_line(
			    p, 'H', one->how, strlen(one->how), one->p, one->n);
}

static void
add_made(void *arg, const char *text)
{
	struct page *p = arg;

	run_gap(&p->text);
	run_add(&p->text, text);
}

/* What style sheets show, and what they may hide. */
static void
put_sheets(struct page *p)
{
	const char *why;

	sheet_made(p->sheet, add_made, p);
	why = sheet_unjudged(p->sheet);
	if (why != NULL)
		put_line(p, 'H', why, strlen(why), "", 0);
}

/* "[if mso]> ... <![endif]": a comment for all programs but Outlook. */
static void
add_comment(struct page *p, const char *s)
{
	static const char *const silent[] = { "<xml", "</xml>", "<style",
		"</style>", "<script", "</script>" };
	char one[2] = "";
	size_t i;

	if (strncasecmp(s, "[if", 3) != 0)
		return;
	run_clear(&p->aside, PIECE_MAX);
	for (s += strcspn(s, ">"); *s != '\0'; s++) {
		for (i = 0; i < 6; i += 2)
			if (strncasecmp(s, silent[i], strlen(silent[i])) == 0)
				break;
		if (i < 6 && strcasestr(s, silent[i + 1]) != NULL)
			s = strcasestr(s, silent[i + 1]);
		if (*s == '<' || *s == '>') {
			s += *s == '<' ? strcspn(s, ">") : 0;
			run_gap(&p->aside);
			if (*s == '\0')
				break;
			continue;
		}
		one[0] = *s;
		if (*s == '&' && strchr(s, ';') != NULL) {
			s = strchr(s, ';');
			one[0] = ' ';
		}
		run_add(&p->aside, one);
	}
	if (run_says(&p->aside))
		keep_hidden(p, "for Outlook only", &p->aside);
}

static void
leave(struct page *p)
{
	const struct open *o = &p->open[--p->depth];

	if (o->hides && run_says(&p->hidden))
		keep_hidden(p, p->how, &p->hidden);
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
		case GUMBO_NODE_COMMENT:
			add_comment(p, child->v.text.text);
			break;
		case GUMBO_NODE_DOCUMENT:
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
		p->sheet = sheet_new();
		p->ok = p->sheet != NULL;
		run_clear(&p->text, TEXT_MAX);
		if (p->ok) {
			sheet_read(p->sheet, tree->root);
			walk_head(p, tree->root);
			walk(p, tree->root);
		}
		put_hidden(p);
		if (p->ok)
			put_sheets(p);
		put_line(p, 'T', p->text.p,
		    whole(p->text.p, p->text.n, TEXT_MAX - 4), NULL, 0);
		p->cut |= p->text.n + 8 > TEXT_MAX;
		used = p->n;
		*cut = p->cut;
		*ok = p->ok;
		free(p->open);
		sheet_free(p->sheet);
		gumbo_destroy_output(&options, tree);
	}
	free(p);
	return used;
}
