/* SPDX-License-Identifier: ISC */
/*
 * findings.h - what is found in a message that a person opened, in full
 *
 * Collected while the message is read (message_read.c, in a thread) and then
 * from what the database knows of its recipients. Details are the agent's
 * words: shown only through admin/html.h, and secrets are never repeated.
 */
#ifndef ADMIN_FINDINGS_H
#define ADMIN_FINDINGS_H

#include "base/arena.h"
#include "base/str.h"
#include "mail/finding.h"

#define FINDINGS_DETAILS 3 /* kept of one kind; more are counted */
#define FINDINGS_DOMAINS 50 /* compared with each other */

struct findings_of {
	size_t count;
	char *detail[FINDINGS_DETAILS];
	size_t details;
};

/* Starts as {0} but for `mem`. */
struct findings {
	struct arena *mem;
	struct finding_marks marks;
	struct findings_of of[FINDING_COUNT];
	char *domain[FINDINGS_DOMAINS]; /* A-labels, each once */
	size_t domains;
};

/* A finding_fn; `arg` is a struct findings. `what` may be empty. */
void findings_add(void *arg, enum finding f, struct str what);
/* Text of a part, or of a file that is text. */
void findings_text(struct findings *f, struct str text);
/* A file: its name, declared type, what sniff_type() says, its bytes. */
void findings_file(struct findings *f, const char *name, const char *type,
    const char *sniffed, struct str bytes);
/*
 * A list that postern-decode made of `file`. The first `max` names go to
 * `inside` (arena); returns how many there are.
 */
size_t findings_archive(struct findings *f, const char *file, struct str list,
    char **inside, size_t max);
/* A header's decoded value or a name in it; NULL is fine. */
void findings_header(struct findings *f, const char *text);
/*
 * A report of postern-decode on a part of HTML; what its reader sees is
 * appended to `shown`.
 */
struct buf;
void findings_html(struct findings *f, struct str report, struct buf *shown);
/* All plain text, and all that the HTML shows: do they say the same? */
void findings_compare_texts(
    struct findings *f, struct str plain, struct str html);
/* Note a domain (any form) of a recipient, Reply-To or link. */
void findings_domain(struct findings *f, struct str domain);
/* All domains are known: do they pose as `own`, each other, well-known ones? */
void findings_compare_domains(struct findings *f, struct str own);

#endif
