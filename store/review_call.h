/* SPDX-License-Identifier: ISC */
/*
 * review_call.h - how operator.c, review.c and decide.c call the database
 */
#ifndef STORE_REVIEW_CALL_H
#define STORE_REVIEW_CALL_H

#include "store/operator.h"
#include "store/pg.h"

/* Reads the rows of an answer below 300 into `out`. */
typedef void review_fill_fn(
    void *out, struct arena *mem, const struct pg_result *res);

struct review_call {
	const char *sql; /* a literal */
	struct pg_args args;
	struct arena *mem; /* NULL when nothing is copied */
	void *out; /* begins with a struct review_answer */
	review_fill_fn *fill; /* NULL: only status and code */
	/* Also for answers of 300 and more (conflict: the present state). */
	bool fill_always;
	review_done_fn *done;
	void *arg;
};

/* A call that shows the session first and, until said otherwise, only acts. */
struct review_call review_begin(const struct store_operator *who,
    const char *sql, void *out, review_done_fn *done, void *arg);
/* Frees the arguments, which may be secret. */
void review_call(struct review_db *db, struct review_call *call);

/* Connect with a login; review_db_new() and factor_db_new() do. */
struct review_db *review_db_open(struct loop *loop, const struct conf *conf,
    const char *login, const char *program);

void review_session_arg(struct pg_args *a, const struct store_operator *who);
/* An id of ours; 0 is null. */
void review_id_arg(struct pg_args *a, int64_t id);
char *review_text(
    struct arena *mem, const struct pg_result *res, int row, const char *col);

#endif
