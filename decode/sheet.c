/* SPDX-License-Identifier: ISC */
#include "decode/sheet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CSS_MAX (256 * 1024) /* of all sheets of a page */
#define RULES_MAX 1000
#define MATCHES_MAX 32 /* rules for one element */
#define ANCESTORS_MAX 64
#define TRIES_MAX 5000000 /* elements looked at, a fraction of a second */

/* Text between two places. */
struct span {
	const char *p, *end;
};

struct rule {
	struct span selector, body;
	unsigned weight; /* what CSS calls specificity */
};

struct sheet {
	char *text[8]; /* own copies, without comments */
	size_t texts, size;
	struct rule rule[RULES_MAX];
	size_t rules, tries;
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

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static struct span
trim(struct span s)
{
	while (s.p < s.end && is_space(*s.p))
		s.p++;
	while (s.p < s.end && is_space(s.end[-1]))
		s.end--;
	return s;
}

static const char *
find(struct span s, char c)
{
	while (s.p < s.end && *s.p != c)
		s.p++;
	return s.p;
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

/* ---- selectors */

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_' || c < 0;
}

static struct span
take_name(struct span *s)
{
	struct span name = { s->p, s->p };

	while (s->p < s->end && is_name_char(*s->p))
		s->p++;
	name.end = s->p;
	return name;
}

static bool
span_is(struct span s, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(s.end - s.p) == n && strncasecmp(s.p, text, n) == 0;
}

const char *
sheet_attribute(const GumboNode *node, const char *name)
{
	const GumboAttribute *a =
	    gumbo_get_attribute(&node->v.element.attributes, name);

	return a != NULL ? a->value : NULL;
}

static bool
has_class(const GumboNode *node, struct span name)
{
	const char *list = sheet_attribute(node, "class");
	struct span one;

	while (list != NULL && *list != '\0') {
		one.p = list + strspn(list, " \t\r\n\f");
		one.end = one.p + strcspn(one.p, " \t\r\n\f");
		if (one.end - one.p == name.end - name.p && one.p < one.end &&
		    memcmp(one.p, name.p, (size_t)(name.end - name.p)) == 0)
			return true;
		list = one.end;
	}
	return false;
}

static bool
has_id(const GumboNode *node, struct span name)
{
	const char *id = sheet_attribute(node, "id");

	return id != NULL && strlen(id) == (size_t)(name.end - name.p) &&
	       memcmp(id, name.p, strlen(id)) == 0;
}

/* "[name]" or "[name=value]", the bracket gone. */
static bool
has_attribute(const GumboNode *node, struct span *s)
{
	struct span in = { s->p, find(*s, ']') }, name, value;
	const char *mine = NULL;
	char text[64];

	s->p = in.end < s->end ? in.end + 1 : in.end;
	name = take_name(&in);
	if (name.p == name.end || (size_t)(name.end - name.p) >= sizeof(text))
		return false;
	memcpy(text, name.p, (size_t)(name.end - name.p));
	text[name.end - name.p] = '\0';
	mine = sheet_attribute(node, text);
	if (mine == NULL || in.p == in.end)
		return mine != NULL;
	if (*in.p != '=')
		return false; /* ~=, ^= and others: not judged */
	value = trim((struct span){ in.p + 1, in.end });
	if (value.end - value.p >= 2 && (*value.p == '"' || *value.p == '\''))
		value = (struct span){ value.p + 1, value.end - 1 };
	return strlen(mine) == (size_t)(value.end - value.p) &&
	       memcmp(mine, value.p, strlen(mine)) == 0;
}

/* "td.a#b[c]", all of it; false also for what is not understood. */
static bool
matches_one(const GumboNode *node, struct span s)
{
	struct span name = take_name(&s);
	char kind;
	bool ok = true;

	if (name.p < name.end)
		ok = span_is(
		    name, gumbo_normalized_tagname(node->v.element.tag));
	else if (s.p < s.end && *s.p == '*')
		s.p++;
	else
		ok = s.p < s.end;
	while (ok && s.p < s.end) {
		kind = *s.p++;
		if (kind == '[') {
			ok = has_attribute(node, &s);
			continue;
		}
		name = take_name(&s);
		ok = name.p < name.end &&
		     ((kind == '.' && has_class(node, name)) ||
			 (kind == '#' && has_id(node, name)));
	}
	return ok;
}

static const GumboNode *
parent_of(const GumboNode *node)
{
	const GumboNode *up = node->parent;

	return up != NULL && up->type == GUMBO_NODE_ELEMENT ? up : NULL;
}

/* The last part of a selector, taken off; `child`: ">" stands before it. */
static struct span
take_last(struct span *s, bool *child)
{
	struct span last = *s;

	last.p = last.end;
	while (last.p > s->p && !is_space(last.p[-1]) && last.p[-1] != '>')
		last.p--;
	*s = trim((struct span){ s->p, last.p });
	*child = s->p < s->end && s->end[-1] == '>';
	if (*child)
		*s = trim((struct span){ s->p, s->end - 1 });
	return last;
}

static bool
matches(struct sheet *s, const GumboNode *node, struct span selector)
{
	bool child = false, next_child, found;
	struct span one;
	int left = ANCESTORS_MAX;

	s->tries++;
	if (!matches_one(node, take_last(&selector, &child)))
		return false;
	while (selector.p < selector.end) {
		one = take_last(&selector, &next_child);
		do {
			node = parent_of(node);
			s->tries++;
			found = node != NULL && matches_one(node, one);
		} while (!found && node != NULL && !child && left-- > 0);
		if (!found)
			return false;
		child = next_child;
	}
	return true;
}

static unsigned
weight_of(struct span s)
{
	unsigned weight = 0;
	char before = ' ';

	for (; s.p < s.end; s.p++) {
		if (*s.p == '#')
			weight += 10000;
		else if (*s.p == '.' || *s.p == '[')
			weight += 100;
		else if (is_name_char(*s.p) &&
			 (is_space(before) || before == '>'))
			weight++;
		before = *s.p;
	}
	return weight;
}

/* ---- rules */

/* Of many selectors with commas between them each is a rule. */
static void
add_rules(struct sheet *s, struct span selectors, struct span body)
{
	struct span one;

	while (selectors.p < selectors.end) {
		one = trim((struct span){ selectors.p, find(selectors, ',') });
		selectors.p = find(selectors, ',');
		selectors.p += selectors.p < selectors.end;
		if (one.p == one.end || s->rules == RULES_MAX)
			continue;
		s->rule[s->rules++] =
		    (struct rule){ one, body, weight_of(one) };
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

/* "@media screen, all": a rule for every screen. */
static bool
is_for_all(struct span head)
{
	struct span one;

	head.p += strlen("@media");
	while (head.p < head.end) {
		one = trim((struct span){ head.p, find(head, ',') });
		if (span_is(one, "screen") || span_is(one, "all") ||
		    span_is(one, "only screen"))
			return true;
		head.p = find(head, ',');
		head.p += head.p < head.end;
	}
	return false;
}

static void
read_rules(struct sheet *s, struct span css)
{
	struct span head;
	const char *end;

	while (css.p < css.end) {
		css = trim(css);
		if (css.p < css.end && *css.p == '}') {
			css.p++; /* of a media block that was entered */
			continue;
		}
		head = (struct span){ css.p, find(css, '{') };
		if (head.p < head.end && *head.p == '@' &&
		    find(head, ';') < head.end) {
			css.p = find(head, ';') + 1; /* @import, @charset */
			continue;
		}
		css.p = head.end + (head.end < css.end);
		end = block_end(css);
		head = trim(head);
		if (head.p == head.end || *head.p != '@')
			add_rules(s, head, (struct span){ css.p, end });
		else if (head.end - head.p > 6 &&
			 strncasecmp(head.p, "@media", 6) == 0 &&
			 is_for_all(head))
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
	    n > CSS_MAX - s->size)
		return;
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

bool
sheet_of(struct sheet *s, const GumboNode *node, char *out, size_t cap)
{
	const struct rule *found[MATCHES_MAX], *r;
	size_t i, n = 0, at, used = 0, len;

	out[0] = '\0';
	if (s->tries >= TRIES_MAX)
		return false;
	for (i = 0; i < s->rules && n < MATCHES_MAX; i++) {
		r = &s->rule[i];
		if (!matches(s, node, r->selector))
			continue;
		for (at = n++; at > 0 && found[at - 1]->weight > r->weight;
		     at--)
			found[at] = found[at - 1];
		found[at] = r;
	}
	for (i = 0; i < n; i++) {
		len = (size_t)(find(found[i]->body, '}') - found[i]->body.p);
		if (used + len + 2 > cap)
			break;
		memcpy(out + used, found[i]->body.p, len);
		used += len;
		out[used++] = ';';
	}
	out[used] = '\0';
	return true;
}
