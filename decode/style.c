/* SPDX-License-Identifier: ISC */
/*
 * style.c - the few declarations that hide text, as they stand in a style
 * attribute or a rule. Not a CSS parser: what it does not know it does not
 * judge.
 */
#include "decode/style.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STYLE_MAX 8192
#define CLEAR 0.05 /* so opaque is not to be seen */
#define NEAR 8 /* of 255, between colours that are told apart by nobody */

struct style
style_default(void)
{
	return (struct style){ .color = 0x000000, .background = 0xffffff };
}

/* ---- colours */

/* #rgb, #rrggbb, and the same with how opaque it is. */
static uint32_t
hex_color(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef"), i;
	char six[7] = "";

	if (n == 3 || n == 4)
		for (i = 0; i < 6; i++)
			six[i] = s[i / 2];
	else if (n == 6 || n == 8)
		memcpy(six, s, 6);
	else
		return STYLE_UNKNOWN;
	if ((n == 4 && s[3] == '0') || (n == 8 && s[6] == '0'))
		return STYLE_CLEAR;
	return (uint32_t)strtoul(six, NULL, 16);
}

/* "1,2,3" or "1,2,3,0.5": false when it is something else. */
static bool
numbers_of(const char *s, double v[4])
{
	char *end;
	int i;

	v[3] = 1;
	for (i = 0; i < 4; i++) {
		v[i] = strtod(s, &end);
		if (end == s)
			return false;
		end += *end == '%';
		if (*end == ')')
			return i >= 2;
		if (*end != ',')
			return false;
		s = end + 1;
	}
	return false;
}

static uint32_t
rgb_color(const char *s)
{
	uint32_t c = 0;
	double v[4];
	int i;

	if (!numbers_of(s, v))
		return STYLE_UNKNOWN;
	if (v[3] <= CLEAR)
		return STYLE_CLEAR;
	for (i = 0; i < 3; i++) {
		if (!(v[i] >= 0 && v[i] <= 255))
			return STYLE_UNKNOWN;
		c = c << 8 | (uint32_t)v[i];
	}
	return c;
}

/* Only what is as good as white or black. */
static uint32_t
hsl_color(const char *s)
{
	double v[4];

	if (!numbers_of(s, v))
		return STYLE_UNKNOWN;
	if (v[3] <= CLEAR)
		return STYLE_CLEAR;
	return v[2] >= 98 ? 0xffffff : v[2] <= 2 ? 0 : STYLE_UNKNOWN;
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
	if (strncmp(s, "rgba(", 5) == 0)
		return rgb_color(s + 5);
	if (strncmp(s, "hsl(", 4) == 0)
		return hsl_color(s + 4);
	if (strncmp(s, "hsla(", 5) == 0)
		return hsl_color(s + 5);
	if (strncmp(s, "transparent", 11) == 0)
		return STYLE_CLEAR;
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

	if (a > 0xffffff || b > 0xffffff)
		return false;
	for (i = 0; i < 24; i += 8) {
		d = (int)(a >> i & 255) - (int)(b >> i & 255);
		if (d > NEAR || d < -NEAR)
			return false;
	}
	return true;
}

/* ---- declarations */

char
style_unescape(const char **s)
{
	size_t n = strspn(*s, "0123456789abcdefABCDEF");
	char hex[7] = "";
	unsigned long c;

	if (n == 0) {
		c = (unsigned char)**s;
		*s += **s != '\0';
		return (char)c;
	}
	n = n > 6 ? 6 : n;
	memcpy(hex, *s, n);
	*s += n;
	*s += **s != '\0' && strchr(" \t\r\n\f", **s) != NULL;
	c = strtoul(hex, NULL, 16);
	return c > 0 && c < 0x80 ? (char)c : '?';
}

/*
 * Lower case without white space, comments, escapes, and what stands in
 * "url()"; false when it is too long to judge.
 */
