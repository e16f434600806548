/* SPDX-License-Identifier: ISC */
#include "decode/sheet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "decode/select.h"
#include "decode/style.h"

#define CSS_MAX (256 * 1024) /* of all sheets of a page */
#define RULES_MAX 1000
#define MATCHES_MAX 32 /* rules for one element */
#define TRIES_MAX 5000000 /* elements looked at, a fraction of a second */
#define MADE_MAX 512 /* of the text that one rule shows */
#define USUAL_LEAST 600 /* pixels that a screen of a reader has at least */
#define USUAL_MOST 800 /* and what is more than enough for one */

struct rule {
	struct span selector, body;
	unsigned weight; /* what CSS calls specificity */
};

struct sheet {
	char *text[8]; /* own copies, without comments */
	size_t texts, size;
	struct rule rule[RULES_MAX];
	size_t rules, tries;
	const char *unjudged;
};

struct sheet *
sheet_new(void)
{
	return calloc(1, sizeof(struct sheet));
}

void
sheet_free(struct sheet *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < s->texts; i++)
		free(s->text[i]);
	free(s);
}

/* Comments of CSS, and what old pages put around a sheet, become spaces. */
static void
blank_comments(char *css)
{
	char *end;

	while (*css != '\0') {
		if (strncmp(css, "/*", 2) == 0) {
			end = strstr(css + 2, "*/");
			end = end != NULL ? end + 2 : css + strlen(css);
			memset(css, ' ', (size_t)(end - css));
			css = end;
		} else if (strncmp(css, "<!--", 4) == 0) {
			memset(css, ' ', 4);
		} else if (strncmp(css, "-->", 3) == 0) {
			memset(css, ' ', 3);
		} else {
			css++;
		}
	}
}

/* ---- rules */

/* Of many selectors with commas between them each is a rule. */
static void
add_rules(struct sheet *s, struct span selectors, struct span body)
{
	struct span one;
	const char *end;

	if (span_find(body, '{') < body.end)
		s->unjudged = "rules inside of rules";
	while (selectors.p < selectors.end) {
		end = span_comma(selectors);
		one = span_trim((struct span){ selectors.p, end });
		selectors.p = end + (end < selectors.end);
		if (one.p == one.end)
			continue;
		if (s->rules == RULES_MAX) {
			s->unjudged = "too many style rules to judge";
			return;
		}
		s->rule[s->rules++] =
		    (struct rule){ one, body, select_weight(one) };
	}
}

/* Behind the '}' that closes what `s`, behind its '{', is in. */
static const char *
block_end(struct span s)
{
	int depth = 1;

	for (; s.p < s.end; s.p++) {
		depth += *s.p == '{';
		depth -= *s.p == '}';
		if (depth == 0)
			return s.p + 1;
	}
	return s.end;
}

/* "(min-width: 100px)": does it hold for a screen of any usual width? */
static bool
is_usual(struct span part)
{
	static const char least[] = "min-width", most[] = "max-width";
	struct span name;
	double width;

	part = span_trim((struct span){ part.p + 1, span_find(part, ')') });
	name = span_name(&part);
	part.p = span_find(part, ':');
	width = part.p < part.end ? strtod(part.p + 1, NULL) : 0;
	return (span_is(name, least) && width <= USUAL_LEAST) ||
	       (span_is(name, most) && width >= USUAL_MOST);
}

/* "only screen and (min-width: 1px)" */
static bool
is_met(struct span query)
{
	struct span word;

	for (query = span_trim(query); query.p < query.end;
	     query = span_trim(query)) {
		if (*query.p == '(') {
			if (!is_usual(query))
				return false;
			query.p = span_bracket(
			    (struct span){ query.p + 1, query.end });
			continue;
		}
		word = span_name(&query);
		if (!span_is(word, "screen") && !span_is(word, "all") &&
		    !span_is(word, "only") && !span_is(word, "and"))
			return false;
	}
	return true;
}

/*
 * Is the block behind it for every reader, so that its rules count? Of
 * "@supports" and others that have rules it is taken to be.
 */
static bool
is_for_all(struct span head)
{
	static const char *const others[] = { "font-face", "keyframes",
		"-webkit-keyframes", "-moz-keyframes", "page", "property",
		"counter-style", "font-feature-values", "viewport",
		"-ms-viewport" };
	struct span name;
	const char *end;
	size_t i;

	head.p++;
	name = span_name(&head);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (span_is(name, others[i]))
			return false;
	if (!span_is(name, "media"))
		return true;
	for (; head.p < head.end; head.p = end + (end < head.end)) {
		end = span_comma(head);
		if (is_met((struct span){ head.p, end }))
			return true;
	}
	return false;
}

static void
read_rules(struct sheet *s, struct span css)
{
	struct span head;
	const char *end;

	while (css.p < css.end) {
		css = span_trim(css);
		if (css.p < css.end && *css.p == '}') {
			css.p++; /* of a media block that was entered */
			continue;
		}
		head = (struct span){ css.p, span_find(css, '{') };
		if (head.p < head.end && *head.p == '@' &&
		    span_find(head, ';') < head.end) {
			css.p =
			    span_find(head, ';') + 1; /* @import, @charset */
			continue;
		}
		css.p = head.end + (head.end < css.end);
		end = block_end(css);
		head = span_trim(head);
		if (head.p == head.end || *head.p != '@')
			add_rules(s, head,
			    (struct span){
				css.p, end - (end > css.p && end[-1] == '}') });
		else if (is_for_all(head))
			continue; /* its rules are next */
		css.p = end;
	}
}

