/* SPDX-License-Identifier: ISC */
/*
 * finding_search.c - one pass over a text for secrets and for characters
 * that deceive.
 *
 * finding_skip.c knows which places are worth a look: beginnings of numbers,
 * the rarest character of each kind of token with the one before it, and the
 * characters meant. Nothing else is looked at.
 */
#include "mail/finding_search.h"

#include "mail/finding_skip.h"
#include "mail/header.h"

#define FLAG 0x1f3f4 /* of which tags make flags of regions */
/* Long words carry it where they may be cut: alone it tells nothing. */
#define SOFT_HYPHEN 0xad

/* Behind a flag: its tags, as long as they are one name. */
static void
skip_flag(struct str *s)
{
	struct str rest = *s;
	int32_t c;
	int n;

	for (n = 0; n < 8 && rest.n > 0; n++) {
		c = utf8_next(&rest);
		if (c == 0xe007f) {
			*s = rest;
			return;
		}
		if (c < 0xe0030 || c > 0xe007a)
			return;
	}
}

static bool
is_selector(int32_t c)
{
	return (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0xe0100 && c <= 0xe01ef);
}

static bool
is_invisible(int32_t c)
{
	return c == SOFT_HYPHEN || c == 0x34f || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200d) || (c >= 0x2060 && c <= 0x2064) ||
	       c == 0x2800 || c == 0xfeff || c == 0x115f || c == 0x1160 ||
	       c == 0x3164 || c == 0xffa0; /* fillers of Hangul */
}

static const char *
look_character(const struct search *s, const char *p)
{
	struct str rest = { p, (size_t)(s->end - p) };
	int32_t c = utf8_next(&rest);
	const char *from = rest.p;
	int n = 1;

	if (c == FLAG) {
		skip_flag(&rest);
	} else if (c == 0x202d || c == 0x202e) {
		tell(s, FINDING_TEXT_DIRECTION, p, rest.p);
	} else if (c >= 0xe0000 && c <= 0xe007f) {
		tell(s, FINDING_TEXT_TAGS, p, rest.p);
	} else if (is_invisible(c)) {
		while (rest.n > 0 && is_invisible(utf8_next(&rest))) {
			from = rest.p;
			n++;
		}
		if ((c != SOFT_HYPHEN || n > 1) && is_alpha(before(s, p, 1)) &&
		    from < s->end && is_alpha(*from))
			tell(s, FINDING_TEXT_INVISIBLE, p - 1, from + 1);
		return from;
	} else if (is_selector(c)) {
		for (; rest.n > 0 && is_selector(utf8_next(&rest)); n++)
			from = rest.p;
		if (n >= 3)
			tell(s, FINDING_TEXT_TAGS, p, from);
		return from;
	}
	return rest.p;
}

void
finding_search(struct str text, finding_fn *fn, void *arg)
{
	struct search s = { text.p, text.p + text.n, fn, arg };
	const char *p = s.start;

	while ((p = finding_skip(text, p)) < s.end) {
		switch (finding_class[(unsigned char)*p] & LOOK) {
		case DIGIT:
			p = finding_look_number(&s, p);
			break;
		case HIGH:
			p = look_character(&s, p);
			break;
		case ANCHOR:
			p = finding_look_token(&s, p);
			break;
		default:
			p++;
		}
	}
}
