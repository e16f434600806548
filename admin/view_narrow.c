/* SPDX-License-Identifier: ISC */
/*
 * view_narrow.c - the fields that narrow the queue
 *
 * They stand in the form of the search, folded, and work without scripts; each
 * sends a term of the search (narrow.h).
 */
#include "admin/view.h"

#include <string.h>

#include "admin/html.h"
#include "admin/narrow.h"
#include "base/buf.h"
#include "base/str.h"

static void
put_tick(struct buf *out, const struct view_queue *queue,
    const struct narrow_term *t)
{
	HTML(out, LIT("<label class=\"tick\"><input type=\"checkbox\" name=\""),
	    ATTR(t->field), LIT("\" value=\""), ATTR(t->term), LIT("\""),
	    LIT_IF(narrow_has(queue->narrow, t->term), " checked"), LIT("> "),
	    TEXT(t->label), LIT("</label>"));
}

/* A term of this field that has no option: typed, not chosen. */
static void
put_typed(struct buf *out, const struct view_queue *queue, const char *field)
{
	struct str rest = str_of(queue->narrow->terms), word;
	const char *of;

	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		of = narrow_field(word);
		if (of != NULL && strcmp(of, field) == 0 &&
		    narrow_find(word) == NULL)
			HTML(out, LIT("<option selected>"),
			    TEXTN(word.p, word.n), LIT("</option>"));
	}
}

static void
put_options(struct buf *out, const struct view_queue *queue, const char *field)
{
	size_t i;

	HTML(out, LIT("<option value=\"\">Any</option>"));
	for (i = 0; i < narrow_term_count; i++) {
		const struct narrow_term *t = &narrow_terms[i];

		if (strcmp(t->field, field) == 0)
			HTML(out, LIT("<option value=\""), ATTR(t->term),
			    LIT("\""),
			    LIT_IF(narrow_has(queue->narrow, t->term),
				" selected"),
			    LIT(">"), TEXT(t->label), LIT("</option>"));
	}
	put_typed(out, queue, field);
	HTML(out, LIT("</select></label>"));
}

void
view_narrow(struct buf *out, const struct view_queue *queue)
{
	size_t i;

	if (queue->box != NULL)
		HTML(out, LIT("<input type=\"hidden\" name=\"box\" value=\""),
		    ATTR(queue->box), LIT("\">"));
	if (queue->risk != NULL)
		HTML(out, LIT("<input type=\"hidden\" name=\"risk\" value=\""),
		    ATTR(queue->risk), LIT("\">"));
	HTML(out, LIT("<details class=\"narrow\"><summary>Filter</summary><div>"
		      "<span class=\"ticks\">"));
	for (i = 0; i < narrow_term_count; i++)
		if (strcmp(narrow_terms[i].field, "seen") != 0)
			put_tick(out, queue, &narrow_terms[i]);
		else
			break;
	HTML(out, LIT("</span><label>Open<select name=\"seen\">"));
	put_options(out, queue, "seen");
	HTML(out, LIT("<label>Waiting<select name=\"age\">"));
	put_options(out, queue, "age");
	HTML(out, LIT("<label>Expires<select name=\"left\">"));
	put_options(out, queue, "left");
	HTML(out, LIT("<button>Apply</button></div></details>"));
}

void
view_narrow_said(struct buf *out, const struct view_queue *queue)
{
	struct str rest = str_of(queue->narrow->terms), word;
	const struct narrow_term *t;

	HTML(out, LIT("<p class=\"filter\">"));
	if (queue->narrow->words[0] != '\0')
		HTML(out, LIT("Found for <b><bdi>"), TEXT(queue->narrow->words),
		    LIT("</bdi></b> "));
	while (rest.n > 0) {
		word = str_split(&rest, ' ');
		HTML(out, LIT("<span class=\"chip\">"));
		t = narrow_find(word);
		if (t != NULL)
			HTML(out, TEXT(t->label));
		else
			HTML(out, TEXTN(word.p, word.n));
		HTML(out, LIT("</span> "));
	}
	HTML(out, LIT("<a href=\"/q\">Show all</a></p>"));
}
