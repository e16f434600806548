/* SPDX-License-Identifier: ISC */
/*
 * job.h - one decision over many held messages
 *
 * What a job is about is frozen when it is made. It moves only by calls that
 * show the session which confirmed it, and each item is judged again when its
 * turn comes. Calls answer as operator.h says.
 */
#ifndef STORE_JOB_H
#define STORE_JOB_H

#include "base/str.h"
#include "base/uuid.h"
#include "store/operator.h"
#include "store/review.h"

enum job_state {
	JOB_MADE,
	JOB_RUNNING,
	JOB_PAUSED,
	JOB_CANCELED,
	JOB_DONE,
};

struct job_request {
	struct uuid job; /* a new one */
	char verdict; /* 'a' or 'r' */
	int64_t tenant, inbox; /* 0: all */
	int risk_from, risk_to; /* both 0: any */
	const char *search, *about; /* about: in words, for the page */
	const struct uuid *ids; /* these and no others */
	size_t ids_n;
};
struct job_made {
	struct review_answer is;
	int items, refused;
	bool more;
};
void job_make(const struct store_operator *who,
    const struct job_request *request, struct job_made *out,
    review_done_fn *done, void *arg);

struct job_confirmed {
	struct review_answer is;
	char verdict;
};
/* `items` is the hash that the page showed; the rest counts the first time. */
void job_confirm(const struct store_operator *who, const struct uuid *job,
    const unsigned char items[32], const char *category, const char *note,
    const char *hint, struct job_confirmed *out, review_done_fn *done,
    void *arg);
struct job_undone {
	struct review_answer is;
	int remaining, back; /* to be looked at; came back in all */
};
/* Take back what it approved and what has not left; ends a job that runs. */
void job_undo(const struct store_operator *who, const struct uuid *job,
    int limit, struct job_undone *out, review_done_fn *done, void *arg);

/* To JOB_PAUSED or JOB_CANCELED. */
void job_stop(const struct store_operator *who, const struct uuid *job,
    enum job_state to, struct review_answer *out, review_done_fn *done,
    void *arg);

struct job_step {
	struct review_answer is;
	enum job_state state;
	int remaining;
};
void job_reject(const struct store_operator *who, const struct uuid *job,
    int limit, struct job_step *out, review_done_fn *done, void *arg);

/* What approving an item needs; `keys` as review_keys() gives them. */
struct job_next_item {
	int ix;
	struct uuid message;
	int64_t not_after;
	struct review_keys keys;
};
struct job_next {
	struct review_answer is;
	struct job_next_item *row;
	size_t n;
};
void job_next(const struct store_operator *who, const struct uuid *job,
    int limit, struct arena *mem, struct job_next *out, review_done_fn *done,
    void *arg);
/* `failed`: it cannot be released, this is why. */
struct job_release {
	int ix;
	struct str relay_box, tag;
	int64_t expiry_us;
	int undo_s;
	const char *failed;
};
void job_approve(const struct store_operator *who, const struct uuid *job,
    const struct job_release *release, struct job_step *out,
    review_done_fn *done, void *arg);

struct job {
	struct uuid id;
	char verdict;
	enum job_state state;
	char *about, *category, *note, *hint;
	int items, done, failed, refused;
	int undone; /* came back */
	int undo_left; /* still to be looked at; -1: nobody asked */
	unsigned char items_sha256[32];
	int64_t made_us, confirmed_us, moved_us, ended_us, now_us;
	bool more; /* than the 50,000 it takes */
};
struct jobs {
	struct review_answer is;
	struct job *row;
	size_t n;
};
/* One's own, newest first; `job` NULL: all of them. */
void job_list(const struct store_operator *who, const struct uuid *job,
    struct arena *mem, struct jobs *out, review_done_fn *done, void *arg);

struct job_item {
	int ix, risk;
	struct uuid message;
	char *address, *rcpts, *outcome;
	const char *subject;
};
struct job_items {
	struct review_answer is;
	struct job_item *row;
	size_t n;
};
#define JOB_ITEMS 200
/* At most JOB_ITEMS behind number `after`; `problems`: only what was not
 * done. */
void job_items(const struct store_operator *who, const struct uuid *job,
    bool problems, int after, struct arena *mem, struct job_items *out,
    review_done_fn *done, void *arg);

#endif
