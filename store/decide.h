/* SPDX-License-Identifier: ISC */
/*
 * decide.h - a person decides. The database has the last word on all of it.
 */
#ifndef STORE_DECIDE_H
#define STORE_DECIDE_H

#include "base/str.h"
#include "base/uuid.h"
#include "store/operator.h"

struct decide_request {
	struct uuid message;
	int version, round;
	unsigned char digest[32];
	char verdict; /* 'a' or 'r' */
	unsigned char once[32]; /* the same press again is the same decision */
	const char *category, *note, *hint; /* reject */
	int seconds; /* between opening the page and deciding */
	/* Approve: what lets the worker send exactly this. */
	struct str relay_box, tag;
	int64_t expiry_us;
	int undo_s;
};

struct decide_answer {
	struct review_answer is;
	int state, version, round; /* as they are now, also on conflict */
	int approvals, need;
	int64_t undo_until_us;
	bool replay;
};

/* Repeats itself once when the connection was lost: `once` makes it safe. */
void decide(const struct store_operator *who,
    const struct decide_request *request, struct decide_answer *out,
    review_done_fn *done, void *arg);

struct undo_answer {
	struct review_answer is;
	int state, version, round;
};
void decide_undo(const struct store_operator *who, const struct uuid *message,
    int version, int round, struct undo_answer *out, review_done_fn *done,
    void *arg);

struct moved_answer {
	struct review_answer is;
	int state; /* as it is now, also on conflict */
};
/* Held, approved or deferred mail does not leave any more. */
void decide_cancel(const struct store_operator *who, const struct uuid *message,
    const char *note, struct moved_answer *out, review_done_fn *done,
    void *arg);

/*
 * What became of recipients (numbers of review_recipient.ix) whose mail may
 * have been sent: `outcome` is "sent", "failed" or "retry", which may send it
 * twice. 409 when none of them is uncertain any more.
 */
void decide_settle(const struct store_operator *who, const struct uuid *message,
    const int *ix, size_t n, const char *outcome, const char *note,
    struct moved_answer *out, review_done_fn *done, void *arg);

#endif
