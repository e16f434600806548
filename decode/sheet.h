/* SPDX-License-Identifier: ISC */
/*
 * sheet.h - style sheets of a page, as far as they can hide its text
 *
 * Selectors of tags, ids, classes and attributes, below or behind each other,
 * in rules for screens of any usual size. What depends on another size or on
 * the pointer is left out: nobody knows whether it applies. What depends on the
 * place among others, or is not true of something, is taken to apply.
 */
#ifndef DECODE_SHEET_H
#define DECODE_SHEET_H

#include <gumbo.h>
#include <stdbool.h>
#include <stddef.h>

struct sheet;

/* The value of an attribute, which the page keeps; or NULL. */
const char *sheet_attribute(const GumboNode *node, const char *name);

/* NULL: memory ran out. */
struct sheet *sheet_new(void);
void sheet_free(struct sheet *s);
/* Every <style> of the page, wherever it stands. */
void sheet_read(struct sheet *s, const GumboNode *root);
/*
 * Writes the declarations that apply to `node`, the strongest last, each with
 * a ';' behind it, to `out`, and a NUL. False: it would take too long.
 */
bool sheet_of(struct sheet *s, const GumboNode *node, char *out, size_t cap);
/*
 * Text that rules for "::before" and "::after" show, whether or not there is
 * such an element: may be none.
 */
void sheet_made(
    struct sheet *s, void (*each)(void *arg, const char *text), void *arg);
/* After all of these: why rules were left out that may hide text, or NULL. */
const char *sheet_unjudged(const struct sheet *s);

#endif
