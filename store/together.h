/* SPDX-License-Identifier: ISC */
/*
 * together.h - who looks at a message, comments, and what is new
 *
 * Calls answer as operator.h says.
 */
#ifndef STORE_TOGETHER_H
#define STORE_TOGETHER_H

#include "base/uuid.h"
#include "store/operator.h"

/* Who has a held message open: a soft claim, five minutes long. */
struct look {
	struct review_answer is; /* 409: not held any more */
	char *who; /* NULL: nobody */
	bool mine;
};
/* Say that one looks; `take`: also when somebody else does. */
void look_begin(const struct store_operator *who, const struct uuid *message,
    bool take, struct arena *mem, struct look *out, review_done_fn *done,
    void *arg);
void look_end(const struct store_operator *who, const struct uuid *message,
    struct review_answer *out, review_done_fn *done, void *arg);

struct comment {
	char *who, *text;
	int64_t at_us;
};
struct comments {
	struct review_answer is;
	struct comment *row;
	size_t n;
};
void comment_list(const struct store_operator *who, const struct uuid *message,
    struct arena *mem, struct comments *out, review_done_fn *done, void *arg);
void comment_add(const struct store_operator *who, const struct uuid *message,
    const char *text, struct review_answer *out, review_done_fn *done,
    void *arg);

struct live_look {
	struct uuid message;
	char *who;
};
struct live {
	struct review_answer is;
	int held; /* 1001: more than 1,000 */
	struct uuid *fresh; /* held and newer than `after`, oldest first */
	size_t fresh_n;
	struct live_look *look;
	size_t look_n;
};
/*
 * What an open page wants to know; `after` NULL: nothing is new. `tenant` 0:
 * all in scope.
 */
void live_ask(const struct store_operator *who, const struct uuid *after,
    int64_t tenant, struct arena *mem, struct live *out, review_done_fn *done,
    void *arg);

#endif
