/* SPDX-License-Identifier: ISC */
#include "decode/select.h"

#include <string.h>
#include <strings.h>

#include "decode/sheet.h"

#define ANCESTORS_MAX 64
#define PARTS_MAX 32 /* of a selector; one of more is taken to match */

struct trying {
	size_t *tries, most;
};

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

struct span
span_trim(struct span s)
{
	while (s.p < s.end && is_space(*s.p))
		s.p++;
	while (s.p < s.end && is_space(s.end[-1]))
		s.end--;
	return s;
}

const char *
span_find(struct span s, char c)
{
	while (s.p < s.end && *s.p != c)
		s.p++;
	return s.p;
}

/* The next comma outside of brackets. */
const char *
span_comma(struct span s)
{
	int depth = 0;

	for (; s.p < s.end && (*s.p != ',' || depth > 0); s.p++) {
		depth += *s.p == '(' || *s.p == '[';
		depth -= *s.p == ')' || *s.p == ']';
	}
	return s.p;
}

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_' || c < 0;
}

struct span
span_name(struct span *s)
{
	struct span name = { s->p, s->p };

	while (s->p < s->end && is_name_char(*s->p))
		s->p++;
	name.end = s->p;
	return name;
}

bool
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

/* Is `s` in `text`, whatever case the letters have? */
static bool
is_within(struct span s, const char *text)
{
	size_t n = (size_t)(s.end - s.p);

	for (; strlen(text) >= n; text++)
		if (strncasecmp(text, s.p, n) == 0)
			return true;
	return false;
}

/*
 * "[name]" or "[name=value]", the bracket gone. That a value begins or ends
 * with something is taken for having it anywhere.
 */
static bool
has_attribute(const GumboNode *node, struct span *s)
{
	struct span in = { s->p, span_find(*s, ']') }, name, value;
	const char *mine = NULL;
	char text[64];
	bool whole;

	s->p = in.end < s->end ? in.end + 1 : in.end;
	name = span_name(&in);
	if (name.p == name.end || (size_t)(name.end - name.p) >= sizeof(text))
		return false;
	memcpy(text, name.p, (size_t)(name.end - name.p));
	text[name.end - name.p] = '\0';
	mine = sheet_attribute(node, text);
	if (mine == NULL || in.p == in.end)
		return mine != NULL;
	whole = *in.p == '=';
	value = span_trim((struct span){ span_find(in, '=') + whole, in.end });
	if (!whole && value.p < value.end)
		value = span_trim((struct span){ value.p + 1, value.end });
	if (value.p < value.end && (*value.p == '"' || *value.p == '\'')) {
		in = (struct span){ value.p + 1, value.end };
		value = (struct span){ in.p, span_find(in, *value.p) };
	}
	if (whole && strlen(mine) != (size_t)(value.end - value.p))
		return false;
	return is_within(value, mine);
}

/* Behind the bracket that closes what `s`, behind its '(', is in. */
const char *
span_bracket(struct span s)
{
	int depth = 1;

	for (; s.p < s.end && depth > 0; s.p++) {
		depth += *s.p == '(';
		depth -= *s.p == ')';
	}
	return s.p;
}

/*
 * Behind ':', "not(.a)": may an element be in that state where nobody touches
 * it? Its place among others is taken to be the one. False for "::after",
 * which is no element.
 */
static bool
may_be(struct span *s)
{
	static const char *const others[] = { "hover", "focus", "active",
		"visited", "target", "focus-within", "focus-visible", "before",
		"after", "first-line", "first-letter" };
	bool element = s->p < s->end && *s->p == ':';
	struct span name;
	size_t i;

	s->p += element;
	name = span_name(s);
	if (s->p < s->end && *s->p == '(')
		s->p = span_bracket((struct span){ s->p + 1, s->end });
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (span_is(name, others[i]))
			return false;
	return !element && name.p < name.end;
}

/* "td.a#b[c]:d", all of it; false also for what is not understood. */
static bool
matches_one(const GumboNode *node, struct span s)
{
	struct span name = span_name(&s);
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
		if (kind == '[' || kind == ':') {
			ok = kind == '[' ? has_attribute(node, &s) : may_be(&s);
			continue;
		}
		name = span_name(&s);
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

/* The element before it, of the same parent. */
static const GumboNode *
before(const GumboNode *node)
{
	const GumboNode *up = parent_of(node), *one;
	size_t i = node->index_within_parent;

	while (up != NULL && i-- > 0) {
		one = up->v.element.children.data[i];
		if (one->type == GUMBO_NODE_ELEMENT)
			return one;
	}
	return NULL;
}

static bool
is_joint(char c)
{
	return c == '>' || c == '+' || c == '~';
}

/* The last part of a selector, taken off; `joint`: ' ' or what is before it. */
static struct span
take_last(struct span *s, char *joint)
{
	struct span last = *s;
	int depth = 0;
	char c;

	for (last.p = last.end; last.p > s->p; last.p--) {
		c = last.p[-1];
		depth += c == ')' || c == ']';
		if (depth == 0 && (is_space(c) || is_joint(c)))
			break;
		depth -= c == '(' || c == '[';
	}
	*s = span_trim((struct span){ s->p, last.p });
	*joint = ' ';
	if (s->p < s->end && is_joint(s->end[-1])) {
		*joint = s->end[-1];
		*s = span_trim((struct span){ s->p, s->end - 1 });
	}
	return last;
}

static bool
matches(
    struct trying *t, const GumboNode *node, struct span selector, int parts)
{
	int left = ANCESTORS_MAX;
	char joint;

	if (parts == PARTS_MAX)
		return true;
	if (++*t->tries >= t->most ||
	    !matches_one(node, take_last(&selector, &joint)))
		return false;
	if (selector.p == selector.end)
		return true;
	do {
		node = joint == '+' || joint == '~' ? before(node)
						    : parent_of(node);
		if (node != NULL && matches(t, node, selector, parts + 1))
			return true;
	} while (node != NULL && (joint == ' ' || joint == '~') && left-- > 0);
	return false;
}

bool
select_matches(
    const GumboNode *node, struct span selector, size_t *tries, size_t most)
{
	return matches(&(struct trying){ tries, most }, node, selector, 0);
}

unsigned
select_weight(struct span s)
{
	unsigned weight = 0;
	char last = ' ';

	for (; s.p < s.end; s.p++) {
		if (*s.p == '#')
			weight += 10000;
		else if (*s.p == '.' || *s.p == '[')
			weight += 100;
		else if (is_name_char(*s.p) &&
			 (is_space(last) || is_joint(last)))
			weight++;
		last = *s.p;
	}
	return weight;
}
