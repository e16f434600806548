/* SPDX-License-Identifier: ISC */
/*
 * freeze.h - from what an agent submitted to the bytes that are approved and
 * sent (decision D16), or to the reason why not.
 *
 * Streaming: the header section is held (at most 100 KiB), the body passes
 * through. Refused are: bytes that are not mail lines (bare CR or LF, NUL,
 * lines above 998), a From or Sender that is not exactly the inbox, doubled
 * singletons, Resent-*, loops, MIME that programs read differently. Removed
 * are Bcc and what only we or nobody may say. Added are Received, and Date,
 * Message-ID, MIME-Version where missing. Nothing else is touched.
 */
#ifndef MAIL_FREEZE_H
#define MAIL_FREEZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/errors.h"
#include "base/str.h"
#include "base/uuid.h"
#include "mail/address.h"
#include "mail/finding.h"

#define FREEZE_REFERENCES_MAX 50
#define FREEZE_RECEIVED_MAX 100

struct freeze_conf {
	struct str hostname; /* in Received */
	const char *with; /* "ESMTPSA", "HTTPS" */
	const struct address *inbox; /* the only address it may be from */
	struct uuid message;
	int64_t now_us;
	bool smtputf8; /* UTF-8 in the header is allowed */
	uint64_t size_max; /* of bytes submitted */
};

/* Frozen bytes, in order; nothing before the header section was accepted. */
typedef void freeze_out_fn(void *arg, const void *p, size_t n);

/* What the header said: clear text for lists, and threading. UTF-8. */
struct freeze_info {
	char subject[512];
	char header_from[512]; /* "Name <address>" */
	char message_id[256]; /* with <>; ours when the agent gave none */
	bool has_message_id; /* the agent gave it */
	char in_reply_to[256];
	struct buf references; /* ids joined by \n */
	struct buf rcpt; /* lines "k address\n", k = t c b, as in the header;
		Bcc is here and nowhere else */
	struct buf context; /* Postern-* fields, lines "name: value\n" */
	uint64_t size; /* of the frozen bytes */
	unsigned parts, attachments;
	bool needs_smtputf8; /* UTF-8 in a header, that of a part included */
	bool needs_8bit; /* body has bytes above 127 */
	struct finding_marks findings; /* of the quick search, without those
		that the envelope gives */
	bool findings_partial; /* there is more than it could look into */
	bool links; /* the text has some, or was not all read */
};

struct freeze;

/* `conf` is copied, with what it points to. */
struct freeze *freeze_new(
    const struct freeze_conf *conf, freeze_out_fn *out, void *arg);
/* NULL is fine. */
void freeze_free(struct freeze *f);

/*
 * Any pieces. E_NONE, else the same code for ever (out is not called then).
 * Code, reason and frozen bytes do not depend on how the bytes are cut.
 */
enum err_code freeze_feed(struct freeze *f, const void *p, size_t n);
enum err_code freeze_finish(struct freeze *f);
/* "From is ceo@x; this key may send only as bot@x": at most 200 bytes. */
const char *freeze_why(const struct freeze *f);
/* Complete after freeze_finish() gave E_NONE; belongs to `f`. */
const struct freeze_info *freeze_info(const struct freeze *f);

#endif
