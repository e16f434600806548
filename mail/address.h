/* SPDX-License-Identifier: ISC */
/*
 * address.h - one mail address: parsed once, compared in one form.
 *
 * Strict RFC 5321 (with RFC 6531 UTF-8): dot-atom or quoted local part, and
 * a domain. The spelling of the caller is kept for the wire. Comparison uses
 * the canonical form (decision D3): local part with A-Z lowered and needless
 * quotes removed, domain as lower A-label. Plus tags are not folded.
 */
#ifndef MAIL_ADDRESS_H
#define MAIL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/errors.h"
#include "base/str.h"

#define ADDRESS_MAX 330 /* with the NUL */
#define ADDRESS_LOCAL_MAX 128 /* liberal: VERP and list tokens exceed 64 */

struct address {
	char wire[ADDRESS_MAX]; /* as between <> */
	char canonical[ADDRESS_MAX]; /* equal strings = same address */
	size_t domain; /* where the domain starts in `canonical` */
	bool utf8_local; /* only SMTPUTF8 can carry it */
	bool utf8_domain; /* U-labels in `wire` */
	bool literal; /* domain is [an address literal] */
};

enum address_result {
	ADDRESS_OK,
	ADDRESS_EMPTY, /* <>, only from address_parse_path() */
	ADDRESS_SYNTAX,
	ADDRESS_TOO_LONG,
	ADDRESS_ROUTE, /* <@a,@b:u@d> */
	ADDRESS_NOT_UTF8,
	ADDRESS_IDNA, /* domain is not valid under IDNA2008 */
};

/* All of `s` is one local@domain. */
enum address_result address_parse(struct address *out, struct str s);
/*
 * An RFC 5321 path "<...>" at the start of `s`; `used` is how many bytes it
 * takes, brackets included, whatever the result if the end was found, else 0.
 */
enum address_result address_parse_path(
    struct address *out, struct str s, size_t *used);
/* One sentence for a person. */
const char *address_result_text(enum address_result r);

/*
 * As it goes out between <>: the spelling of the wire, with a domain of
 * U-labels as A-labels, so that only a local part can need SMTPUTF8.
 */
void address_carried(char out[ADDRESS_MAX], const struct address *a);
bool address_eq(const struct address *a, const struct address *b);
/* The canonical domain; borrowed from `a`. */
struct str address_domain(const struct address *a);
/*
 * May mail go to this domain at all? Not to literals, single labels, and
 * names that public DNS never has (.local, .internal, ...).
 */
bool address_domain_public(const struct address *a);
/*
 * An entry of a list as the database compares it: an address, or `@` and a
 * domain, which may be given without the `@`. False when it is neither, and
 * for "*@domain".
 */
bool address_entry_canonical(char out[ADDRESS_MAX + 1], struct str text);
/* Lower A-label of a domain into `out`; false when it is not one. */
bool address_domain_canonical(char out[256], struct str domain);

/*
 * May it be an inbox of ours (decision D3)? `why` then says why not. The
 * name is checked in its canonical form.
 */
bool address_inbox_valid(const struct address *a, const char **why);

/*
 * Recipients for digest and store: canonical duplicates folded (the first
 * spelling wins; kind: t before c before b before o), byte-sorted by wire.
 */
struct address_rcpt {
	struct str wire;
	char kind; /* 't', 'c', 'b' or 'o' */
};
/* In place; returns the new count. `wire` must parse; others are kept. */
size_t address_rcpt_fold(struct address_rcpt *r, size_t n);

#endif
