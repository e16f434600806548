/* SPDX-License-Identifier: ISC */
/*
 * sheet.h - style sheets of a page, as far as they can hide its text
 *
 * Selectors of tags, ids, classes and attributes, below each other or not, in
 * rules for screens of any size. What depends on the size of a screen, on the
 * pointer or on neighbours is left out: nobody knows whether it applies.
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

#endif
