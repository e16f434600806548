/* SPDX-License-Identifier: ISC */
/*
 * identity.h - what the Postern-Identity field says of a message, and how a
 * reader finds out whether it is that message's. Layout: docs/formats.md.
 *
 * Hosts on the way add fields of their own, or such as nobody knows, and change
 * white space between words; that is all that may change.
 */
#ifndef MAIL_IDENTITY_H
#define MAIL_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define IDENTITY_NAME "Postern-Identity"
#define IDENTITY_SALT 12
#define IDENTITY_RCPT 16 /* bytes of a recipient's hash */
#define IDENTITY_MORE_MAX 2048

/* A message read piece by piece, with CRLF or LF. */
struct identity_scan;
/* `hash`: of the body, which takes longer than all else done with it. */
struct identity_scan *identity_scan_new(bool hash);
void identity_scan_add(struct identity_scan *s, const char *p, size_t n);
/*
 * SHA-256 of the body as RFC 6376 3.4.3 has it, or zeros where it is not asked
 * for, and the header section, good until identity_scan_free().
 */
void identity_scan_end(
    struct identity_scan *s, unsigned char body[32], struct str *head);
/* NULL is fine. */
void identity_scan_free(struct identity_scan *s);

/*
 * Is a field of this name covered? What hosts on the way add or replace never
 * is; what readers show or act upon always is, and so is a name that `more`
 * has: the claim header_more, names in lower case with ':' between them, or
 * "*" for all names.
 */
bool identity_covers(struct str name, struct str more);
/*
 * Append what `more` is for this header: each name that is covered only if it
 * is named, at most IDENTITY_MORE_MAX bytes, or "*" where they are more.
 */
void identity_more(struct buf *out, struct str head);
/*
 * SHA-256 of the covered fields, each as RFC 6376 3.4.2 has it, in order: one
 * more or one less changes it.
 */
void identity_head_hash(
    unsigned char out[32], struct str head, struct str more);
/* Of one recipient, under a salt, with To and Cc of the header. */
void identity_rcpt_hash(unsigned char out[IDENTITY_RCPT],
    const unsigned char salt[IDENTITY_SALT], struct str address,
    struct str head);
/* Does To or Cc name it? */
bool identity_is_visible(struct str head, struct str address);
/* Each address in To and Cc, canonical; false stops. */
typedef bool identity_address_fn(void *arg, struct str address);
void identity_visible(struct str head, identity_address_fn *fn, void *arg);

struct identity {
	struct str inbox; /* address */
	bool by_person; /* else by the inbox's mode or a rule */
	const char *approval; /* msg_....version.round */
	int64_t approved_us;
	struct str front; /* fields of ours before it, covered alike */
	struct str head; /* as it was approved */
	unsigned char body[32];
	unsigned char salt[IDENTITY_SALT];
	const struct str *rcpt;
	size_t rcpt_count;
};

/* The claims as JSON. */
void identity_claims(struct buf *out, const struct identity *id);
/* The field with its final CRLF; the JWS is folded. */
void identity_field(struct buf *out, struct str jws);

#endif
