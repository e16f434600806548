/* SPDX-License-Identifier: ISC */
/*
 * html.h - the only way bytes get into a page
 *
 * A page is a list of pieces. LIT() takes nothing but a string literal; every
 * other piece is escaped for the place its name says, so text of a message can
 * not become markup. Characters that hide or reorder text (bidi controls, zero
 * width, C0/C1, broken UTF-8) are written as visible chips, never as
 * themselves.
 *
 *	HTML(out, LIT("<td>"), TEXT(subject), LIT("</td>"));
 */
#ifndef ADMIN_HTML_H
#define ADMIN_HTML_H

#include <stddef.h>
#include <stdint.h>

struct buf;

enum html_kind {
	HTML_LIT, /* a literal of this program, as it is */
	HTML_TEXT, /* element content, one line */
	HTML_LINES, /* element content in which \n and \t stay */
	HTML_ATTR, /* inside double quotes */
	HTML_PATH, /* one path segment or query value inside double quotes */
	HTML_NUM,
};

struct html_piece {
	enum html_kind kind;
	const char *p; /* borrowed until HTML() returns; NULL writes nothing */
	size_t n;
	int64_t v;
};

/* The empty strings around `s` make anything but a literal fail to compile. */
#define LIT(s)                                                                 \
	((struct html_piece){                                                  \
	    .kind = HTML_LIT, .p = "" s "", .n = sizeof("" s "") - 1 })
#define TEXT(s) html_piece_str(HTML_TEXT, (s))
#define TEXTN(p, n) html_piece_mem(HTML_TEXT, (p), (n))
#define LINES(s) html_piece_str(HTML_LINES, (s))
#define LINESN(p, n) html_piece_mem(HTML_LINES, (p), (n))
#define ATTR(s) html_piece_str(HTML_ATTR, (s))
#define PATH(s) html_piece_str(HTML_PATH, (s))
#define NUM(n) ((struct html_piece){ .kind = HTML_NUM, .v = (int64_t)(n) })

/* A literal chosen at run time: `cond` picks one of two literals. */
#define LIT_IF(cond, s)                                                        \
	((struct html_piece){ .kind = HTML_LIT,                                \
	    .p = "" s "",                                                      \
	    .n = (cond) ? sizeof("" s "") - 1 : 0 })

#define HTML(out, ...)                                                         \
	html_put((out), (const struct html_piece[]){ __VA_ARGS__ },            \
	    sizeof((const struct html_piece[]){ __VA_ARGS__ }) /               \
		sizeof(struct html_piece))

struct html_piece html_piece_str(enum html_kind kind, const char *s);
struct html_piece html_piece_mem(enum html_kind kind, const char *p, size_t n);

/* Append the pieces to `out`, each escaped for its kind. */
void html_put(struct buf *out, const struct html_piece *pieces, size_t n);

/*
 * True if the code point changes how its neighbours are read without being
 * seen: controls, bidi marks, zero width, fillers, tags, variation selectors.
 */
int html_is_odd(uint32_t code_point);

#endif