static bool
squeeze(char out[STYLE_MAX], const char *s)
{
	const char *end;
	size_t n = 0;
	char c;

	while (*s != '\0') {
		end = strncmp(s, "/*", 2) == 0 ? strstr(s + 2, "*/") : NULL;
		if (end != NULL) {
			s = end + 2;
			continue;
		}
		c = *s++;
		if (strchr(" \t\r\n\f", c) != NULL)
			continue;
		if (c == '\\')
			c = style_unescape(&s);
		if (n == STYLE_MAX - 1)
			return false;
		out[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
		if (n >= 4 && memcmp(out + n - 4, "url(", 4) == 0)
			s += strcspn(s, ")");
	}
	out[n] = '\0';
	return true;
}

/* Has the declaration "!important"? */
static bool
is_important(const char *value)
{
	size_t n = strcspn(value, ";");

	return n >= 10 && memcmp(value + n - 10, "!important", 10) == 0;
}

/* The value of the declaration of that name that counts; NULL: none. */
static const char *
value_of(const char *style, const char *name)
{
	const char *p = style, *found = NULL;
	size_t n = strlen(name);

	while (*p != '\0') {
		if (strncmp(p, name, n) == 0 && p[n] == ':' &&
		    (found == NULL || !is_important(found) ||
			is_important(p + n + 1)))
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

/* The number, at least 0, that a value begins with, and what follows it. */
static bool
number_of(const char *style, const char *name, double *d, char **end)
{
	const char *v = value_of(style, name);

	if (v == NULL)
		return false;
	*d = strtod(v, end);
	return *end != v && *d >= 0;
}

/* Of the size that a reader would have: "0.01em", "1%". */
static bool
is_part(const char *style, const char *name)
{
	double d;
	char *end;

	if (!number_of(style, name, &d, &end))
		return false;
	return (*end == '%' && d <= 15) ||
	       ((strncmp(end, "em", 2) == 0 || strncmp(end, "rem", 3) == 0) &&
		   d <= 0.15);
}

/* A number at most `max`, in px, pt or without unit; 0 in any. */
static bool
value_small(const char *style, const char *name, double max)
{
	double d;
	char *end;

	if (!number_of(style, name, &d, &end))
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

/* Cut or shrunk to nothing. */
static bool
has_no_size(const char *style)
{
	static const struct {
		const char *name, *starts;
	} all[] = { { "clip", "rect(0" }, { "clip", "rect(1px,1px,1px,1px)" },
		{ "clip-path", "inset(50%" }, { "clip-path", "inset(100%" },
		{ "clip-path", "circle(0" }, { "clip-path", "polygon(00" },
		{ "transform", "scale(0)" }, { "transform", "scale(0," },
		{ "transform", "scale(0.0" }, { "transform", "scale(.0" },
		{ "transform", "scalex(0)" }, { "transform", "scaley(0)" },
		{ "filter", "opacity(0)" }, { "filter", "opacity(0%)" } };
	const char *v;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		v = value_of(style, all[i].name);
		if (v != NULL &&
		    strncmp(v, all[i].starts, strlen(all[i].starts)) == 0)
			return true;
	}
	return value_small(style, "zoom", 0.1);
}

static const char *
hidden_by(const char *style)
{
	if (value_is(style, "display", "none"))
		return "display: none";
	if (value_is(style, "visibility", "hidden") ||
	    value_is(style, "visibility", "collapse") ||
	    value_is(style, "content-visibility", "hidden"))
		return "visibility: hidden";
	if (value_is(style, "mso-hide", "all"))
		return "mso-hide: all";
	if (value_small(style, "opacity", 0.05))
		return "opacity: 0";
	if (value_small(style, "font-size", 2) ||
	    value_small(style, "font", 2) || is_part(style, "font-size"))
		return "font-size: 0";
	if (value_is(style, "overflow", "hidden") &&
	    (value_small(style, "height", 1) ||
		value_small(style, "max-height", 1) ||
		value_small(style, "width", 1)))
		return "no room to be seen";
	if (has_no_size(style))
		return "cut or shrunk to nothing";
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
	if (back != NULL && strncmp(back, "none", 4) != 0 &&
	    color_of(back) != STYLE_CLEAR)
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
		return "a style too long to judge";
	take_colors(s, from, style);
	if (from->is_hidden)
		return "hidden";
	how = hidden_by(style);
	if (how != NULL)
		return how;
	if ((value_of(style, "color") != NULL && s->color == STYLE_CLEAR) ||
	    value_is(style, "-webkit-text-fill-color", "transparent"))
		return "color: transparent";
	return NULL;
}

bool
style_is_faint(const struct style *s)
{
	return is_near(s->color, s->background);
}
