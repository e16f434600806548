/* SPDX-License-Identifier: ISC */
/*
 * style.h - does an element's own style keep its text from being seen?
 */
#ifndef DECODE_STYLE_H
#define DECODE_STYLE_H

#include <stdbool.h>
#include <stdint.h>

/* Colours as 0xrrggbb; what is not understood is STYLE_UNKNOWN. */
#define STYLE_UNKNOWN 0xff000000u
#define STYLE_CLEAR 0xfe000000u /* transparent */

struct style {
	uint32_t color, background;
};

/* Attributes of an element; NULL is absent. */
struct style_source {
	const char *style, *bgcolor, *color, *background;
	bool is_hidden, is_link;
};

struct style style_default(void);
/* NULL, or how the text is kept from being seen. `s` is what is inherited. */
const char *style_apply(struct style *s, const struct style_source *from);
/* Is text in it of the colour of its background? Inner ones may not be. */
bool style_is_faint(const struct style *s);
/*
 * Behind a '\': the character that the escape stands for, "69 " for 'i', and
 * `*s` behind it. '?' for what is not ASCII.
 */
char style_unescape(const char **s);

#endif
