/* SPDX-License-Identifier: ISC */
/*
 * style.c - the few declarations that hide text, as they stand in a style
 * attribute. Not a CSS parser: what it does not know it does not judge.
 */
#include "decode/style.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STYLE_MAX 2048
#define NEAR 8 /* of 255, between colours that are told apart by nobody */

struct style
style_default(void)
{
	return (struct style){ .color = 0x000000, .background = 0xffffff };
}

/* ---- colours */

static uint32_t
hex_color(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef"), i;
	char six[7] = "";

	if (n == 3)
		for (i = 0; i < 6; i++)
			six[i] = s[i / 2];
	else if (n == 6)
		memcpy(six, s, 6);
	else
		return STYLE_UNKNOWN;
	return (uint32_t)strtoul(six, NULL, 16);
}

static uint32_t
rgb_color(const char *s)
{
	uint32_t c = 0;
	unsigned long v;
	char *end;
	int i;

	for (i = 0; i < 3; i++) {
		v = strtoul(s, &end, 10);
		if (end == s || v > 255 || (i < 2 && *end != ','))
			return STYLE_UNKNOWN;
		c = c << 8 | (uint32_t)v;
		s = end + 1;
	}
	return c;
}

/* Lower case, without spaces. */
static uint32_t
color_of(const char *s)
{
	static const struct {
		const char *name;
		uint32_t c;
	} names[] = { { "white", 0xffffff }, { "black", 0 },
		{ "snow", 0xfffafa }, { "ivory", 0xfffff0 },
		{ "ghostwhite", 0xf8f8ff }, { "whitesmoke", 0xf5f5f5 } };
	size_t i, n = strcspn(s, ";!");

	if (s[0] == '#')
		return hex_color(s + 1);
	if (strncmp(s, "rgb(", 4) == 0)
		return rgb_color(s + 4);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == n &&
		    strncmp(s, names[i].name, n) == 0)
			return names[i].c;
	return STYLE_UNKNOWN;
}

static bool
is_near(uint32_t a, uint32_t b)
{
	int i, d;

	if (a == STYLE_UNKNOWN || b == STYLE_UNKNOWN)
		return false;
	for (i = 0; i < 24; i += 8) {
		d = (int)(a >> i & 255) - (int)(b >> i & 255);
		if (d > NEAR || d < -NEAR)
			return false;
	}
	return true;
}

/* ---- declarations */

/* Lower case without white space; false when it is too long to judge. */
static bool
squeeze(char out[STYLE_MAX], const char *s)
{
	size_t n = 0;

	for (; *s != '\0'; s++) {
		if (strchr(" \t\r\n\f", *s) != NULL)
			continue;
		if (n == STYLE_MAX - 1)
			return false;
		out[n++] = *s >= 'A' && *s <= 'Z' ? (char)(*s + 32) : *s;
	}
	out[n] = '\0';
	return true;
}

/* The value of the last declaration of that name; NULL when there is none. */
static const char *
value_of(const char *style, const char *name)
{
	const char *p = style, *found = NULL;
	size_t n = strlen(name);

	while (*p != '\0') {
		if (strncmp(p, name, n) == 0 && p[n] == ':')
			found = p + n + 1;
		p += strcspn(p, ";");
		p += *p == ';';
	}
	return found;
}

static bool
value_is(const char *style, const char *name, const char *value)
{
	const char *v = value_of(style, name);
	size_t n = strlen(value);

	return v != NULL && strncmp(v, value, n) == 0 &&
	       (v[n] == '\0' || v[n] == ';' || v[n] == '!');
}

/* A number at most `max`, in px, pt or without unit; 0 in any. */
static bool
value_small(const char *style, const char *name, double max)
{
	const char *v = value_of(style, name);
	double d;
	char *end;

	if (v == NULL)
		return false;
	d = strtod(v, &end);
	if (end == v || d < 0)
		return false;
	if (d == 0)
		return true;
	return d <= max &&
	       (*end == '\0' || *end == ';' || *end == '!' ||
		   strncmp(end, "px", 2) == 0 || strncmp(end, "pt", 2) == 0);
}

static bool
value_far(const char *style, const char *name)
{
	const char *v = value_of(style, name);

	return v != NULL && strtod(v, NULL) <= -200;
}

static const char *
hidden_by(const char *style)
{
	if (value_is(style, "display", "none"))
		return "display: none";
	if (value_is(style, "visibility", "hidden") ||
	    value_is(style, "visibility", "collapse"))
		return "visibility: hidden";
	if (value_is(style, "mso-hide", "all"))
		return "mso-hide: all";
	if (value_small(style, "opacity", 0.05))
		return "opacity: 0";
	if (value_small(style, "font-size", 2))
		return "font-size: 0";
	if (value_is(style, "overflow", "hidden") &&
	    (value_small(style, "height", 1) ||
		value_small(style, "max-height", 1) ||
		value_small(style, "width", 1)))
		return "no room to be seen";
	if (value_far(style, "text-indent") || value_far(style, "left") ||
	    value_far(style, "top") || value_far(style, "margin-left"))
		return "out of the page";
	return NULL;
}

static void
take_colors(struct style *s, const struct style_source *from, const char *style)
{
	const char *color = value_of(style, "color");
	const char *back = value_of(style, "background-color");
	char flat[STYLE_MAX] = "";

	if (from->is_link)
		s->color = STYLE_UNKNOWN;
	if (from->bgcolor != NULL)
		s->background = squeeze(flat, from->bgcolor) ? color_of(flat)
							     : STYLE_UNKNOWN;
	if (from->background != NULL)
		s->background = STYLE_UNKNOWN;
	if (back == NULL)
		back = value_of(style, "background");
	if (back != NULL && strncmp(back, "transparent", 11) != 0 &&
	    strncmp(back, "none", 4) != 0)
		s->background = color_of(back);
	if (value_of(style, "background-image") != NULL)
		s->background = STYLE_UNKNOWN;
	if (from->color != NULL)
		s->color =
		    squeeze(flat, from->color) ? color_of(flat) : STYLE_UNKNOWN;
	if (color != NULL && strncmp(color, "inherit", 7) != 0)
		s->color = color_of(color);
}

const char *
style_apply(struct style *s, const struct style_source *from)
{
	char style[STYLE_MAX] = "";
	const char *how;

	if (from->style != NULL && !squeeze(style, from->style))
		return NULL;
	take_colors(s, from, style);
	if (from->is_hidden)
		return "hidden";
	how = hidden_by(style);
	if (how != NULL)
		return how;
	if (value_is(style, "color", "transparent"))
		return "color: transparent";
	return NULL;
}

bool
style_is_faint(const struct style *s)
{
	return is_near(s->color, s->background);
}
