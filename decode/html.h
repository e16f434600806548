/* SPDX-License-Identifier: ISC */
/*
 * html.h - what a page of HTML shows, hides and leads to
 *
 * Memory in, memory out. The report is lines, each a letter, a space and one
 * or two fields with a tab between; fields have no control characters.
 *
 *	T text			all that a reader sees
 *	L target \t text	a link
 *	H how \t text		text that a reader does not see
 *	I target		a picture, font or sheet that is fetched
 *	A name			a script, form, frame, ...
 *
 * What hides is judged by the tree, by style attributes and by style sheets as
 * far as sheet.h reads them. Text that is shown elsewhere too is not hidden.
 */
#ifndef DECODE_HTML_H
#define DECODE_HTML_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes at most `cap` bytes of report to `out`; returns how many. `cut` is
 * set when there was more. False in `ok`: memory ran out.
 */
size_t html_report(unsigned char *out, size_t cap, const char *html, size_t n,
    bool *cut, bool *ok);

#endif
