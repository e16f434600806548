/* SPDX-License-Identifier: ISC */
/*
 * links.h - every address that a message leads to, fetches or hides
 *
 * Findings keep a few examples of each kind; this is the whole list, for the
 * page. Pure: text in, strings out. What is kept is the agent's words: shown
 * only through admin/html.h, never followed or fetched.
 */
#ifndef ADMIN_LINKS_H
#define ADMIN_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

#define LINKS_MAX 200 /* kept of each kind; more are counted */

struct link {
	const char *target;
	const char *text; /* what a reader sees of it; "" in plain text */
	const char *host; /* of a web address, else "" */
	bool differs; /* its text names another place */
	bool odd; /* not plain https, http or mailto; or it hides its host */
};

struct hidden {
	const char *how, *text;
};

/* Starts as {0} but for `mem`. */
struct links {
	struct arena *mem;
	struct link link[LINKS_MAX];
	size_t n, more;
	const char *picture[LINKS_MAX]; /* addresses that HTML would fetch */
	size_t pictures, pictures_more;
	struct hidden hidden[LINKS_MAX];
	size_t hiddens, hiddens_more;
};

/* What postern-decode reports of one part of HTML (decode/html.h). */
void links_html(struct links *links, struct str report);
/* Web addresses that stand in plain text. */
void links_text(struct links *links, struct str text);

#endif
