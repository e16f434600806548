/* SPDX-License-Identifier: ISC */
/*
 * submit_internal.h - one submission, shared by submit.c (its way) and
 * submit_row.c (what of it goes into the row).
 */
#ifndef STORE_SUBMIT_INTERNAL_H
#define STORE_SUBMIT_INTERNAL_H

#include "mail/address.h"
#include "mail/digest.h"
#include "mail/freeze.h"
#include "seal/body.h"
#include "seal/release.h"
#include "store/store_internal.h"
#include "store/submit.h"

#define RELEASE_LIFE_US (INT64_C(72) * 3600 * 1000 * 1000)

struct submit {
	struct store *st;
	struct store_cred cred; /* a copy; in no list */
	submit_done_fn *done; /* NULL: cancelled */
	submit_room_fn *room;
	void *arg;

	struct submit_envelope env; /* its texts point into `text` */
	struct buf text;
	struct buf rcpts; /* folded, sorted, joined by \n */
	struct buf asked; /* the same without the copy for oversight, if any */
	struct str *rcpt; /* views into rcpts */
	char *kinds;
	unsigned char *notify; /* NULL: no recipient has any */
	struct buf params; /* mail/envelope.h */
	size_t rcpt_count;

	struct uuid message;
	struct seal_hour hour;
	struct secret key;
	struct freeze *freeze;
	struct body_tag *tag;
	struct submit_hash *hash; /* SMTP only */
	struct seal_body *body;
	struct upload *upload; /* NULL until there is a second chunk */
	struct buf only_chunk;
	unsigned chunks;

	struct limit_op *charging;
	struct limit_answer charge;
	bool charged, finished, asking, committing, full;
	enum err_code code;
	char why[200];

	void *filter; /* what the operator's filters do; NULL: none */
	bool filter_full; /* they are behind */
	bool filtering; /* they have not answered */
	struct store_filter_result filtered;

	struct finding_marks findings;

	/* what the row points to */
	struct buf context;
	unsigned char body_tag[32], digest[32], request[32], idem[32];
	bool has_idem;
	unsigned char relay_box[SEAL_RELAY_BOX], release_tag[SEAL_TAG_LEN];
	bool has_release;
	int64_t expiry;
};

/* Copy and fold the envelope. False: code and why are set. */
bool submit_take_envelope(struct submit *s, const struct submit_envelope *env);
/* After the last byte, once: digest, replay key, release. */
void submit_fill(struct submit *s);
/* The replay key alone, for who needs no row. False: it has none. */
bool submit_fill_key(struct submit *s);
void submit_row(struct commit_row *row, const struct submit *s);

/*
 * submit_again.c: was a submission with this replay key stored before? Nothing
 * is stored now. Ends in submit_told(), later; E_NOT_FOUND: it was not.
 */
void submit_ask_again(struct submit *s);
void submit_told(struct submit *s, const struct commit_result *r);

#endif