/* The text of one <style>. */
static void
add(struct sheet *s, const char *css)
{
	size_t n = strlen(css);
	char *copy;

	if (s->texts == sizeof(s->text) / sizeof(s->text[0]) ||
	    n > CSS_MAX - s->size) {
		s->unjudged = "style sheets too long to judge";
		return;
	}
	copy = strdup(css);
	if (copy == NULL)
		return;
	s->text[s->texts++] = copy;
	s->size += n;
	blank_comments(copy);
	read_rules(s, (struct span){ copy, copy + n });
}

/* Behind `node` in the order of the text. */
static const GumboNode *
next_of(const GumboNode *node, const GumboNode *root)
{
	const GumboNode *up;

	if (node->type == GUMBO_NODE_ELEMENT &&
	    node->v.element.children.length > 0)
		return node->v.element.children.data[0];
	while (node != root) {
		up = node->parent;
		if (node->index_within_parent + 1 <
		    up->v.element.children.length)
			return up->v.element.children
			    .data[node->index_within_parent + 1];
		node = up;
	}
	return NULL;
}

void
sheet_read(struct sheet *s, const GumboNode *root)
{
	const GumboNode *node, *text;
	const char *media;

	for (node = root; node != NULL; node = next_of(node, root)) {
		if (node->type != GUMBO_NODE_ELEMENT ||
		    node->v.element.tag != GUMBO_TAG_STYLE ||
		    node->v.element.children.length == 0)
			continue;
		text = node->v.element.children.data[0];
		media = sheet_attribute(node, "media");
		if (text->type == GUMBO_NODE_TEXT &&
		    (media == NULL || strcasestr(media, "print") == NULL))
			add(s, text->v.text.text);
	}
}

/* "p::after", "p:before" */
static bool
is_made(struct span selector)
{
	struct span name;

	while ((selector.p = span_find(selector, ':')) < selector.end) {
		selector.p++;
		name = span_name(&selector);
		if (span_is(name, "before") || span_is(name, "after"))
			return true;
	}
	return false;
}

/* What stands in quotes, up to the end of the declaration. */
static void
tell_made(struct sheet *s, struct span value,
    void (*each)(void *arg, const char *text), void *arg)
{
	char text[MADE_MAX], quote = '\0';
	const char *p = value.p;
	size_t n = 0;

	while (p < value.end && (quote != '\0' || *p != ';')) {
		char c = *p++;

		if (quote == '\0' && (c == '"' || c == '\''))
			quote = c;
		else if (quote != '\0' && c == quote)
			quote = '\0';
		else if (quote != '\0' && n < sizeof(text) - 1)
			text[n++] = c == '\\' ? style_unescape(&p) : c;
		else if (quote == '\0' && value.end - p >= 4 &&
			 strncasecmp(p, "attr", 4) == 0)
			s->unjudged = "style rules that show attributes";
	}
	text[n] = '\0';
	each(arg, text);
}

void
sheet_made(
    struct sheet *s, void (*each)(void *arg, const char *text), void *arg)
{
	struct span rest, name;
	size_t i;

	for (i = 0; i < s->rules; i++) {
		if (!is_made(s->rule[i].selector))
			continue;
		rest = span_trim(s->rule[i].body);
		while (rest.p < rest.end) {
			name = span_name(&rest);
			rest = span_trim(rest);
			if (span_is(name, "content") && rest.p < rest.end &&
			    *rest.p == ':')
				tell_made(s, rest, each, arg);
			rest.p = span_find(rest, ';');
			rest.p += rest.p < rest.end;
			rest = span_trim(rest);
		}
	}
}

const char *
sheet_unjudged(const struct sheet *s)
{
	return s->unjudged;
}

bool
sheet_of(struct sheet *s, const GumboNode *node, char *out, size_t cap)
{
	const struct rule *found[MATCHES_MAX], *r;
	size_t i, n = 0, at, used = 0, len;

	out[0] = '\0';
	for (i = 0; i < s->rules && s->tries < TRIES_MAX; i++) {
		r = &s->rule[i];
		if (!select_matches(node, r->selector, &s->tries, TRIES_MAX))
			continue;
		if (n == MATCHES_MAX) {
			s->unjudged = "too many style rules for one element";
			break;
		}
		for (at = n++; at > 0 && found[at - 1]->weight > r->weight;
		     at--)
			found[at] = found[at - 1];
		found[at] = r;
	}
	for (i = 0; i < n; i++) {
		len = (size_t)(found[i]->body.end - found[i]->body.p);
		if (used + len + 2 > cap) {
			s->unjudged = "styles too long to judge";
			break;
		}
		memcpy(out + used, found[i]->body.p, len);
		used += len;
		out[used++] = ';';
	}
	out[used] = '\0';
	if (s->tries >= TRIES_MAX)
		s->unjudged = "style sheets that take too long to judge";
	return s->tries < TRIES_MAX;
}
