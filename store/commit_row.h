/* SPDX-License-Identifier: ISC */
/*
 * commit_row.h - rows of submissions as arguments of the two SQL functions.
 */
#ifndef STORE_COMMIT_ROW_H
#define STORE_COMMIT_ROW_H

#include "store/committer.h"
#include "store/pg.h"

/* Statements that take exactly these arguments. */
extern const char commit_sql_one[];
extern const char commit_sql_batch[];

void commit_row_args(struct pg_args *a, const struct commit_row *row);
void commit_rows_args(
    struct pg_args *a, const struct commit_row *const *row, size_t count);
/* What row `ix` of the answer says. */
void commit_row_result(
    struct commit_result *out, const struct pg_result *res, int ix);
/* Bytes it takes in a batch. */
size_t commit_row_size(const struct commit_row *row);

#endif
