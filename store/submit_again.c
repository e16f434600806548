/* SPDX-License-Identifier: ISC */
/*
 * submit_again.c - a submission that the limiter refuses, and that may repeat
 * one stored before: whoever lost the answer gets it all the same (D15).
 */
#include "store/commit_row.h"
#include "store/submit_internal.h"

static void
on_answer(void *arg, enum pg_err err, const struct pg_result *res)
{
	struct commit_result r = { .code = store_row_code(err, res) };

	if (r.code == E_NONE)
		commit_row_result(&r, res, 0);
	submit_told(arg, &r);
}

void
submit_ask_again(struct submit *s)
{
	struct pg_args args = { 0 };

	store_cred_args(&args, &s->cred);
	pg_bool(&args, s->env.door == SUBMIT_SMTP);
	pg_bytes(&args, s->idem, sizeof(s->idem));
	pg_bytes(&args, s->request, sizeof(s->request));
	pg_call_move(s->st->pool,
	    "select * from api.submit_again_1($1,$2,$3,$4,$5,$6)", &args,
	    on_answer, s);
}
