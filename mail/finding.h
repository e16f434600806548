/* SPDX-License-Identifier: ISC */
/*
 * finding.h - reasons to look at a message: what is found, and what it weighs.
 *
 * Pure, no I/O. The quick part runs in posternd while bytes pass by; it only
 * orders the queue, and never refuses, delays or changes a message. The whole
 * runs in postern-admin when a person opens it (decision A8). Agents never
 * learn of any of it (A10).
 */
#ifndef MAIL_FINDING_H
#define MAIL_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct address;
struct mime_part;

#define FINDING_SET 1 /* version of finding.def, stored with each message */
#define FINDING_RISK_NONE 10 /* of a message in which nothing was found */
#define FINDING_MANY 20 /* recipients */
/*
 * More than so many times what was usual is odd, from so many messages a day
 * on, after a week of its past or with that much of it.
 */
#define FINDING_VOLUME_TIMES 4
#define FINDING_VOLUME_MIN 20
#define FINDING_VOLUME_HOURS (7 * 24)
#define FINDING_VOLUME_MUCH 1000
#define FINDING_SCAN_MAX (256 * 1024) /* bytes of text searched early */

enum finding {
#define FINDING(id, code, weight, when, text) FINDING_##id,
#include "mail/finding.def"
	FINDING_COUNT
};

const char *finding_code(enum finding f);
/* One sentence for a person. */
const char *finding_text(enum finding f);
int finding_weight(enum finding f);

/* A set of findings. Starts as {0}. */
struct finding_marks {
	uint64_t bits;
};

static inline void
finding_mark(struct finding_marks *m, enum finding f)
{
	m->bits |= UINT64_C(1) << f;
}

static inline bool
finding_marked(const struct finding_marks *m, enum finding f)
{
	return (m->bits >> f & 1) != 0;
}

/* The heaviest weight; 0 when there is none. */
int finding_max(const struct finding_marks *m);
/*
 * 0..100: 100 - 90 * product of (1 - weight / 100) over all marked, each code
 * once. One more finding never lowers it, and it is never below the heaviest.
 */
int finding_risk(const struct finding_marks *m);

/* `recent` messages in 24 hours, after `past` in the `hours` before those. */
bool finding_volume_odd(int64_t recent, int64_t past, int64_t hours);

/*
 * Told of each finding, `what` being the bytes that are meant (borrowed, as
 * the agent wrote them: neutralise before showing).
 */
typedef void finding_fn(void *arg, enum finding f, struct str what);

/*
 * Text in UTF-8 (wrong bytes are skipped): secrets, personal data, characters
 * that deceive. One pass, no memory, nothing recursive.
 */
void finding_search(struct str text, finding_fn *fn, void *arg);
/* A header's decoded text: Subject, a name. */
void finding_search_header(struct str text, finding_fn *fn, void *arg);
/* A file's name as it is shown, and its declared type. */
void finding_search_file(
    struct str name, const char *type, finding_fn *fn, void *arg);
/* Ends like something that runs: of a file, or of one in an archive. */
bool finding_name_runs(struct str name);
/* Has characters that turn or hide text, or gaps, or leads elsewhere. */
bool finding_name_deceives(struct str name);
/* Ends like an archive or image of a disk. */
bool finding_name_packs(struct str name);
/*
 * A domain as lower A-label, against `own`, the inbox's (same form). Only
 * what needs no tables of confusable letters: see finding_domain_like().
 */
void finding_search_domain(
    struct str domain, struct str own, finding_fn *fn, void *arg);
/* The domain of `rcpt`, an address as on the wire. */
void finding_search_rcpt(
    struct str rcpt, struct str own, finding_fn *fn, void *arg);
/* Letters of several scripts in one label of `domain` (A- or U-label). */
bool finding_domain_mixed(struct str domain);
/* Not the same, and one edit or one usual exchange of letters apart? */
bool finding_domain_near(struct str a, struct str b);
/* Not the same, but for letters that look alike in one script (0 and o)? */
bool finding_domain_alike(struct str a, struct str b);
/* Two hosts that one owner has, by their last labels; in any case. */
bool finding_domain_same(struct str a, struct str b);
/*
 * A link of HTML: its target, and the text between <a> and </a> with white
 * space made one.
 */
void finding_search_link(
    struct str target, struct str text, finding_fn *fn, void *arg);
/* The host of a web address, "" when it is none. */
struct str finding_link_host(struct str target);
/* Where answers go, `reply`, against the inbox's own address. */
void finding_search_reply(const struct address *reply,
    const struct address *own, finding_fn *fn, void *arg);

/*
 * The quick search, fed by structure.h while bytes pass: `finding_scan` is
 * the `arg` of structure_new() and `finding_watch` its watch.
 */
struct finding_scan {
	struct finding_marks marks;
	bool partial; /* something was there that could not be searched */
	bool links; /* addresses of the web, or text that was not read */
	bool html; /* the part that passes by */
	struct buf text; /* of the part that passes by */
	size_t searched; /* bytes so far */
	int encoding; /* enum mime_encoding of that part */
	char line[4]; /* base64: digits not yet decoded; QP: an open escape */
	size_t line_n;
};

struct structure_watch;
extern const struct structure_watch finding_watch;
/* A structure_part_fn. */
void finding_scan_part(void *scan, const struct mime_part *part);
void finding_scan_free(struct finding_scan *s);
/*
 * Is `word`, in any case, one of `list`: words in lower case, each between
 * spaces? One with a space in it, or of more than 22 bytes, is none.
 */
bool finding_listed(const char *list, struct str word);
/* A finding_fn that marks; `arg` is a struct finding_marks. */
void finding_note(void *marks, enum finding f, struct str what);

#endif
